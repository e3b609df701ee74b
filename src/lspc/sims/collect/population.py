"""Making a dataset: a population of PPO-Lagrangian agents, from unconstrained to strict, every episode recorded.

On MetaDrive most of the population are drivers, built on the simulator's own, from a crawl to reckless.

Each agent is one process with one thread and its own seed, so the population uses every core and the result does
not depend on how many there are. A finished agent's episodes wait in a folder beside the output: an interrupted
collection goes on from there. At the end DSRL's grid filter keeps a set that covers the cost x reward plane.
"""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lspc import data, files, sims
from lspc.data.formats import HDF5_SUFFIXES, NPZ_SUFFIX
from lspc.data.grid import grid_filter
from lspc.errors import UserError
from lspc.sims.pool import usable_cores
from lspc.system import end_with_parent
from lspc.tasks import Task, get_task
from lspc.version import __version__

LIMITS: tuple[float | None, ...] = (None, 0.8, 0.5, 0.25, 0.125, 0.06, 0.03, 0.0)
"""Cost limits of the population as shares of the task's maximum cost; None is unconstrained."""
START_MULTIPLIERS = (0.0, 0.0, 0.0, 0.2, 0.5, 1.0, 0.5, 1.0)
"""Where each agent's multiplier begins: careful from the start, or learning care from its own costs."""
STEPS = {"bullet": 150_000, "safety_gymnasium": 300_000, "metadrive": 30_000}
"""Simulator steps per agent unless told: more where episodes are long, fewer where the simulator is slow."""
STEPS_PER_ITERATION = 2048
SPEEDS = (6, 13), (13, 26), (26, 60)
"""km/h of MetaDrive's drivers: careful, hurried, racing."""
FIELDS = ("observations", "actions", "rewards", "costs", "next_observations", "terminals", "timeouts")


@dataclass(frozen=True)
class AgentSpec:
    """All that decides what one agent of the population records."""

    task: str
    index: int
    cost_limit: float | None
    start_multiplier: float
    steps: int
    warmup: int
    """Steps before the cost limit begins to act."""
    seed: int
    driver: bool = False
    """No learner, but MetaDrive's own driver in many manners."""


def population(task: Task, agents: int, steps: int, warmup: int, seed: int) -> list[AgentSpec]:
    specs = []
    for i in range(agents):
        share = LIMITS[i % len(LIMITS)]
        limit = None if share is None else share * task.cost_max
        multiplier = START_MULTIPLIERS[i % len(LIMITS)]
        # In so few steps a learner hardly leaves the first bend of a road; most of the population are drivers.
        driver = task.suite == "metadrive" and i % 4 != 0
        specs.append(
            AgentSpec(task.name, i, limit, 0.0 if warmup else multiplier, steps, warmup, seed * 1000 + i, driver)
        )
    return specs


def worlds(task: Task) -> int:
    """How many simulators an agent learns in at a time."""
    return 1 if task.suite in sims.ONE_WORLD_PER_PROCESS else 8


class Recorder:
    """Keeps every transition of every simulator and cuts it into finished episodes."""

    def __init__(self, simulators: int) -> None:
        self.open: list[list[tuple[Any, ...]]] = [[] for _ in range(simulators)]
        self.done: list[list[tuple[Any, ...]]] = []

    def add(self, simulator: int, transition: tuple[Any, ...], ended: bool) -> None:
        self.open[simulator].append(transition)
        if ended:
            self.done.append(self.open[simulator])
            self.open[simulator] = []

    def arrays(self) -> dict[str, np.ndarray]:
        columns = zip(*(row for episode in self.done for row in episode), strict=True)
        kinds = (np.float32,) * 5 + (np.bool_,) * 2
        return {name: np.asarray(c, dtype=k) for name, c, k in zip(FIELDS, columns, kinds, strict=True)}


class RunningNorm:
    """Mean and spread of the observations seen so far, changed between iterations only."""

    def __init__(self, size: int):
        self.count, self.mean, self.square = 1e-4, np.zeros(size), np.ones(size) * 1e-4

    def update(self, x: np.ndarray) -> None:
        total = self.count + len(x)
        delta = x.mean(0) - self.mean
        self.square += x.var(0) * len(x) + delta**2 * self.count * len(x) / total
        self.mean += delta * len(x) / total
        self.count = total

    def __call__(self, x: np.ndarray) -> np.ndarray:
        scale = np.sqrt(self.square / self.count) + 1e-4
        return np.clip((x - self.mean) / scale, -10, 10).astype(np.float32)


def train_agent(spec: AgentSpec, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, np.ndarray]:
    """Train one PPO-Lagrangian agent and return every finished episode as DSRL's flat arrays."""
    import jax
    import jax.numpy as jnp

    from lspc.sims.collect import ppo

    task = get_task(spec.task)
    config = ppo.Config()
    # A good step is then worth about 0.1 and a return-to-go stays within the reach of a fresh value network.
    reward_scale = 0.1 * task.episode_length / task.reward_max
    rng = np.random.default_rng(spec.seed)
    key = jax.random.key(spec.seed)
    key, init_key = jax.random.split(key)
    state = ppo.init(init_key, task.observation_dim, task.action_dim, config, spec.start_multiplier)
    count = worlds(task)
    simulators = [sims.make(task, pictures=False) for _ in range(count)]
    observations = np.stack([s.reset(int(rng.integers(2**31))) for s in simulators])
    norm, recorder = RunningNorm(task.observation_dim), Recorder(count)
    episode_costs, episode_rewards, taken = [0.0] * count, [0.0] * count, 0

    while taken < spec.steps:
        layers = [(np.asarray(l.weight), np.asarray(l.bias)) for l in state.agent.policy.layers]
        std = np.exp(np.asarray(state.agent.log_std))
        rows, finished = [], []
        for _ in range(STEPS_PER_ITERATION // count):
            x = seen = norm(observations)
            for weight, bias in layers[:-1]:
                x = np.tanh(x @ weight + bias)
            mean = x @ layers[-1][0] + layers[-1][1]
            noise = rng.standard_normal(mean.shape).astype(np.float32)
            actions = mean + std * noise
            following = observations.copy()
            row_end = np.zeros((count, 4), np.float32)
            for i, simulator in enumerate(simulators):
                applied = np.clip(actions[i], -1.0, 1.0)
                step = simulator.step(applied)
                ended = step.terminated or step.truncated
                transition = (
                    observations[i].copy(), applied, step.reward, step.cost, step.observation,
                    step.terminated, step.truncated,
                )  # fmt: skip
                recorder.add(i, transition, ended)
                row_end[i] = step.reward * reward_scale, step.cost * 0.1, step.terminated, ended
                following[i] = step.observation
                episode_costs[i] += step.cost
                episode_rewards[i] += step.reward
                if ended:
                    finished.append((episode_rewards[i], episode_costs[i]))
                    episode_rewards[i] = episode_costs[i] = 0.0
            log_probability = (-0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(-1)
            rows.append((seen, actions, log_probability, row_end, norm(following), observations.copy()))
            for i, simulator in enumerate(simulators):
                observations[i] = simulator.reset() if row_end[i, 3] else following[i]
            taken += count
        seen, actions, log_probability, ends, following, raw = (np.stack(c) for c in zip(*rows, strict=True))
        rollout = ppo.Rollout(
            *map(jnp.asarray, (seen, actions, log_probability, ends[..., 0], ends[..., 1])),
            next_observations=jnp.asarray(following),
            terminated=jnp.asarray(ends[..., 2]),
            ended=jnp.asarray(ends[..., 3]),
        )
        if finished and spec.cost_limit is not None and taken > spec.warmup:
            cost = jnp.asarray(np.mean([c for _, c in finished]))
            multiplier = ppo.update_multiplier(state.multiplier, cost, spec.cost_limit, config.multiplier_rate)
            state = state._replace(multiplier=multiplier)
        key, update_key = jax.random.split(key)
        state = ppo.update(state, rollout, update_key, config)
        norm.update(raw.reshape(-1, task.observation_dim))
        if finished:
            reward, cost = np.mean(finished, axis=0)
            on_progress({"steps": taken, "reward": float(reward), "cost": float(cost),
                         "multiplier": float(state.multiplier)})  # fmt: skip
    for simulator in simulators:
        simulator.close()
    return recorder.arrays()


def drive(spec: AgentSpec, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, np.ndarray]:
    """Episodes of MetaDrive's own driver, each in another manner: from a crawl to reckless, on roads 0 to 9.

    Half of them are on road 0, the one that policies are evaluated on; DSRL's data come from all ten.
    """
    from lspc.sims.metadrive import ROAD_COUNT, IDMDriver, MetaDriveSimulator

    task, rng, recorder = get_task(spec.task), np.random.default_rng(spec.seed), Recorder(1)
    taken = 0
    while taken < spec.steps:
        road = 0 if rng.random() < 0.5 else int(rng.integers(1, ROAD_COUNT))
        simulator = MetaDriveSimulator(task, pictures=False, road_number=road)
        observation = simulator.reset(int(rng.integers(2**31)))
        driver = IDMDriver(
            simulator,
            rng,
            # Ten km/h cost nothing: half of the drivers keep near it, and one in ten races.
            target_speed=float(rng.uniform(*SPEEDS[int(rng.choice(len(SPEEDS), p=(0.5, 0.4, 0.1)))])),
            acceleration=float(rng.choice([0.3, 0.6, 1.2, 2.4])),
            lane_changes=bool(rng.random() < 0.5),
            brakes=bool(rng.random() < 0.7),
            noise=float(rng.choice([0.02, 0.1, 0.2, 0.3])),
        )
        reward, cost, ended = 0.0, 0.0, False
        while not ended:
            action = driver.act()
            step = simulator.step(action)
            ended = step.terminated or step.truncated
            transition = observation, action, *step[1:3], step.observation, step.terminated, step.truncated
            recorder.add(0, transition, ended)
            observation, reward, cost, taken = step.observation, reward + step.reward, cost + step.cost, taken + 1
        simulator.close()
        on_progress({"steps": min(taken, spec.steps), "reward": reward, "cost": cost})
    return recorder.arrays()


Progress = Callable[[int, dict[str, Any]], None]
"""Called with an agent's index and its latest steps, mean episode reward and cost, and (of a learner) multiplier."""


def collect(
    task: Task | str,
    out: str | Path,
    *,
    agents: int = len(LIMITS),
    steps: int | None = None,
    warmup: int = 0,
    episodes: int | None = None,
    seed: int = 0,
    compact: bool = False,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> data.Dataset:
    """Collect a dataset for `task` and write it to `out`; the same arguments give the same file, byte for byte."""
    task = get_task(task) if isinstance(task, str) else task
    out = Path(out)
    steps = STEPS[task.suite] if steps is None else steps
    check(task, out, agents=agents, steps=steps, episodes=episodes, seed=seed, workers=workers)
    workers = usable_cores() if workers is None else workers
    episodes = task.dataset_episodes if episodes is None else episodes
    specs = population(task, agents, steps, warmup, seed)
    parts = out.with_name(out.name + ".parts")
    with files.locked(parts):
        _run_population(specs, parts, workers, on_progress or (lambda *_: None))
        everything = _join([_part(parts, spec) for spec in specs])
        dataset = choose_episodes(everything, task, episodes, seed)
        if compact:
            dataset = rounded(dataset)
        settings = {
            "agents": agents,
            "steps": steps,
            "warmup": warmup,
            "episodes": episodes,
            "seed": seed,
            "compact": int(compact),
        }
        data.save(dataset, out, metadata={"task": task.name, "collected_by": f"lspc {__version__}", **settings})
        shutil.rmtree(parts)
    return dataset


def check(
    task: Task, out: Path, *, agents: int, steps: int, episodes: int | None, seed: int, workers: int | None
) -> None:
    """Refuse what cannot end well, before any work."""
    if min(agents, 1 if workers is None else workers, 1 if episodes is None else episodes) < 1 or seed < 0:
        raise UserError("agents, workers and episodes must be 1 or more, and the seed 0 or more")
    least = worlds(task) * task.episode_length
    if steps < least:
        raise UserError(f"{steps} steps are too few for an episode of {task.name}: give an agent {least} or more")
    if out.suffix.lower() not in (*HDF5_SUFFIXES, NPZ_SUFFIX):
        raise UserError(f"{out}: give it a name that ends in .hdf5 or .npz")
    sims.make(task).close()  # a missing simulator is told here, once, not by every agent


def choose_episodes(everything: data.Dataset, task: Task, episodes: int, seed: int) -> data.Dataset:
    """DSRL's grid filter with the fullest cells that leave at most `episodes` episodes.

    Episodes below the task's smallest return, such as a car that drives backwards, are left out as in DSRL's data.
    If one episode per cell is too many already, as many of those as are wanted are drawn at random.
    """
    forward = np.flatnonzero(everything.returns >= task.reward_min)

    def chosen(max_per_cell: int) -> np.ndarray:
        in_cells = grid_filter(
            everything.returns[forward],
            everything.cost_returns[forward],
            cost_bins=task.cbins,
            reward_bins=task.rbins,
            max_per_bin=max_per_cell,
            min_per_bin=task.min_npb,
            max_cost=task.cost_max,
            rng=np.random.default_rng(seed),
        )
        return forward[in_cells]

    fullest = max((n for n in range(1, 200) if len(chosen(n)) <= episodes), default=1)
    kept = chosen(fullest)
    if len(kept) == 0:
        raise UserError(
            f"none of the {len(everything.episodes)} collected episodes is worth keeping: each costs more than "
            f"{task.cost_max}, returns less than {task.reward_min:g} or is alone of its kind; "
            "give the agents more steps"
        )
    if len(kept) > episodes:
        kept = np.sort(np.random.default_rng(seed).choice(kept, episodes, replace=False))
    return everything.select(kept)


def rounded(dataset: data.Dataset, bits: int = 11) -> data.Dataset:
    """Every number to `bits` bits after the leading one (about 3.6 digits): what is left compresses better."""
    drop = np.uint32(23 - bits)

    def shorten(array: np.ndarray) -> np.ndarray:
        if array.dtype == np.bool_:
            return array
        halfway = np.uint32(1) << (drop - np.uint32(1))
        return ((array.view(np.uint32) + halfway) >> drop << drop).view(np.float32)

    return replace(dataset, **{name: shorten(getattr(dataset, name)) for name in data.FIELDS})


def _part(folder: Path, spec: AgentSpec) -> Path:
    """Named after everything that decides its content, so that leftovers of another call are never taken."""
    return folder / f"agent{spec.index}-{files.content_hash([asdict(spec), __version__])}.npz"


def _join(paths: list[Path]) -> data.Dataset:
    datasets = [data.load(path) for path in paths]
    columns = {name: np.concatenate([getattr(d, name) for d in datasets]) for name in data.FIELDS}
    return replace(datasets[0], source="collected", warnings=(), **columns)


def _run_population(specs: list[AgentSpec], parts: Path, workers: int, on_progress: Progress) -> None:
    """Run each agent that has no finished part yet as a process of its own, `workers` at a time."""
    waiting: queue.SimpleQueue[AgentSpec] = queue.SimpleQueue()
    for spec in specs:
        if _part(parts, spec).exists():
            on_progress(spec.index, {"steps": spec.steps})
        else:
            waiting.put(spec)
    running: list[subprocess.Popen[str]] = []
    failures: list[str] = []
    starting = threading.Lock()

    def serve() -> None:
        while True:
            with starting:
                if failures or waiting.empty():
                    return
                spec = waiting.get()
                process = _start(spec, _part(parts, spec))
                running.append(process)
            last = ""
            with process:
                for last in process.stdout or ():
                    if last.startswith("{"):
                        on_progress(spec.index, json.loads(last))
            if process.returncode != 0:
                failures.append(f"agent {spec.index} of the collection stopped: {last.strip()}; run again to go on")

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        with starting:  # from here on no thread starts another
            failures.append("stopped")
        for process in running:
            process.terminate()
        for thread in threads:
            thread.join()
        raise
    if failures:
        raise UserError(failures[0])


def _start(spec: AgentSpec, part: Path) -> subprocess.Popen[str]:
    one_thread = {
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "lspc.sims.collect.population", json.dumps(asdict(spec)), str(part)],
        stdin=subprocess.PIPE,  # its end tells the agent that we are gone, however that came about
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **one_thread},
        # Ctrl-C reaches the parent alone, which ends its children in order.
        start_new_session=True,
    )


def _main() -> None:
    """One agent in a process of its own: its progress as JSON lines, its episodes as an NPZ file."""
    end_with_parent()
    spec = AgentSpec(**json.loads(sys.argv[1]))
    arrays = (drive if spec.driver else train_agent)(spec, lambda progress: print(json.dumps(progress), flush=True))
    with files.atomic_path(sys.argv[2]) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)


if __name__ == "__main__":
    _main()
