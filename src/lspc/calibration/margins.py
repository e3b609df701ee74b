"""How far the dynamics models can be trusted, measured on episodes that they have not seen.

Episodes that were driven again in the models (`closed_loop`) are sorted by what the models say of them and grouped;
each group's prediction stands beside its truth. By how much the groups whose prediction is nearest to a cost were
underrated on average sets its margin; what the models disagree about among themselves is added.

Costs are compared by their square roots. A body that keeps near a limit, and a model that is a little off about
where it is, make the error of a small cost small and that of a larger one larger; in square roots they are about
alike, and so are the chance variations of a count. What is chosen here (groups, how many are near, how much of their
error is asked, reach, what the data know of costs) was chosen on the plants of scripts/coverage.py that are there for
it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import spearmanr
from scipy.stats import t as student

from lspc.calibration.closed_loop import Driven
from lspc.runs.statistics import Interval

GROUPS = 10
"""Of episodes."""
NEAREST = 4
"""Groups whose errors a cost is judged by."""
ASKED, SPREADS = 1.3, 0.25
"""How many times the mean error of the groups nearby, and the spread, a bound adds to a cost: models know policies
less well than the behaviours that they have learned from."""
LEAST_SHIFT = 0.04
"""Of the root of a cost, in units: added where the groups nearby were told well."""
COSTLIEST = 0.2
"""Share of the episodes that shows how much the data know of costs."""
FEWEST_COSTLY = 10
"""Episodes in that share at least."""
REACH = 5.0
"""A policy may stray beyond the range of the data so many times as far as episodes that were left out do."""
CONFIDENT = 0.95
"""Of each end of a reward's interval."""
LEAST_RANK, CHANCE = 0.2, 0.01
"""Models must rank episodes by cost with this rank correlation at least, and so well that models which know nothing
would do it with this chance only."""
CANNOT_TELL = (
    "the models of the plant cannot tell which recorded episodes cost more than others, so nothing can be estimated "
    "from these logs; a pilot can show it (`lspc pilot`)"
)


@dataclass(frozen=True)
class Margin:
    """An estimate m may be off by `share` of (m's size + unit), its square root by a shift, and by its spreads."""

    share: float
    unit: float
    spreads: float = 2.0
    """How many times the spread between the models."""
    shifts: tuple[tuple[float, float], ...] = ()
    """For groups of episodes: the root of their predicted cost in units, and by how much the true one is larger (or
    smaller, below 0)."""

    def error(self, mean: Any, spread: Any) -> Any:
        """How far an estimate (or an array of them) may be off."""
        size = abs(mean)
        return self.share * (size + self.unit) + self._shift(size) + self.spreads * spread

    def _shift(self, size: Any) -> Any:
        """By how much a cost grows when its root is off as those of the nearest groups were on average."""
        if not self.shifts:
            return 0.0
        xp = jnp if isinstance(size, Array) else np
        root = xp.sqrt(xp.asarray(size / self.unit))
        places, shifts = xp.asarray(self.shifts, root.dtype).T
        gaps = xp.abs(root[..., None] - places.reshape((1,) * root.ndim + (-1,)))
        near = (gaps <= xp.sort(gaps, axis=-1)[..., min(NEAREST, len(places)) - 1, None]).astype(root.dtype)
        mean = (near * shifts.reshape((1,) * root.ndim + (-1,))).sum(axis=-1) / near.sum(axis=-1)
        shift = xp.maximum(mean + LEAST_SHIFT, 0.0)
        return ASKED * self.unit * shift * (2.0 * root + shift)

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
    predicted = driven.predicted.mean(axis=1)
    groups = np.array_split(np.argsort(predicted[:, 1] * driven.scale, kind="stable"), GROUPS)
    found = tuple(_replay_group(predicted[own], driven.true[own], driven.scale[own]) for own in groups if len(own))
    size = max(float(np.mean([abs(group.reward) for group in found])), 1e-6)
    off = max(abs(group.reward - group.predicted_reward) / (abs(group.predicted_reward) + size) for group in found)
    # A reward is told to within a share of what episodes usually earn.
    reward = Margin(off, size, float(student.ppf(CONFIDENT, members - 1)))
    return found, fit_cost_margin(found, max(unit, 1e-6)), reward


def _replay_group(predicted: np.ndarray, true: np.ndarray, scale: np.ndarray) -> Replay:
    """What a whole episode brings at the group's rate per step: a record of few steps counts by these alone."""
    told = [values.sum(axis=0) / (1.0 / scale).sum() for values in (true, predicted)]
    (reward, cost), (predicted_reward, predicted_cost) = (each.tolist() for each in told)
    return Replay(len(true), cost, predicted_cost, reward, predicted_reward)


def fit_cost_margin(groups: tuple[Replay, ...], unit: float) -> Margin:
    """By how much the root of each group's true cost exceeds that of its predicted one."""
    roots = [(float(np.sqrt(group.predicted_cost / unit)), float(np.sqrt(group.cost / unit))) for group in groups]
    return Margin(0.0, unit, SPREADS, tuple((place, true - place) for place, true in roots))


def find_doubt(driven: Driven) -> str:
    """Why the models cannot be relied on at all; nothing if they can.

    They must have been seen to tell costly episodes from cheap ones: those that they predict to cost more do cost
    more, and not by chance alone. Where next to no episode costs anything there is nothing to tell.
    """
    predicted, true = driven.predicted[..., 1].mean(axis=1) * driven.scale, driven.true[:, 1] * driven.scale
    if np.count_nonzero(true) < FEWEST_COSTLY or np.ptp(true) == 0:
        return ""
    if np.ptp(predicted) == 0:
        return CANNOT_TELL
    ranked = spearmanr(predicted, true, alternative="greater")
    return "" if ranked.statistic >= LEAST_RANK and ranked.pvalue <= CHANCE else CANNOT_TELL


def measure_reach(driven: Driven) -> float:
    """How far beyond the range of the data a policy may stray, on average: some more than the episodes that were left
    out did in truth, or do in the models."""
    return REACH * max(float(driven.strayed.mean()), float(driven.driven_out.mean()))


def measure_shown(episode_costs: np.ndarray, largest: float) -> float:
    """The largest predicted cost that the data know enough of: the costliest episodes' mean, or a single step's.

    Where few episodes cost anything, models learn from them that cost is rare, and say so of whoever is reckless.
    """
    number = max(FEWEST_COSTLY, round(COSTLIEST * len(episode_costs)))
    return max(largest, float(np.sort(episode_costs)[-number:].mean()))


class Frontier(NamedTuple):
    """What recorded episodes show to be possible: a return, and the least that an episode of it or more cost."""

    returns: Float[np.ndarray, " episodes"]
    """Ascending."""
    costs: Float[np.ndarray, " episodes"]

    @staticmethod
    def of(returns: np.ndarray, costs: np.ndarray) -> "Frontier":
        order = np.argsort(returns, kind="stable")
        return Frontier(returns[order], np.minimum.accumulate(costs[order][::-1])[::-1])

    def cheapest(self, earned: float) -> float:
        """The least that an episode cost which returned so much; infinite where none did."""
        place = int(np.searchsorted(self.returns, earned))
        return float(self.costs[place]) if place < len(self.costs) else np.inf


def measure_spread(values: Float[np.ndarray, "members starts"]) -> float:
    """Of a mean over members and starts: how much another ensemble and other starts would change it."""
    between_members = values.mean(axis=1).var(ddof=1)
    starts = values.shape[1]
    over_starts = values.mean(axis=0).var(ddof=1) / starts if starts > 1 else 0.0
    return float(np.sqrt(between_members + over_starts))
