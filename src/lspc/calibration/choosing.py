"""Which eps for which cost budget, as the logs let one estimate it, or a reason why none.

eps are gone through from the smallest upward, and the first whose upper bound exceeds the budget ends it: what fits
beyond a gap may fit by luck, and the more one tries the likelier that is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from lspc.calibration.margins import Margin, Replay
from lspc.errors import UserError
from lspc.runs.statistics import Interval

RISKS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Chances of an episode above the budget that a choice can be made by."""
RULES = 12
"""Of predicting and choosing. Raise it whenever what is said of the same data changes: curves are then made anew."""
FEWEST_NEAR = 10
"""Episodes near a budget below which the data cannot say what it takes to keep it."""


def check_budget(budget: float) -> None:
    if not math.isfinite(budget) or budget < 0:
        raise UserError(f"a budget must be a number of 0 or more, not {budget:g}")


class Estimate(NamedTuple):
    """What is predicted of one policy, for whole episodes and undiscounted."""

    cost: Interval
    reward: Interval
    tails: dict[str, float]
    """Risk -> upper bound of the cost that an episode exceeds with this chance."""
    beyond: bool
    """Whether it leaves what the data show, in its states or its cost: it may then cost anything."""


@dataclass(frozen=True)
class Point:
    """What is predicted of LSPC-O at one eps, for whole episodes and undiscounted."""

    restriction: float
    cost: Interval
    reward: Interval
    fitted_cost: float
    """By fitted Q evaluation: a second opinion."""
    fitted_reward: float
    tails: dict[str, float] = field(default_factory=dict)
    """Risk -> upper bound of the cost that an episode exceeds with this chance; none in older calibrations."""
    beyond: bool = False
    """Whether it leaves what the data show, in its states or its cost: it may then cost anything."""

    def bound(self, risk: float | None) -> float:
        """Upper bound of the mean cost, or of the cost that an episode exceeds with a chance of `risk`."""
        if risk is None:
            return self.cost.high
        if not self.tails:
            raise UserError("this calibration has no figures for single episodes: run `lspc calibrate` again")
        return self.tails[f"{round_risk(risk):g}"]


def round_risk(risk: float) -> float:
    """The largest chance in the table that is not above this one."""
    below = [known for known in RISKS if known <= risk]
    if not below or risk > 0.5:
        raise UserError(f"--risk must be from {RISKS[0]:g} to 0.5, not {risk:g}: logs cannot show rarer events")
    return below[-1]


@dataclass(frozen=True)
class Choice:
    """The answer for one budget; `restriction` is none when there is none, and `why` says so in words."""

    budget: float
    restriction: float | None
    cost: Interval | None
    reward: Interval | None
    """Estimated from logs; none where no eps was chosen by them."""
    why: str
    certified: bool = False
    """Whether a pilot's real episodes have proved that this eps keeps the budget."""
    risk: float | None = None
    """The share of episodes that may exceed the budget; none where it is for the mean."""
    tail: float | None = None
    """Upper bound of the cost that this share of episodes exceeds."""


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
    lspc_version: str = ""
    """What made it; nothing before 0.3."""
    doubt: str = ""
    """Why no eps can be chosen for any budget; nothing where one can."""
    rules: int = 0
    """`RULES` when it was made; 0 before they were counted."""

    def __repr__(self) -> str:
        low, high = self.curve[0], self.curve[-1]
        return (
            f"Calibration(seed {self.training_seed}: LSPC-O from eps {low.restriction:g}, cost {low.cost.mean:.3g}, "
            f"to eps {high.restriction:g}, cost {high.cost.mean:.3g}; .choose(budget))"
        )

    def choose(self, budget: float, risk: float | None = None) -> Choice:
        """Of the eps up to the first whose upper bound exceeds the budget, the one with the most predicted reward.

        The bound is of the mean cost of an episode; with a `risk`, of the cost that an episode exceeds so rarely.
        """
        check_budget(budget)
        if lacking := self.doubt or explain_lack(self.episode_costs, budget, self.cost_margin.unit):
            return Choice(budget, None, None, None, lacking)
        fitting = list(takewhile(lambda point: not point.beyond and point.bound(risk) <= budget, self.curve))
        if not fitting:
            safest = self.curve[0]
            rarely = "" if risk is None else f" in more than {round_risk(risk):.0%} of episodes"
            told = (
                "anything, as it leaves what the data show" if safest.beyond else f"{safest.bound(risk):.3g}{rarely}"
            )
            return Choice(
                budget, None, None, None,
                f"no eps fits: the smallest, eps {safest.restriction:g}, may cost {told} "
                f"(estimated {safest.cost.mean:.3g}); deploy LSPC-S, use the guard, or raise the budget",
            )  # fmt: skip
        best = max(fitting, key=lambda point: point.reward.mean)
        why = (
            f"eps {best.restriction:.3g}: cost estimated from logs {best.cost.mean:.3g} "
            f"({self.confidence:.0%}: at most {best.cost.high:.3g}), "
            f"reward {best.reward.mean:.4g} ({best.reward.low:.4g} to {best.reward.high:.4g})"
        )
        if risk is not None:
            why += (
                f"; estimated to cost more than {best.bound(risk):.3g} in {round_risk(risk):.0%} of episodes at most"
            )
        if best.restriction == self.curve[-1].restriction:
            why += "; the largest eps there is"
        elif len(fitting) < len(self.curve) and self.curve[len(fitting)].beyond:
            why += f"; beyond eps {fitting[-1].restriction:.3g} it leaves what the data show"
        elif best is not fitting[-1]:
            why += f"; eps up to {fitting[-1].restriction:.3g} fit, and are predicted to earn less"
        choice = Choice(budget, best.restriction, best.cost, best.reward, why)
        return choice if risk is None else replace(choice, risk=round_risk(risk), tail=best.bound(risk))


def explain_lack(episode_costs: Sequence[float], budget: float, unit: float) -> str:
    """Why the data cannot speak of a budget; nothing if they can."""
    near = int(np.sum(np.asarray(episode_costs) <= max(2.0 * budget, budget + unit)))
    if near >= FEWEST_NEAR:
        return ""
    return (
        f"the data cannot tell: only {near} of {len(episode_costs)} episodes cost about {budget:g} or "
        f"less ({FEWEST_NEAR} are needed); add safer episodes or raise the budget"
    )
