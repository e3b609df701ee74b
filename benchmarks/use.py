"""Where the time goes when data are collected, policies measured and budgets calibrated, on one thread.

    python benchmarks/use.py --json results/use.json

Of what needs a simulator, its share of the processor time: the rest is ours. Of calibration, the time of an update
of its ensembles, in updates of LSPC (`default`) measured in the same run.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from typing import Any

import jax
import numpy as np
from updates import LSPC, Ours

from lspc import files, sims
from lspc.algos.lspc import LspcPolicy
from lspc.calibration import dynamics, fitted_q
from lspc.calibration.families import LspcFamily
from lspc.policy import TrainedPolicy
from lspc.sims import _worker
from lspc.sims.collect.agent import train_agent
from lspc.sims.collect.population import AgentSpec
from lspc.sims.pool import Pool
from lspc.tasks import get_task
from lspc.version import __version__


class Timed:
    """A simulator that knows how long it took, and how many steps."""

    seconds, steps = 0.0, 0

    def __init__(self, simulator: Any) -> None:
        self._simulator = simulator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._simulator, name)
        if name not in ("step", "reset"):
            return found

        def timed(*arguments: Any) -> Any:
            began = time.process_time()
            try:
                return found(*arguments)
            finally:
                Timed.seconds += time.process_time() - began
                Timed.steps += name == "step"

        return timed


def make_timed(*arguments: Any, make: Any = sims.make, **named: Any) -> Any:
    return Timed(make(*arguments, **named))


def share(work: Any) -> tuple[float, float, float]:
    """The simulator's share of the processor time, steps per second of all of it, and of the simulator's part."""
    Timed.seconds, Timed.steps = 0.0, 0
    began = time.process_time()
    work()
    whole = time.process_time() - began
    return Timed.seconds / whole, Timed.steps / whole, Timed.steps / Timed.seconds


def measure_simulators(name: str) -> dict[str, float]:
    task = get_task(name)
    sims.make = _worker.make = make_timed
    agent = AgentSpec(name, 0, None, 0.0, 4096, 0, 0)
    train_agent(agent, lambda _: None)  # compiles
    collecting = share(lambda: train_agent(agent, lambda _: None))
    ours = Ours("default", 256)
    net = LSPC.policy(LSPC.init(jax.random.key(0), ours.spec, ours.config))
    policy = TrainedPolicy(net, "LSPC-O", {"spec": {"observation_dim": task.observation_dim}})
    with Pool(task, workers=0) as pool:
        act = policy.for_episodes(sampled=False)
        pool.run(act, range(2))
        evaluating = share(lambda: pool.run(act, range(20)))
    found: dict[str, float] = {}
    for what, (inside, steps, raw) in {"collecting": collecting, "evaluating": evaluating}.items():
        found[f"{what} {name}: share of the time inside the simulator"] = inside
        found[f"{what} {name}: steps per second"] = steps
        found[f"{what} {name}: steps per second of the simulator alone"] = raw
    return found


def measure_calibration(updates: int = 20) -> dict[str, float]:
    ours = Ours("default", 256)
    dataset = ours.dataset.scale_actions()
    policy = LSPC.policy(LSPC.init(jax.random.key(0), ours.spec, ours.config))
    assert isinstance(policy, LspcPolicy)
    family = LspcFamily(policy)
    horizon = int(dataset.lengths.max())
    ours.run(2)
    fits = {
        "dynamics models (4)": lambda: dynamics.fit(dataset, dynamics.Config(updates=updates), seed=0),
        "fitted Q (5)": lambda: fitted_q.fit(
            dataset, family, fitted_q.Config(updates=updates), seed=0, horizon=horizon
        ),
    }
    found: dict[str, float] = {}
    for name, fit in fits.items():
        fit()
        ratios = []
        for _ in range(5):
            began = time.process_time()
            fit()
            ratios.append((time.process_time() - began) / ours.run(updates))
        found[f"calibrating: an update of the {name}, in updates of LSPC"] = float(np.median(ratios))
    return found


def measure_start() -> dict[str, float]:
    """Processor seconds of `lspc train` for one update of LSPC: with nothing compiled yet, and again."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LSPC_CACHE": f"{folder}/cache"}
        for what in ("nothing compiled yet", "again"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "lspc", "train", "--steps", "1", "--out", f"{folder}/{what}"]
            subprocess.run(command, env=environment, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[f"lspc train, one update, {what}: seconds"] = spent
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", nargs="+", default=["BallCircle"])
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    figures = {name: value for task in options.tasks for name, value in measure_simulators(task).items()}
    figures |= measure_calibration() | measure_start()
    for name, value in figures.items():
        print(f"{name:<75} {value:8.3g}")
    if options.json:
        command = shlex.join(["python", *sys.argv])
        files.write_json(options.json, {"lspc_version": __version__, "command": command, **figures})


if __name__ == "__main__":
    main()
