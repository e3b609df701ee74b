"""Which eps for which cost budget, as the logs let one estimate it, or a reason why none.

eps are gone through from the smallest upward, and the first whose upper bound exceeds the budget ends it: what fits
beyond a gap may fit by luck, and the more one tries the likelier that is.
"""

import math
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from lspc.calibration.margins import Margin, Replay
from lspc.errors import UserError
from lspc.runs.statistics import Interval

FEWEST_NEAR = 10
"""Episodes near a budget below which the data cannot say what it takes to keep it."""


@dataclass(frozen=True)
class Point:
    """What is predicted of LSPC-O at one eps, for whole episodes and undiscounted."""

    restriction: float
    cost: Interval
    reward: Interval
    fitted_cost: float
    """By fitted Q evaluation: a second opinion."""
    fitted_reward: float


@dataclass(frozen=True)
class Choice:
    """The answer for one budget; `restriction` is none when there is none, and `why` says so in words."""

    budget: float
    restriction: float | None
    cost: Interval | None
    reward: Interval | None
    why: str


@dataclass(frozen=True)
class Calibration:
    training_seed: int
    dataset: str
    """Fingerprint of the data it was made from."""
    confidence: float
    horizon: int
    seed: int
    settings: dict[str, Any]
    """Of the fitted Q evaluation."""
    curve: tuple[Point, ...]
    replays: tuple[Replay, ...]
    cost_margin: Margin
    reward_margin: Margin
    episode_costs: tuple[float, ...]
    """Of the data, in order: they tell which budgets can be spoken of."""
    familiar_within: float
    """Distance to the nearest landmark beyond which a state is not like the data's."""

    def choose(self, budget: float) -> Choice:
        """Of the eps up to the first whose upper bound exceeds the budget, the one with the most predicted reward."""
        if not math.isfinite(budget) or budget < 0:
            raise UserError(f"a budget must be a number of 0 or more, not {budget}")
        near = int(np.sum(np.asarray(self.episode_costs) <= max(2.0 * budget, budget + self.cost_margin.unit)))
        if near < FEWEST_NEAR:
            return Choice(
                budget, None, None, None,
                f"the data cannot tell: only {near} of {len(self.episode_costs)} episodes cost about {budget:g} or "
                f"less ({FEWEST_NEAR} are needed); add safer episodes or raise the budget",
            )  # fmt: skip
        fitting = list(takewhile(lambda point: point.cost.high <= budget, self.curve))
        if not fitting:
            safest = self.curve[0]
            return Choice(
                budget, None, None, None,
                f"no eps fits: the smallest, eps {safest.restriction:g}, may cost {safest.cost.high:.3g} "
                f"(estimated {safest.cost.mean:.3g}); LSPC-S, the guard or a larger budget are what is left",
            )  # fmt: skip
        best = max(fitting, key=lambda point: point.reward.mean)
        why = (
            f"eps {best.restriction:.3g}: cost estimated from logs {best.cost.mean:.3g} "
            f"({self.confidence:.0%}: {best.cost.low:.3g} to {best.cost.high:.3g}), "
            f"reward {best.reward.mean:.4g} ({best.reward.low:.4g} to {best.reward.high:.4g})"
        )
        if best.restriction == self.curve[-1].restriction:
            why += "; the largest eps there is"
        elif best is not fitting[-1]:
            why += f"; eps up to {fitting[-1].restriction:.3g} fit, and are predicted to earn less"
        return Choice(budget, best.restriction, best.cost, best.reward, why)
