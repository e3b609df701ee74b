"""A few real episodes turned into a certificate: the mean cost of an episode is at most the budget.

eps are tried from the smallest upward, and none before every smaller one has passed its test; the first that fails
ends the pilot. Testing in a sequence fixed beforehand needs no correction for the number of tests: a false
certificate is given with a chance of 1 - confidence at most, whatever the costs' distribution (`bounds`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lspc.calibration import bounds
from lspc.data import Dataset
from lspc.errors import UserError

BETTING, HOEFFDING_BENTKUS = "betting", "hoeffding-bentkus"
"""The tests: betting may stop at any time, the other is of a number of episodes that was fixed beforehand."""


class Trial(NamedTuple):
    """One real episode."""

    cost: float
    reward: float


TryEpisodes = Callable[[float, int, int], Sequence[Trial]]
"""(eps, number of the first episode, how many at most) -> these episodes of LSPC-O; none when there are no more."""


@dataclass(frozen=True)
class Claim:
    """What is to be proved: the mean cost of an episode is at most the budget."""

    budget: float
    bound: float
    """The largest cost that an episode can have."""
    bound_from: str
    """Who says so."""
    confidence: float
    test: str
    """BETTING or HOEFFDING_BENTKUS."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise UserError(f"--confidence must be from 0.5 to below 1, not {self.confidence:g}")
        if self.test not in (BETTING, HOEFFDING_BENTKUS):
            raise UserError(f"the test must be {BETTING} or {HOEFFDING_BENTKUS}, not {self.test!r}")
        if not 0 < self.budget < self.bound < float("inf"):
            raise UserError(
                f"the budget must lie above 0 and below {self.bound:g}, the largest cost of an episode "
                f"({self.bound_from}), not {self.budget:g}; no number of episodes proves a mean of 0"
            )

    @property
    def target(self) -> float:
        return self.budget / self.bound

    def fewest_episodes(self) -> int:
        """Episodes that the test needs when none costs anything."""
        if self.test == BETTING:
            return bounds.fewest_episodes(self.target, self.confidence)
        return int(np.ceil(np.log1p(-self.confidence) / np.log1p(-self.target)))

    def shares(self, trials: Sequence[Trial]) -> np.ndarray:
        """Costs as shares of the largest possible one, which none may exceed."""
        costs = np.array([trial.cost for trial in trials], float)
        wrong = costs[~((costs >= 0) & (costs <= self.bound))]
        if len(wrong):
            raise UserError(
                f"an episode cost {wrong[0]:g}, but the largest cost of an episode is said to be {self.bound:g} "
                f"({self.bound_from}): without a true bound there is no certificate; add --bound"
            )
        return costs / self.bound

    def p_value(self, trials: Sequence[Trial]) -> float:
        test = bounds.betting_p_value if self.test == BETTING else bounds.hoeffding_bentkus_p_value
        return float(test(self.shares(trials), self.target))


@dataclass(frozen=True)
class Stage:
    """One eps: its episodes and what they prove."""

    restriction: float
    costs: tuple[float, ...]
    rewards: tuple[float, ...]
    passed: bool
    p_value: float
    """Of the claim that the mean cost is above the budget."""
    upper_bound: float
    """Of the mean cost, with the confidence of the pilot; by betting, whichever test decides."""
    too_costly: bool
    """Whether it is proved, with the same confidence, that the mean is above the budget."""
    more: int | None
    """Estimate of how many more episodes like these would do; none if it passed or if they would not."""

    @property
    def mean_cost(self) -> float:
        return float(np.mean(self.costs))

    @property
    def mean_reward(self) -> float:
        return float(np.mean(self.rewards))

    def explain(self, claim: Claim) -> str:
        told = f"eps {self.restriction:.3g}: mean cost {self.mean_cost:.3g} in {len(self.costs)} real episodes"
        limit, sure = f"{claim.budget:g}", f"with {claim.confidence:.0%} confidence"
        if self.passed:
            return f"{told}; on average at most {limit} {sure}"
        if self.too_costly:
            return f"{told}; on average above {limit} {sure}"
        if self.more is None:
            return f"{told}; no number of episodes like these would prove a mean of at most {limit}"
        return f"{told}; not yet proved to be at most {limit} on average: about {self.more} more like these would do"


def run_sequence(
    claim: Claim, plan: Mapping[float, int], try_episodes: TryEpisodes, *, batch: int = 1
) -> tuple[Stage, ...]:
    """Stages from the smallest eps to the first that fails.

    `plan` says how many episodes each may have; `batch` of them are run between two looks.
    """
    stages: list[Stage] = []
    for restriction in sorted(plan):
        stages.append(_test_one(claim, restriction, try_episodes, plan[restriction], batch))
        if not stages[-1].passed:
            break
    return tuple(stages)


def _test_one(claim: Claim, restriction: float, try_episodes: TryEpisodes, episodes: int, batch: int) -> Stage:
    trials: list[Trial] = []
    while len(trials) < episodes:
        new = try_episodes(restriction, len(trials), min(batch, episodes - len(trials)))
        if not new:
            break
        trials += new
        if _decided(claim, trials, episodes):
            break
    if not trials:
        raise UserError(f"eps {restriction:g}: there is no episode to test")
    return _judge(claim, restriction, trials, episodes)


def _decided(claim: Claim, trials: Sequence[Trial], episodes: int) -> bool:
    """Proved, plainly too costly, or beyond hope within the episodes that are left: no reason to run another.

    Giving up early never makes a false certificate more likely.
    """
    if claim.test == BETTING and claim.p_value(trials) <= 1 - claim.confidence:
        return True
    return _too_costly(claim, trials) or _hopeless(claim, trials, episodes)


def _too_costly(claim: Claim, trials: Sequence[Trial]) -> bool:
    return float(bounds.excess_p_value(claim.shares(trials), claim.target)) <= 1 - claim.confidence


def _hopeless(claim: Claim, trials: Sequence[Trial], episodes: int) -> bool:
    """Whether free episodes from now on would not do either."""
    free = [Trial(0.0, 0.0)] * (episodes - len(trials))
    return claim.p_value([*trials, *free]) > 1 - claim.confidence


def _judge(claim: Claim, restriction: float, trials: Sequence[Trial], episodes: int) -> Stage:
    shares, p_value = claim.shares(trials), claim.p_value(trials)
    # Fixed beforehand means fixed: fewer episodes than that, because it was plainly too costly, prove nothing.
    complete = claim.test == BETTING or len(trials) == episodes
    passed = complete and p_value <= 1 - claim.confidence
    more = None if passed else bounds.estimate_more_episodes(shares, claim.target, claim.confidence)
    return Stage(
        restriction=restriction,
        costs=tuple(trial.cost for trial in trials),
        rewards=tuple(trial.reward for trial in trials),
        passed=passed,
        p_value=p_value,
        upper_bound=claim.bound * bounds.upper_bound(shares, claim.target, claim.confidence),
        too_costly=_too_costly(claim, trials),
        more=more,
    )


def parse_logs(written: Sequence[str]) -> dict[float, Path]:
    """`EPS=FILE`, as the command line has it, one file for each eps."""
    logs: dict[float, Path] = {}
    for each in written:
        eps, _, name = each.partition("=")
        try:
            restriction = float(eps)
        except ValueError:
            restriction = math.nan
        if not math.isfinite(restriction) or not name:
            raise UserError(f"--log {each}: write EPS=FILE, such as 0.5=pilot.hdf5")
        if restriction in logs:
            raise UserError(f"--log names eps {restriction:g} twice: put its episodes in one file")
        logs[restriction] = Path(name)
    return logs


def try_logs(logs: Mapping[float, Dataset], horizon: int) -> TryEpisodes:
    """Episodes that were recorded elsewhere, in the order they were recorded, by the eps they were run with.

    A whole one ends in a terminal state or after `horizon` steps.
    """
    for log in logs.values():
        ends = np.array([episode.stop - 1 for episode in log.episodes])
        cut = np.flatnonzero((log.lengths < horizon) & ~log.terminated[ends])
        if len(cut):
            raise UserError(
                f"{log.source}: {len(cut)} of {len(ends)} episodes were cut before the {horizon} steps of a whole one"
                f" (the first, episode {cut[0]}, after {log.lengths[cut[0]]}), so their whole cost is not known; "
                "leave them out, or mark them terminated if that is where they ended"
            )

    def try_episodes(restriction: float, first: int, count: int) -> list[Trial]:
        log = logs[restriction]
        pairs = zip(log.cost_returns[first : first + count], log.returns[first : first + count], strict=True)
        return [Trial(float(cost), float(reward)) for cost, reward in pairs]

    return try_episodes
