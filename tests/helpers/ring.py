"""A small driving problem with a known safe optimum: cloning breaks the budget, LSPC-S keeps it, LSPC-O earns too.

A car goes round a ring for 20 steps. The action sets the speed of the next step and is rewarded at once; a speed
above the limit of the place where it is driven costs 1, one step later. So nothing about an action's own row tells
whether it is safe: the cost critic has to look ahead (with a discount of 0 LSPC-S itself costs 16 of 20).
The data are 300 drivers who each keep to 60 % to 160 % of the limit, two thirds of them beyond it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import lspc
from lspc.data import Dataset

STEPS, BUDGET = 20, 2.0
Floats = NDArray[Any]
Driver = Callable[[Floats], Floats]
SIZE: dict[str, Any] = {"hidden": (32, 32), "batch_size": 256, "learning_rate": 1e-3}
"""Small and quick; every other setting is the method's default."""


class Drive(NamedTuple):
    returns: Floats
    cost_returns: Floats
    columns: dict[str, Floats]
    """Each field of a dataset: (cars, steps, ...)."""


def place_ahead(observations: Floats) -> Floats:
    """The angle a car will be at after this step: an observation is (cos, sin, speed)."""
    return np.arctan2(observations[:, 1], observations[:, 0]) + 0.5 * observations[:, 2]


def limit(angle: Floats) -> Floats:
    return 0.5 + 0.2 * np.cos(angle)


def as_action(speed: Floats) -> Floats:
    """Speeds from 0 to 1 are actions from -1 to 1."""
    return (2 * np.clip(speed, 0, 1) - 1)[:, None]


def drive(driver: Driver, cars: int, seed: int) -> Drive:
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, cars)
    observations = np.stack([np.cos(angle), np.sin(angle), np.zeros(cars)], axis=1).astype(np.float32)
    rows: list[tuple[Floats, ...]] = []
    for _ in range(STEPS):
        actions = driver(observations)
        speed, angle = (np.clip(actions[:, 0], -1, 1) + 1) / 2, place_ahead(observations)
        costs = (observations[:, 2] > limit(np.arctan2(observations[:, 1], observations[:, 0]))).astype(np.float32)
        following = np.stack([np.cos(angle), np.sin(angle), speed], axis=1).astype(np.float32)
        rows.append((observations, actions, speed, costs, following))
        observations = following
    names = ("observations", "actions", "rewards", "costs", "next_observations")
    columns = {name: np.stack(column, axis=1) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return Drive(columns["rewards"].sum(axis=1), columns["costs"].sum(axis=1), columns)


def at_limit(observations: Floats) -> Floats:
    """The safe optimum. Faster now is further round, and p -> p + limit(p) / 2 keeps the order of places: who always
    drives at the limit (a hair below it, for rounding) is ahead of every other car that keeps it."""
    return as_action(limit(place_ahead(observations)) - 1e-4)


def ring_data() -> Dataset:
    """The 300 drivers' episodes."""
    rng = np.random.default_rng(0)
    habit = rng.uniform(0.6, 1.6, 300)

    def data_driver(observations: Floats) -> Floats:
        return as_action(habit * limit(place_ahead(observations)) + rng.normal(0, 0.03, 300))

    columns = drive(data_driver, cars=300, seed=5).columns
    flat: dict[str, Any] = {name: column.reshape(300 * STEPS, *column.shape[2:]) for name, column in columns.items()}
    truncated = np.arange(300 * STEPS) % STEPS == STEPS - 1
    return Dataset(**flat, terminated=np.zeros_like(truncated), truncated=truncated)


def measure(run: Path, variant: str, *, seed: int = 0, sampled: bool = False) -> tuple[float, float]:
    """Reward in parts of the safe optimum's, and cost: means over 200 fresh cars."""
    policy, rng = lspc.load_policy(run, variant=variant, seed=seed), np.random.default_rng(1)
    result, best = drive(lambda o: policy.act(o, rng if sampled else None), 200, 9), drive(at_limit, 200, 9)
    return float(result.returns.mean() / best.returns.mean()), float(result.cost_returns.mean())
