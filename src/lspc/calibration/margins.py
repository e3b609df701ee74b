"""How far the dynamics models can be trusted, measured on held-out episodes whose true cost and reward are known.

Their recorded actions are replayed in the models. The largest error, relative to the size of the estimate, becomes
the margin of every estimate, and the spread between the models is added to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lspc.calibration import dynamics
from lspc.data import Dataset
from lspc.runs.statistics import Interval

GROUPS = 10
"""Into which replayed stretches are sorted by the cost that is predicted of them. The next error after n of its kind
is the largest with a chance of 1 in n + 1: ten make a 90 % interval."""
STRETCH = 25
"""Steps that recorded actions are replayed for."""


@dataclass(frozen=True)
class Margin:
    """An estimate m may be off by `share` of (m's size + unit), and by twice the spread between the models."""

    share: float
    unit: float

    def around(self, mean: float, spread: float) -> Interval:
        off = self.share * (abs(mean) + self.unit) + 2.0 * spread
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
    spreads = [scale * predicted[:, group].mean(axis=1).std(axis=0) for group in groups]
    found = []
    for group in groups:
        (reward, cost), (known_reward, known_cost) = predicted[:, group].mean((0, 1)), true[group].mean(0)
        found.append(Replay(len(group), *(float(scale * x) for x in (known_cost, cost, known_reward, reward))))
    # A cost near zero must be told to within a step's; a reward, to within a share of what episodes usually earn.
    units = float(held_out.costs.max()), float(np.mean([abs(replay.reward) for replay in found]))
    return (
        tuple(found),
        fit_margin([(r.cost, r.predicted_cost) for r in found], [s[1] for s in spreads], max(units[0], 1e-6)),
        fit_margin([(r.reward, r.predicted_reward) for r in found], [s[0] for s in spreads], max(units[1], 1e-6)),
    )


def fit_margin(pairs: Sequence[tuple[float, float]], spreads: Sequence[float], unit: float) -> Margin:
    """The largest relative error among (true, predicted) pairs, beyond what their spread explains."""
    errors = [
        max(0.0, abs(true - predicted) - 2.0 * spread) / (abs(predicted) + unit)
        for (true, predicted), spread in zip(pairs, spreads, strict=True)
    ]
    return Margin(float(max(errors)), unit)
