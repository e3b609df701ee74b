"""Making a dataset: a population of PPO-Lagrangian agents, from unconstrained to strict, every episode recorded.

On MetaDrive, on DroneCircle and on Safety-Gymnasium's tasks of goals, buttons and circles, most of the population are
hand-written drivers, from a crawl to reckless.

Each agent is one process with one thread and its own seed, so the population uses every core and the result does
not depend on how many there are. A finished agent's episodes wait in a folder beside the output: an interrupted
collection goes on from there. At the end DSRL's grid filter keeps a set that covers the cost x reward plane.
"""

import json
import shutil
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lspc import data, files, sims
from lspc.errors import UserError
from lspc.sims.collect.episodes import choose_episodes, join_parts, round_numbers
from lspc.system import usable_cores
from lspc.tasks import SUITES, Task, get_task
from lspc.version import __version__
from lspc.workers import Crew

LIMITS: tuple[float | None, ...] = (None, 0.8, 0.5, 0.25, 0.125, 0.06, 0.03, 0.0)
"""Cost limits of the population as shares of the task's maximum cost; None is unconstrained."""
START_MULTIPLIERS = (0.0, 0.0, 0.0, 0.2, 0.5, 1.0, 0.5, 1.0)
"""Where each agent's multiplier begins: careful from the start, or learning care from its own costs."""


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
    """No learner, but a hand-written driver in many manners."""


def population(task: Task, agents: int, steps: int, warmup: int, seed: int) -> list[AgentSpec]:
    from lspc.sims.collect.navigators import has_navigator  # they, too, are told what to do by an AgentSpec

    has_drivers, specs = task.suite == "metadrive" or has_navigator(task), []
    for i in range(agents):
        share = LIMITS[i % len(LIMITS)]
        limit = None if share is None else share * task.cost_max
        multiplier = START_MULTIPLIERS[i % len(LIMITS)]
        # In so few steps a learner hardly flies or leaves the first bend, or meets hazards by luck alone.
        driver = has_drivers and i % 4 != 0
        specs.append(
            AgentSpec(task.name, i, limit, 0.0 if warmup else multiplier, steps, warmup, seed * 1000 + i, driver)
        )
    return specs


def world_count(task: Task) -> int:
    """How many simulators an agent learns in at a time."""
    return 1 if SUITES[task.suite].one_world_per_process else 8


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
    on_start: Callable[[int, int], None] | None = None,
    on_progress: Progress | None = None,
) -> data.Dataset:
    """Collect a dataset for `task` and write it to `out`; the same arguments give the same file, byte for byte.

    `on_start` hears the number of agents and the steps of each.
    """
    task = get_task(task) if isinstance(task, str) else task
    out = Path(out)
    steps = SUITES[task.suite].collect_steps if steps is None else steps
    check(task, out, agents=agents, steps=steps, episodes=episodes, seed=seed, workers=workers)
    if on_start:
        on_start(agents, steps)
    workers = usable_cores() if workers is None else workers
    episodes = task.dataset_episodes if episodes is None else episodes
    specs = population(task, agents, steps, warmup, seed)
    parts = out.with_name(out.name + ".parts")
    with files.locked(parts):
        _run_population(specs, parts, workers, on_progress or (lambda *_: None))
        everything = join_parts([_part(parts, spec) for spec in specs])
        dataset = choose_episodes(everything, task, episodes, seed)
        if compact:
            dataset = round_numbers(dataset)
        settings = {"agents": agents, "steps": steps, "warmup": warmup, "episodes": episodes, "seed": seed}
        story = {"task": task.name, "collected_by": f"lspc {__version__}", **settings, "compact": int(compact)}
        dataset = replace(dataset, metadata=story)
        data.save(dataset, out)
        shutil.rmtree(parts)
    return dataset


def check(
    task: Task, out: Path, *, agents: int, steps: int, episodes: int | None, seed: int, workers: int | None
) -> None:
    """Refuse what cannot end well, before any work."""
    if min(agents, 1 if workers is None else workers, 1 if episodes is None else episodes) < 1 or seed < 0:
        raise UserError("agents, workers and episodes must be 1 or more, and the seed 0 or more")
    least = world_count(task) * task.episode_length
    if steps < least:
        raise UserError(f"{steps} steps are too few for an episode of {task.name}: give an agent {least} or more")
    if data.find_format(out) is None:
        usual = " or ".join(kind.suffixes[0] for kind in data.FORMATS)
        raise UserError(f"{out}: give it a name that ends in {usual}")
    sims.make(task).close()  # a missing simulator is told here, once, not by every agent


def _part(folder: Path, spec: AgentSpec) -> Path:
    """Named after everything that decides its content, so that leftovers of another call are never taken."""
    return folder / f"agent{spec.index}-{files.content_hash([asdict(spec), __version__])}.npz"


def _run_population(specs: list[AgentSpec], parts: Path, workers: int, on_progress: Progress) -> None:
    """Run each agent that has no finished part yet as a process of its own, `workers` at a time."""
    waiting = deque[AgentSpec]()
    for spec in specs:
        if _part(parts, spec).exists():
            on_progress(spec.index, {"steps": spec.steps})
        else:
            waiting.append(spec)
    crew, failure = Crew(), ""
    try:
        while crew.running or (waiting and not failure):
            while waiting and not failure and len(crew.running) < workers:
                spec = waiting.popleft()
                crew.start(str(spec.index), _command(spec, _part(parts, spec)))
            agent, told = crew.hear()
            if told is not None:
                on_progress(int(agent), told)
            elif (trouble := crew.outcome(agent)) and not failure:  # the others that are at work finish their parts
                failure = f"agent {agent} of the collection stopped: {trouble}; run again to continue"
    finally:
        crew.end()
    if failure:
        raise UserError(failure)


def _command(spec: AgentSpec, part: Path) -> list[str]:
    return [sys.executable, "-m", "lspc.sims.collect._worker", json.dumps(asdict(spec)), str(part)]
