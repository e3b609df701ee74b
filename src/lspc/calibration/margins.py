"""How far the dynamics models can be trusted, measured on held-out episodes whose true cost and reward are known.

Their recorded actions are replayed in the models. The largest error, relative to the size of the estimate, becomes
the margin of every estimate; the spread between the models and over the starts is added to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from lspc.calibration import dynamics
from lspc.data import Dataset
from lspc.runs.statistics import Interval

GROUPS = 10
"""Into which replayed stretches are sorted by the cost that is predicted of them. The next error after n of its kind
is the largest with a chance of 1 in n + 1: ten make a 90 % interval."""
CONFIDENT = 0.95
"""Of each end of an interval."""
STRETCH = 25
"""Steps that recorded actions are replayed for."""


@dataclass(frozen=True)
class Margin:
    """An estimate m may be off by `share` of (m's size + unit), and by so many of its spreads."""

    share: float
    unit: float
    spreads: float = 2.0
    """Student's quantile for as many models as there are: a spread of few is itself uncertain."""

    def error(self, mean: Any, spread: Any) -> Any:
        """How far an estimate (or an array of them) may be off."""
        return self.share * (abs(mean) + self.unit) + self.spreads * spread

    def around(self, mean: float, spread: float) -> Interval:
        off = self.error(mean, spread)
        return Interval(mean, mean - off, mean + off)


@dataclass(frozen=True)
class Replay:
    """A group of held-out stretches: what was predicted and what was true, scaled to a whole episode."""

    stretches: int
    cost: float
    predicted_cost: float
    reward: float
    predicted_reward: float


def measure_margins(
    models: dynamics.DynamicsModel, held_out: Dataset, horizon: int
) -> tuple[tuple[Replay, ...], Margin, Margin]:
    """Held-out stretches sorted by predicted cost and grouped; the margins of cost and of reward they ask for."""
    stretch = min(STRETCH, int(held_out.lengths.max()))
    predicted, true = dynamics.replay(models, held_out, stretch)
    scale, groups = horizon / stretch, np.array_split(np.argsort(predicted.mean(0)[:, 1], kind="stable"), GROUPS)
    groups = [group for group in groups if len(group)]
    found = []
    for group in groups:
        (reward, cost), (known_reward, known_cost) = predicted[:, group].mean((0, 1)), true[group].mean(0)
        found.append(Replay(len(group), *(float(scale * x) for x in (known_cost, cost, known_reward, reward))))
    # A cost near zero must be told to within a step's; a reward, to within a share of what episodes usually earn.
    units = float(held_out.costs.max()), float(np.mean([abs(replay.reward) for replay in found]))
    return (
        tuple(found),
        fit_margin([(r.cost, r.predicted_cost) for r in found], max(units[0], 1e-6), len(predicted)),
        fit_margin([(r.reward, r.predicted_reward) for r in found], max(units[1], 1e-6), len(predicted)),
    )


def fit_margin(pairs: Sequence[tuple[float, float]], unit: float, members: int) -> Margin:
    """The largest relative error among (true, predicted) pairs, whole: models that disagree are not excused by it."""
    errors = [abs(true - predicted) / (abs(predicted) + unit) for true, predicted in pairs]
    return Margin(float(max(errors)), unit, float(student.ppf(CONFIDENT, members - 1)))


def measure_spread(values: Float[np.ndarray, "members starts"]) -> float:
    """Of a mean over members and starts: how much another ensemble and other starts would change it."""
    between_members = values.mean(axis=1).var(ddof=1)
    starts = values.shape[1]
    over_starts = values.mean(axis=0).var(ddof=1) / starts if starts > 1 else 0.0
    return float(np.sqrt(between_members + over_starts))
