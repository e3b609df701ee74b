"""From raw records, one per episode, to complete arrays; whatever is doubtful is named and left out, never averaged.

A figure stands only if everything it averages over is there: every threshold, training seed and episode.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lspc.errors import UserError
from lspc.runs import Run, layout
from lspc.runs import record as records_file
from lspc.runs.record import Record, group
from lspc.runs.statistics import Stratum
from lspc.tasks import all_tasks, get_task, normalised_cost, normalised_reward

BUDGET_IN_NAME = re.compile(r" \(.*\)$")
"""BC-Safe (10), BC-Safe (20) and BC-Safe (40) are one policy at three thresholds."""


class Column(NamedTuple):
    policy: str
    mode: str


class Cell(NamedTuple):
    task: str
    column: Column
    threshold: float


Episodes = dict[tuple[int, int], list[Record]]
"""(training seed, episode seed) -> its records: one, unless something is wrong."""


class Results(NamedTuple):
    """What the records say, complete cells only, and everything that was found wrong with them."""

    cells: dict[Cell, Stratum]
    """Each with a single threshold."""
    problems: list[str]

    @property
    def columns(self) -> list[Column]:
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @property
    def tasks(self) -> list[str]:
        """In DSRL's order."""
        there = {cell.task for cell in self.cells}
        return [task.name for task in all_tasks() if task.name in there]

    def stratum(self, task: str, column: Column, threshold: float | None = None) -> Stratum | None:
        """At one threshold or, by default, at all of the task's; None unless all of it is there."""
        wanted = get_task(task).thresholds if threshold is None else (threshold,)
        parts = [self.cells.get(Cell(task, column, k)) for k in wanted]
        there = [part for part in parts if part is not None]
        if len(there) < len(parts):
            return None
        reward, cost = (np.concatenate([getattr(part, what) for part in there]) for what in ("reward", "cost"))
        return Stratum(there[0].name, reward, cost)


def read(paths: Iterable[Path]) -> list[Record]:
    """The records in these files, or in every run below these folders, of policies as they were trained."""
    found: list[Record] = []
    for path in paths:
        inside = sorted(path.rglob(layout.EVALUATIONS)) if path.is_dir() else [path]
        if not inside or not inside[0].exists():
            name = layout.EVALUATIONS
            raise UserError(f"{path}: there are no records here; they are called {name} in a run's folder")
        for file in inside:
            run = Run.open(file.parent) if layout.is_run(file.parent) else None
            found += run.records(file.name) if run else records_file.read(file)
    # Another eps or a guard is a study of its own.
    return [record for record in found if record.restriction is None and record.guard is None]


def sort_out(records: Iterable[Record], datasets: Mapping[str, str] | None = None) -> Results:
    """Complete cells, and a line about everything else. `datasets`: the fingerprint that each task's data must have.

    Without it a task's data are those that most of its episodes come from.
    """
    # A run may also have been measured on tasks it was not trained for; that is no part of the grid.
    own = [record for record in records if record.trained_on == record.task]
    problems: dict[tuple[str, str], list[str]] = defaultdict(list)
    kept = _of_one_dataset(own, datasets or {}, problems)
    versions = sorted({record.lspc_version for record in kept})
    if len(versions) > 1:
        problems["all tasks", f"the records are of several versions of lspc: {', '.join(versions)}"] = []
    cells = _by_cell(kept, problems)
    strata: dict[Cell, Stratum] = {}
    tasks, columns = (dict.fromkeys(getattr(cell, what) for cell in cells) for what in ("task", "column"))
    for task, column in product(tasks, columns):
        usual = _usual(episodes for cell, episodes in cells.items() if cell.task == task)
        for threshold in get_task(task).thresholds:
            cell = Cell(task, column, threshold)
            if wrong := _wrong(cells.get(cell, {}), usual):
                problems[f"{task}, {column.policy} {column.mode}", wrong].append(f"{threshold}")
            else:
                strata[cell] = _stratum(cell, cells[cell])
    told = [f"{where}{' at ' if at else ''}{', '.join(at)}: {what}" for (where, what), at in problems.items()]
    return Results(strata, told)


def _of_one_dataset(records: list[Record], datasets: Mapping[str, str], problems: Any) -> list[Record]:
    counts = {
        task: Counter(record.dataset for record in some)
        for task, some in group(records, lambda record: record.task).items()
    }
    right = {task: datasets.get(task) or count.most_common(1)[0][0] for task, count in counts.items()}
    for task, count in counts.items():
        for other in set(count) - {right[task]}:
            runs = _runs(r for r in records if r.task == task and r.dataset == other)
            told = (
                f"left out {count[other]} episodes of {runs}, whose dataset is {other[:12]}, not {right[task][:12]}"
            )
            problems[task, told] = []
    return [record for record in records if record.dataset == right[record.task]]


def _by_cell(records: list[Record], problems: Any) -> dict[Cell, Episodes]:
    """A policy that was trained for a budget serves that threshold, any other one all of them."""
    cells: dict[Cell, Episodes] = defaultdict(lambda: defaultdict(list))
    for record in records:
        column = Column(BUDGET_IN_NAME.sub("", record.policy), record.mode)
        thresholds, budget = get_task(record.task).thresholds, record.budget
        if budget is not None and budget not in thresholds:
            where = f"{record.task}, {column.policy} {column.mode}"
            problems[where, f"left out, its budget of {budget:g} is none of the task's thresholds"] = []
            continue
        for threshold in thresholds if budget is None else (int(budget),):
            cells[Cell(record.task, column, threshold)][record.training_seed, record.seed].append(record)
    return cells


def _usual(cells: Iterable[Episodes]) -> frozenset[tuple[int, int]]:
    """The seeds and episodes that most cells of a task have: its row compares like with like."""
    sets = Counter(frozenset(episodes) for episodes in cells)
    whole = {there: count for there, count in sets.items() if len(there) == math.prod(map(len, _sides(there)))}
    return max(whole, key=lambda there: whole[there], default=frozenset())


def _sides(episodes: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The training seeds and the episode seeds."""
    seeds, numbers = zip(*episodes, strict=True)
    return sorted(set(seeds)), sorted(set(numbers))


def _wrong(episodes: Episodes, usual: frozenset[tuple[int, int]]) -> str | None:
    """Why a cell cannot stand, if so."""
    if not episodes:
        return "missing"
    every = [record for records in episodes.values() for record in records]
    if len(every) > len(episodes) or len({record.config for record in every}) > 1:
        return f"left out, measured more than once or with several settings: {_runs(every)}"
    if set(episodes) != usual:
        return f"left out, it has {_count(episodes)} where most have {_count(usual) if usual else 'others'}"
    return None


def _count(episodes: Iterable[tuple[int, int]]) -> str:
    seeds, numbers = _sides(episodes := list(episodes))
    told = f"{len(episodes)} episodes numbered {numbers[0]} to {numbers[-1]}"
    return f"{told} (training seeds {', '.join(map(str, seeds))})"


def _stratum(cell: Cell, episodes: Episodes) -> Stratum:
    task = get_task(cell.task)
    seeds, numbers = _sides(episodes)

    def table(field: str) -> np.ndarray:
        """(1, seeds, episodes)."""
        every = [[getattr(episodes[seed, number][0], field) for number in numbers] for seed in seeds]
        return np.array([every], float)

    reward = normalised_reward(task, table("reward_return"))
    cost = normalised_cost(table("cost_return"), cell.threshold)
    return Stratum(f"{cell.task} {cell.column.policy} {cell.column.mode}", reward, cost)


def _runs(records: Iterable[Record]) -> str:
    runs = sorted({record.run for record in records})
    return f"run{'s' if len(runs) > 1 else ''} {', '.join(runs)}"
