"""A bench from plan to records: what is missing is handed to an executor; what it will cost is told before."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from lspc import files, training
from lspc.bench import records
from lspc.bench.cell import Progress
from lspc.bench.grid import RUNS, Job, Plan, is_complete, is_done, keep_plan, make_jobs, read_plan
from lspc.errors import UserError
from lspc.runs import fields, layout

MEASURED = "measured.json"
"""What each method was last seen to take in this bench: for estimates only, no result depends on it."""


@dataclass(frozen=True)
class Measured:
    """What a method was last seen to take."""

    rate: float | None = None
    """Updates per second."""
    memory: int | None = None
    """Bytes."""


OnProgress = Callable[[Job, Progress], None]
OnEnd = Callable[[Job, str | None], None]
"""The second argument says what went wrong; None: nothing."""


class Executor(Protocol):
    """Carries out jobs, wherever it likes."""

    def room(self, jobs: Sequence[Job]) -> int:
        """How many of these it carries out at a time."""
        ...

    def run(self, jobs: Sequence[Job], on_progress: OnProgress, on_end: OnEnd) -> None:
        """Have `cell.run` called for each job, which tells what memory it will take, and pass on what is told.

        Stopped by an exception (Ctrl-C), it leaves nothing running.
        """
        ...


def run(
    plan: Plan,
    bench: Path,
    data_files: Mapping[str, Path],
    executor: Executor,
    on_progress: OnProgress = lambda *_: None,
    on_end: OnEnd = lambda *_: None,
) -> dict[str, str]:
    """Carry out every cell that is not done; returns what went wrong, by cell."""
    failures: dict[str, str] = {}

    def end(job: Job, trouble: str | None) -> None:
        if trouble is not None:
            failures[job.name] = trouble
        on_end(job, trouble)

    with files.locked(bench):
        keep_plan(plan, bench)
        try:
            _carry_out(list_missing_jobs(plan, bench, data_files), bench, executor, on_progress, end)
        except KeyboardInterrupt as stopped:
            raise training.Interrupted("stopped, all saved; run the same command again to continue") from stopped
    return failures


def list_missing_jobs(plan: Plan, bench: Path, data_files: Mapping[str, Path]) -> list[Job]:
    """The cells that are not done, with the memory their method was last seen to take."""
    seen = read_measured(bench)
    left = [job for job in make_jobs(plan, bench, data_files) if not is_done(job)]
    return [replace(o, memory=seen.get(o.method, Measured()).memory or o.memory) for o in left]


def _carry_out(left: Sequence[Job], bench: Path, executor: Executor, on_progress: OnProgress, on_end: OnEnd) -> None:
    """Have the jobs carried out, and keep what is seen of the methods' speed and memory."""
    seen = read_measured(bench)

    def progress(job: Job, now: Progress) -> None:
        before = seen.get(job.method, Measured())
        most = max(now.memory or 0, before.memory or 0)
        seen[job.method] = Measured(now.rate or before.rate, most or None)
        on_progress(job, now)

    try:
        executor.run(left, progress, on_end)
    finally:
        bench.mkdir(parents=True, exist_ok=True)
        files.write_json(bench / MEASURED, {method: asdict(measured) for method, measured in seen.items()})


def read_measured(bench: Path) -> dict[str, Measured]:
    path = bench / MEASURED
    found = files.read_json(path) if path.exists() else {}
    if not isinstance(found, dict):
        raise UserError(f"{path}: it must be an object, found {found!r}; delete it")
    return {method: fields.parse(Measured, seen, f"{path}", inside=method) for method, seen in found.items()}


def measure(plan: Plan, bench: Path, data_files: Mapping[str, Path], executor: Executor, on_end: OnEnd) -> None:
    """Learn speed and memory of every method that is not known yet, by a few updates of one of its cells."""
    seen = read_measured(bench)
    one_each = {job.method: job for job in reversed(make_jobs(plan, bench, data_files))}
    unknown = [job for method, job in one_each.items() if seen.get(method, Measured()).rate is None]
    _carry_out([replace(o, only_measure=True) for o in unknown], bench, executor, lambda *_: None, on_end)


@dataclass(frozen=True)
class Cost:
    """What is left to train of one method."""

    method: str
    cells: int
    done: int
    updates: int
    """Of the cells that are not done."""
    rate: float | None

    @property
    def hours(self) -> float | None:
        """Of one worker; None if the speed is unknown."""
        return 0.0 if not self.updates else self.updates / self.rate / 3600 if self.rate else None


def estimate_costs(plan: Plan, bench: Path, data_files: Mapping[str, Path]) -> list[Cost]:
    every, seen = make_jobs(plan, bench, data_files), read_measured(bench)
    listed = []
    for method in plan.methods:
        mine = [job for job in every if job.method == method]
        left = [job for job in mine if not is_done(job)]
        updates = sum(job.config["steps"] for job in left)
        listed.append(Cost(method, len(mine), len(mine) - len(left), updates, seen.get(method, Measured()).rate))
    return listed


def total_hours(listed: Sequence[Cost], room: int) -> tuple[float, list[str]]:
    """Hours with `room` workers, and the methods that are not counted because their speed is unknown."""
    known = [cost.hours for cost in listed if cost.hours is not None]
    return math.fsum(known) / room, [cost.method for cost in listed if cost.hours is None]


def gather(paths: Sequence[Path]) -> records.Results:
    """Results from bench folders, run folders or files of records, without running anything."""
    datasets: dict[str, str] = {}
    unfinished: list[str] = []
    places: list[Path] = []
    for path in paths:
        plan = read_plan(path)
        if plan is None:
            places.append(path)
            continue
        datasets |= plan.tasks
        unfinished += [job.name for job in make_jobs(plan, path, {}) if not is_complete(job)]
        places += (path / RUNS).rglob(layout.EVALUATIONS)  # none yet is no fault: the unfinished cells are named
    results = records.sort_out(records.read(places), datasets)
    return results._replace(problems=[*(f"{name}: not finished" for name in unfinished), *results.problems])
