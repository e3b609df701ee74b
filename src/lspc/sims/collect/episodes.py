"""Episodes on their way into a dataset: recorded, joined, chosen to cover the cost x reward plane, rounded."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lspc import data
from lspc.errors import UserError
from lspc.sims import Simulator
from lspc.tasks import Task

COLUMNS = ("observations", "actions", "rewards", "costs", "next_observations", "terminals", "timeouts")
"""What a recorded transition holds, in this order and by DSRL's names."""


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
        return {name: np.asarray(c, dtype=k) for name, c, k in zip(COLUMNS, columns, kinds, strict=True)}


def check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what no dataset may hold, before it is kept and every joining of the parts fails on it."""
    for name, column in arrays.items():
        broken = ~np.isfinite(column.reshape(len(column), -1)).all(axis=1)
        if broken.any():
            raise UserError(
                f"its {name} hold NaN or infinity, first in transition {int(broken.argmax()):,} of {len(column):,}; "
                "nothing of it is kept"
            )


class Played(NamedTuple):
    steps: int
    reward: float
    cost: float


def record_episode(
    simulator: Simulator, observation: np.ndarray, act: Callable[[np.ndarray], np.ndarray], recorder: Recorder
) -> Played:
    """Play on from `observation` to the end of the episode."""
    steps, reward, cost, ended = 0, 0.0, 0.0, False
    while not ended:
        action = act(observation)
        step = simulator.step(action)
        ended = step.terminated or step.truncated
        transition = observation, action, *step[1:3], step.observation, step.terminated, step.truncated
        recorder.add(0, transition, ended)
        observation, reward, cost, steps = step.observation, reward + step.reward, cost + step.cost, steps + 1
    return Played(steps, reward, cost)


def join_parts(paths: list[Path]) -> data.Dataset:
    """The episodes of all agents as one dataset."""
    datasets = [data.load(path) for path in paths]
    columns: dict[str, Any] = {name: np.concatenate([getattr(d, name) for d in datasets]) for name in data.FIELDS}
    return replace(datasets[0], source="collected", warnings=(), **columns)


def choose_episodes(everything: data.Dataset, task: Task, episodes: int, seed: int) -> data.Dataset:
    """DSRL's grid filter with the fullest cells that leave at most `episodes` episodes.

    Episodes below the task's smallest return, such as a car that drives backwards, are left out as in DSRL's data.
    If one episode per cell is too many already, as many of those as are wanted are drawn at random.
    """
    forward = np.flatnonzero(everything.returns >= task.reward_min)

    def chosen(max_per_cell: int) -> np.ndarray:
        in_cells = data.grid_filter(
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


def round_numbers(dataset: data.Dataset, bits: int = 11) -> data.Dataset:
    """Every number to `bits` bits after the leading one (about 3.6 digits): what is left compresses better."""
    drop = np.uint32(23 - bits)

    def shorten(array: np.ndarray) -> np.ndarray:
        if array.dtype == np.bool_:
            return array
        halfway = np.uint32(1) << (drop - np.uint32(1))
        return ((array.view(np.uint32) + halfway) >> drop << drop).view(np.float32)

    columns: dict[str, Any] = {name: shorten(getattr(dataset, name)) for name in data.FIELDS}
    return replace(dataset, **columns)
