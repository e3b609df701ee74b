"""How fast training, evaluation and acting are, each beside what the machine could do, measured in one run.

    make speed            (or: python benchmarks/speed.py --seconds 20)

Updates per second at the paper's size (batch 1024, nets 256 x 256, latent 32, observation 8, action 2) stand beside
the best large float32 matrix product that NumPy or JAX reaches in the same run: other jobs slow both alike.
"""

import argparse
import resource
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from work import update_gflop

from lspc import algos, data, files, training
from lspc.algos import base
from lspc.algos.base import Spec
from lspc.policy import TrainedPolicy
from lspc.sims import make
from lspc.sims.pool import Pool
from lspc.tasks import Task, get_task
from lspc.training.settings import resolve
from lspc.version import __version__

LSPC = algos.get("lspc")


def best_rate(work: Callable[[], object], seconds: float) -> float:
    """Calls per second, by the fastest call seen: what the machine does when nothing disturbs it."""
    work()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return 1.0 / best


def matmul_gflops(seconds: float) -> float:
    size = 2048
    left = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    on_device = jnp.asarray(left)
    product = jax.jit(lambda x: x @ x)
    rates = [
        best_rate(lambda: left @ left, seconds),
        best_rate(lambda: product(on_device).block_until_ready(), seconds),
    ]
    return 2 * size**3 * max(rates) / 1e9


def training_rate(method: str, preset: str, seconds: float, length: int) -> tuple[float, Spec, Any]:
    """Updates per second of one seed, and what it was trained for."""
    dataset, module = data.load(data.bundled_file()), algos.get(method)
    config = resolve(module, preset, get_task("BallCircle")).config
    learned = module.prepare(dataset, config)
    spec = Spec.of(learned)
    chunk = training.make_chunk(module, spec, config)
    rows = jax.device_put(getattr(module, "table", base.table)(learned, config))
    holder, seeds = {"states": training.init_states(module, spec, config, [0])}, jnp.asarray([0])

    def work() -> None:
        holder["states"], metrics = chunk(holder["states"], seeds, rows, jnp.asarray(0), length=length)
        jax.block_until_ready(metrics)

    return length * best_rate(work, seconds), spec, config


def untrained_policy(task: Task) -> TrainedPolicy:
    o = task.observation_dim
    spec = Spec(o, task.action_dim, (0.0,) * o, (1.0,) * o, 0.0, 1.0, 1.0, 1.0, task.episode_length)
    config = resolve(LSPC, "paper", task).config
    net = LSPC.policy(LSPC.init(jax.random.key(0), spec, config))
    return TrainedPolicy(net, "LSPC-O", {"spec": {"observation_dim": o}})


def plain_loop(task: Task, policy: TrainedPolicy, seeds: range) -> None:
    """What one writes by hand: one episode after the other, one action at a time."""
    simulator = make(task, pictures=False)
    for seed in seeds:
        observation, ended = simulator.reset(seed), False
        while not ended:
            observation, _, _, terminated, truncated = simulator.step(policy.act(observation))
            ended = terminated or truncated
    simulator.close()


def simulator_rates(name: str, seconds: float) -> dict[str, float]:
    """Milliseconds of a seeded reset and steps per second under random actions, in this process."""
    task = get_task(name)
    simulator, rng = make(task, pictures=False), np.random.default_rng(0)
    simulator.reset(0)
    resets: list[float] = []
    steps, stepping, ended = 0, 0.0, True
    while stepping < seconds:
        if ended:
            began = time.perf_counter()
            simulator.reset(len(resets))
            resets.append(time.perf_counter() - began)
        action = rng.uniform(-1, 1, task.action_dim).astype(np.float32)
        began = time.perf_counter()
        step = simulator.step(action)
        stepping += time.perf_counter() - began
        steps, ended = steps + 1, step.terminated or step.truncated
    simulator.close()
    return {f"reset_ms_{name}": 1e3 * float(np.median(resets)), f"steps_per_second_{name}": steps / stepping}


def evaluation_rates(name: str, count: int) -> dict[str, float]:
    """Episodes per second in a plain loop and in the pool, workers started and everything compiled before."""
    task = get_task(name)
    policy, seeds = untrained_policy(task), range(count)
    policy.act(np.zeros(task.observation_dim, np.float32))
    began = time.perf_counter()
    plain_loop(task, policy, seeds)
    alone = count / (time.perf_counter() - began)
    with Pool(task) as pool:
        act = policy.for_episodes(sampled=False)
        pool.run(act, seeds[:2])
        began = time.perf_counter()
        pool.run(act, seeds)
        together = count / (time.perf_counter() - began)
    return {
        f"episodes_per_second_{name}_plain_loop": alone,
        f"episodes_per_second_{name}_pool": together,
        f"pool_speedup_{name}": together / alone,
    }


def training_figures(seconds: float) -> dict[str, float]:
    limit = matmul_gflops(seconds / 5)
    paper, spec, config = training_rate("lspc", "paper", seconds, 25)
    gflop = update_gflop(spec, config)
    ours, spec, config = training_rate("lspc", "default", seconds, 50)
    our_gflop = update_gflop(spec, config)
    limit = max(limit, matmul_gflops(seconds / 5))
    policy = untrained_policy(get_task("BallCircle"))
    observation = np.zeros(8, np.float32)
    return {
        "matmul_gflops": limit,
        "gflop_per_update": gflop,
        "updates_per_second_paper": paper,
        "share_of_matmul_limit_paper": paper * gflop / limit,
        "updates_per_second_default": ours,
        "share_of_matmul_limit_default": ours * our_gflop / limit,
        "microseconds_per_action": 1e6 / best_rate(lambda: policy.act(observation), seconds / 5),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def method_figures(seconds: float) -> dict[str, float]:
    """Every method as its cpu preset trains it, and how long that preset takes in all."""
    figures = {}
    for method in algos.METHODS:
        rate, _, config = training_rate(method, "cpu", seconds / 3, 20)
        figures[f"updates_per_second_cpu_{method}"] = rate
        figures[f"minutes_cpu_{method}"] = config.steps / rate / 60
    return figures


def pool_figures(seconds: float) -> dict[str, float]:
    counts = {"BallCircle": 160, "CarCircle": 24, "CarGoal1": 20, "easysparse": 20}  # 20: the protocol's number
    return {name: rate for task, count in counts.items() for name, rate in evaluation_rates(task, count).items()}


def simulator_figures(seconds: float) -> dict[str, float]:
    tasks = ["BallCircle", "CarCircle", "CarGoal1", "CarButton2", "HalfCheetahVelocity", "easysparse", "harddense"]
    return {name: rate for task in tasks for name, rate in simulator_rates(task, seconds / 5).items()}


PARTS = {
    "training": training_figures,
    "methods": method_figures,
    "pool": pool_figures,
    "simulators": simulator_figures,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=15.0, help="time spent on each measurement")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    if not data.bundled_file().exists():
        parser.error("the bundled dataset is missing")
    figures = {name: value for part in options.parts for name, value in PARTS[part](options.seconds).items()}
    for name, value in figures.items():
        print(f"{name:<45} {value:10.3g}")
    if options.json:
        command = shlex.join(["python", *sys.argv])
        files.write_json(options.json, {"lspc_version": __version__, "command": command, **figures})


if __name__ == "__main__":
    main()
