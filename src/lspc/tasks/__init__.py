"""DSRL's 38 tasks as plain data: ids, sizes, return bounds, cost budgets and file names.

The numbers are read once, on first use, from the two csv files beside this one. Normalised reward and cost,
the units of every table in the field, are defined here and nowhere else.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from numpy.typing import NDArray

from lspc.errors import UserError
from lspc.tasks.suites import DEFAULT_BUDGETS, SUITES, Suite

__all__ = [
    "DEFAULT_BUDGETS",
    "NAMED_IN_DATA",
    "SUITES",
    "Suite",
    "Task",
    "all_tasks",
    "get_task",
    "normalised_cost",
    "normalised_reward",
    "task_of",
    "thresholds_of",
]

NAMED_IN_DATA = "the one named in the data"
"""In place of a task's name: whatever the data say of themselves."""

# The type checker does not see that each of the two leads to itself, hence the two `ignore`s below.
Values = TypeVar("Values", float, NDArray[Any])

# For tasks without a density row (most are MetaDrive's): the settings of the MetaDrive tasks that have one.
DEFAULT_GRID = {"cbins": "10", "rbins": "20", "max_npb": "30", "min_npb": "2"}


@dataclass(frozen=True)
class Task:
    """One benchmark task, with DSRL's own numbers."""

    name: str
    suite: str
    """The simulator the task runs on: a name in `SUITES`."""
    family: str
    """DSRL's finer grouping, such as `safety_gymnasium_car`."""
    gym_id: str
    """The id DSRL registers, such as `OfflineBallCircle-v0`."""
    episode_length: int
    observation_dim: int
    action_dim: int
    reward_min: float
    """Smallest episode return by DSRL's table; with `reward_max` it defines the normalised reward."""
    reward_max: float
    cost_max: int
    """Largest episode cost in the task's data, as stated in DSRL's file name."""
    thresholds: tuple[float, ...]
    """The three cost budgets the task is evaluated at."""
    dataset_file: str
    dataset_episodes: int
    """Episodes in DSRL's file."""
    in_paper: bool
    """Whether the LSPC paper reports the task."""
    cbins: int
    """Cells of DSRL's density filter along the cost return; see `lspc.data.grid_filter`."""
    rbins: int
    """Cells of the density filter along the reward return."""
    max_npb: int
    """Most episodes the density filter keeps in a cell."""
    min_npb: int
    """Cells with fewer episodes than this are dropped as outliers."""

    @property
    def one_world_per_process(self) -> bool:
        """Whether its engine holds a single world at a time."""
        return self.suite in SUITES and SUITES[self.suite].one_world_per_process


def all_tasks() -> tuple[Task, ...]:
    """Every task, in DSRL's order."""
    return _table()


def get_task(name: str) -> Task:
    """The task called `name`: its short name or DSRL's gym id, in any case."""
    by_key = {key.lower(): task for task in all_tasks() for key in (task.name, task.gym_id)}
    task = by_key.get(name.lower())
    if task is not None:
        return task
    close = [by_key[key].name for key in get_close_matches(name.lower(), by_key, n=6, cutoff=0.6)]
    nearest = list(dict.fromkeys(close))[:3]
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "`lspc tasks` lists all 38"
    raise UserError(f"unknown task {name!r}: {hint}")


def task_of(metadata: Mapping[str, Any], name: str | None = NAMED_IN_DATA) -> Task | None:
    """The task to train for: the one called `name`, else the one that the data's metadata name; None is no task.

    Data that name no task of ours are data of the user's own plant, which is no fault.
    """
    if name is None:
        return None
    if name != NAMED_IN_DATA:
        return get_task(name)
    try:
        return get_task(str(metadata.get("task", "")))
    except UserError:
        return None


def thresholds_of(task: Task | None) -> tuple[float, ...]:
    """The budgets to judge by: the task's, or the usual ones where no task is known."""
    return task.thresholds if task else DEFAULT_BUDGETS


def normalised_reward(task: Task, returns: Values) -> Values:
    """Episode returns on DSRL's scale, (R - r_min) / (r_max - r_min): 0 and 1 are its worst and best."""
    return (returns - task.reward_min) / (task.reward_max - task.reward_min)  # pyrefly: ignore [bad-return]


def normalised_cost(cost_returns: Values, threshold: float) -> Values:
    """Episode costs in units of the budget: safe means at most 1.

    (C + s) / (kappa + s), where s is 0, except for a budget kappa of 0: then s is 1.
    """
    if threshold < 0:
        raise UserError(f"the cost budget is {threshold:g}; it must be 0 or more")
    shift = 1.0 if threshold == 0 else 0.0
    return (cost_returns + shift) / (threshold + shift)  # pyrefly: ignore [bad-return]


@cache
def _table() -> tuple[Task, ...]:
    # Rows are sorted by density, so the densest setting, the one that keeps most data, is what stays.
    density_rows = sorted(_read("dsrl_density.csv"), key=lambda row: float(row["density"]))
    grids = {row["gym_id"]: row for row in density_rows}
    return tuple(_task(row, grids.get(row["gym_id"], DEFAULT_GRID)) for row in _read("dsrl_tasks.csv"))


def _task(row: dict[str, str], grid: dict[str, str]) -> Task:
    suite = next(suite for suite in SUITES.values() if row["suite"] in suite.families)
    return Task(
        name=row["task"],
        suite=suite.name,
        family=row["suite"],
        gym_id=row["gym_id"],
        episode_length=int(row["max_episode_steps"]),
        observation_dim=int(row["obs_dim"]),
        action_dim=int(row["act_dim"]),
        reward_min=float(row["min_reward"]),
        reward_max=float(row["max_reward"]),
        cost_max=int(row["file_max_cost"]),
        thresholds=suite.thresholds,
        dataset_file=row["dataset_file"],
        dataset_episodes=int(row["file_n_trajectories"]),
        in_paper=row["in_lspc_tables"] == "1",
        cbins=int(grid["cbins"]),
        rbins=int(grid["rbins"]),
        max_npb=int(grid["max_npb"]),
        min_npb=int(grid["min_npb"]),
    )


def _read(name: str) -> Iterator[dict[str, str]]:
    yield from csv.DictReader((files("lspc.tasks") / name).read_text(encoding="utf-8").splitlines())
