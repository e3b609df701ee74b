"""How far the dynamics models can be trusted, measured on episodes that they have not seen.

Episodes that were driven again in the models (`closed_loop`) are sorted by what the models say of them and grouped;
each group's prediction stands beside its truth. The group whose cost was most underrated sets the margin of every
cost; what the models disagree about among themselves is added.

Costs are compared by their square roots. A body that keeps near a limit, and a model that is a little off about
where it is, make the error of a small cost small and that of a larger one larger; in square roots they are about
alike, and so are the chance variations of a count.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import t as student

from lspc.calibration.closed_loop import Driven
from lspc.runs.statistics import Interval

GROUPS = 10
"""Of episodes. The next error after n of its kind is the largest with a chance of 1 in n + 1: ten make 90 %."""
COST_SPREADS = 1.64
"""How often the spread between the models is added to a cost, beside what the groups ask for."""
CONFIDENT = 0.95
"""Of each end of a reward's interval."""


@dataclass(frozen=True)
class Margin:
    """An estimate m may be off by `share` of (m's size + unit), its square root by `shift`, and by its spreads."""

    share: float
    unit: float
    spreads: float = 2.0
    """How many times the spread between the models."""
    shift: float = 0.0
    """Of the square root of a cost in units: the root of m may truly be larger by this."""

    def error(self, mean: Any, spread: Any) -> Any:
        """How far an estimate (or an array of them) may be off."""
        size = abs(mean)
        root = jnp.sqrt(size / self.unit) if isinstance(mean, Array) else np.sqrt(size / self.unit)
        shifted = self.unit * self.shift * (2.0 * root + self.shift)
        return self.share * (size + self.unit) + shifted + self.spreads * spread

    def around(self, mean: float, spread: float) -> Interval:
        off = float(self.error(mean, spread))
        return Interval(mean, mean - off, mean + off)


@dataclass(frozen=True)
class Replay:
    """A group of episodes: what the models that had not seen them predicted, and what was true."""

    episodes: int
    cost: float
    predicted_cost: float
    reward: float
    predicted_reward: float


def measure_margins(driven: Driven, unit: float, members: int) -> tuple[tuple[Replay, ...], Margin, Margin]:
    """Episodes sorted by predicted cost and grouped; the margins of cost and of reward that they ask for."""
    predicted, true = (values * driven.scale[:, None] for values in (driven.predicted.mean(axis=1), driven.true))
    groups = np.array_split(np.argsort(predicted[:, 1], kind="stable"), GROUPS)
    found = tuple(
        Replay(
            len(group), float(true[group, 1].mean()), float(predicted[group, 1].mean()),
            float(true[group, 0].mean()), float(predicted[group, 0].mean()),
        )
        for group in groups if len(group)
    )  # fmt: skip
    size = max(float(np.mean([abs(group.reward) for group in found])), 1e-6)
    off = max(abs(group.reward - group.predicted_reward) / (abs(group.predicted_reward) + size) for group in found)
    # A reward is told to within a share of what episodes usually earn.
    reward = Margin(off, size, float(student.ppf(CONFIDENT, members - 1)))
    return found, fit_cost_margin(found, max(unit, 1e-6)), reward


def fit_cost_margin(groups: tuple[Replay, ...], unit: float) -> Margin:
    """The largest amount by which the root of a group's true cost exceeds that of its predicted one."""
    roots = [(np.sqrt(group.cost / unit), np.sqrt(group.predicted_cost / unit)) for group in groups]
    return Margin(0.0, unit, COST_SPREADS, max(0.0, *(float(true - predicted) for true, predicted in roots)))


def measure_reach(driven: Driven) -> float:
    """The mean distance to the data of those episodes, one in GROUPS, that are farthest from the others."""
    farthest = np.sort(driven.distances)[-max(1, len(driven.distances) // GROUPS) :]
    return float(farthest.mean())


def measure_spread(values: Float[np.ndarray, "members starts"]) -> float:
    """Of a mean over members and starts: how much another ensemble and other starts would change it."""
    between_members = values.mean(axis=1).var(ddof=1)
    starts = values.shape[1]
    over_starts = values.mean(axis=0).var(ddof=1) / starts if starts > 1 else 0.0
    return float(np.sqrt(between_members + over_starts))
