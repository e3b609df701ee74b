"""The run-time alarm: do episodes still cost what was certified or predicted, or more?

Money is bet on the mean being above the limit (`lspc.calibration.bounds` says why that is a test). A change may come
at any time, so a part of the money waits: 1 / (k (k + 1)) of it enters the bets at episode k. If the mean cost never
exceeds the limit, whatever the distribution, money ever reaches 1 / rate with a chance of `rate` at most: that is the
chance of a false alarm in a whole lifetime, not in an episode.
"""

import math
from typing import Literal

import numpy as np

from lspc.calibration.bounds import excess_bets
from lspc.calibration.certificate import Certificate
from lspc.calibration.choosing import Calibration
from lspc.errors import UserError

Verdict = Literal["ok", "alarm"]


class Alarm:
    """Observes the cost of each episode; once it has gone off it stays so."""

    def __init__(self, limit: float, bound: float, *, rate: float = 0.01) -> None:
        """`limit` on the mean, `bound` on the cost of any one episode, and the rate of false alarms."""
        if not 0 < limit < bound < math.inf or not 0 < rate < 1:
            raise UserError(
                f"an alarm needs 0 < limit < bound and a rate between 0 and 1, not limit {limit:g}, bound {bound:g}, "
                f"rate {rate:g}"
            )
        self.limit, self.bound, self.rate = limit, bound, rate
        self.why = ""
        """What happened, once the alarm has gone off."""
        self._costs: list[float] = []
        self._bets = excess_bets(limit / bound)
        self._invested = np.zeros(len(self._bets))

    @staticmethod
    def of(certificate: Certificate, *, rate: float = 0.01) -> "Alarm":
        """For a certified eps: goes off when its certificate no longer describes the plant."""
        if certificate.restriction is None:
            raise UserError(
                f"nothing was certified for budget {certificate.claim.budget:g}: there is no limit to watch"
            )
        return Alarm(certificate.claim.budget, certificate.claim.bound, rate=rate)

    @staticmethod
    def of_prediction(calibration: Calibration, budget: float, *, rate: float = 0.01) -> "Alarm":
        """For an eps chosen from logs: goes off when it costs more than it was said to cost at most.

        Where that is less than one costly step in an episode, such a step (or the budget, if less) is the limit.
        """
        choice, step = calibration.choose(budget), calibration.cost_margin.unit
        if choice.cost is None:
            raise UserError(f"nothing is predicted for budget {budget:g}: {choice.why}")
        return Alarm(max(choice.cost.high, min(step, budget)), calibration.horizon * step, rate=rate)

    @property
    def wealth(self) -> float:
        """Of the bets, from 1 at the start; at 1 / rate the alarm goes off."""
        return float(self._invested.sum()) + 1.0 / (len(self._costs) + 1)

    @property
    def verdict(self) -> Verdict:
        return "alarm" if self.why else "ok"

    def observe(self, cost: float) -> Verdict:
        """The cost of the episode that has just ended."""
        if self.why:
            return "alarm"
        if not 0 <= cost <= self.bound:  # not so for NaN either
            self.why = (
                f"an episode cost {cost:g}, which is not between 0 and {self.bound:g}, the largest cost possible"
            )
            return "alarm"
        self._costs.append(cost)
        number = len(self._costs)
        fresh = 1.0 / (number * (number + 1)) / len(self._bets)
        self._invested = (self._invested + fresh) * (1.0 + self._bets * (cost - self.limit) / self.bound)
        if self.wealth >= 1.0 / self.rate:
            recent = self._costs[-10:]
            self.why = (
                f"after {number} episodes the mean cost is not at most {self.limit:g} any more (the last "
                f"{len(recent)} cost {np.mean(recent):.3g} on average; rate of false alarms: {self.rate:.2g})"
            )
        return self.verdict
