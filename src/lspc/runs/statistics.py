"""Figures from raw episodes: means, interquartile means, intervals, tails, and how likely one policy beats another.

Intervals (95 %) are bootstrapped by drawing training seeds and then episodes within each. A stratum is one policy on
one task: each is drawn by itself, and the thresholds of an episode are drawn together, since one policy may serve
them all. A stratum's draws follow from its name, so a figure depends on nothing else that is in the table.
"""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 2000
SAFE = 1.0
"""Normalised cost below which a policy counts as safe."""
TAIL = 0.1
"""Share of the episodes, the costliest ones, that the tail cost is the mean of."""


@dataclass(frozen=True)
class Interval:
    mean: float
    low: float
    high: float


def bootstrap(groups: Sequence[np.ndarray]) -> Interval:
    """Mean of the groups' means, and its interval; a group holds the episodes of one training seed."""
    means = draw_means(groups, DRAWS, 0).mean(axis=1)
    return _interval(np.mean([group.mean() for group in groups]), means)


def draw_means(groups: Sequence[np.ndarray], draws: int, seed: int) -> np.ndarray:
    """Means of drawn groups, (draws, groups): a group is drawn, then values within it."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(groups), size=(draws, len(groups)))
    means = np.empty(chosen.shape)
    for number, group in enumerate(groups):
        places = chosen == number
        means[places] = group[rng.integers(len(group), size=(places.sum(), len(group)))].mean(axis=1)
    return means


def _interval(seen: np.ndarray | np.floating, drawn: np.ndarray) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(float(seen), float(low), float(high))


@dataclass(frozen=True, eq=False)
class Stratum:
    """One policy on one task: normalised rewards and costs of shape (thresholds, training seeds, episodes)."""

    name: str
    reward: np.ndarray
    cost: np.ndarray

    def per_episode(self) -> tuple[np.ndarray, np.ndarray]:
        """Reward and cost of each (seed, episode), averaged over the thresholds."""
        return self.reward.mean(axis=0), self.cost.mean(axis=0)

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean reward and cost of every drawn seed, (draws, seeds) each, from the same draws."""
        seed = zlib.crc32(self.name.encode())
        reward, cost = (draw_means(list(values), DRAWS, seed) for values in self.per_episode())
        return reward, cost


@dataclass(frozen=True)
class Figures:
    """All that is said about one policy on one task or, as an average, on several."""

    seeds: int
    """The fewest that a task has."""
    episodes: int
    """The fewest per seed, threshold and task."""
    reward: Interval
    cost: Interval
    reward_iqm: Interval
    """Interquartile mean over the runs (task x seed)."""
    cost_iqm: Interval
    over_budget: float
    """Share of episodes whose cost is above the threshold."""
    tail_cost: float
    """Mean normalised cost of the costliest tenth of the episodes."""

    @property
    def safe(self) -> bool:
        return self.cost.mean < SAFE


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Mean of what is left along the last axis without the lowest and the highest quarter (rounded down)."""
    cut = values.shape[-1] // 4
    return np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut].mean(axis=-1)


def compute_figures(strata: Sequence[Stratum]) -> Figures:
    """One stratum: a task's figures. Several: their average, in which each counts alike."""
    drawn = [stratum.draw() for stratum in strata]
    seen = [[values.mean(axis=1) for values in stratum.per_episode()] for stratum in strata]

    def interval(which: int, statistic: Callable[[list[np.ndarray]], np.ndarray]) -> Interval:
        return _interval(statistic([s[which] for s in seen]), statistic([d[which] for d in drawn]))

    def mean(runs: list[np.ndarray]) -> np.ndarray:
        return np.mean([values.mean(axis=-1) for values in runs], axis=0)

    def middle(runs: list[np.ndarray]) -> np.ndarray:
        return interquartile_mean(np.concatenate(runs, axis=-1))

    return Figures(
        seeds=min(stratum.cost.shape[1] for stratum in strata),
        episodes=min(stratum.cost.shape[2] for stratum in strata),
        reward=interval(0, mean),
        cost=interval(1, mean),
        reward_iqm=interval(0, middle),
        cost_iqm=interval(1, middle),
        over_budget=float(np.mean([(stratum.cost > SAFE).mean() for stratum in strata])),
        tail_cost=float(np.mean([tail_mean(at) for stratum in strata for at in stratum.cost])),
    )


def tail_mean(costs: np.ndarray) -> float:
    """Mean of the largest tenth, rounded up to whole episodes."""
    worst = np.sort(costs, axis=None)[-math.ceil(TAIL * costs.size) :]
    return float(worst.mean())


def beats(ours: Sequence[Stratum], theirs: Sequence[Stratum]) -> Interval:
    """Probability that a training run of ours beats one of theirs on the same task, averaged over the tasks.

    Safety first: a safe run beats an unsafe one; of two safe ones the one with more reward wins, of two unsafe ones
    the one with less cost. A tie counts half.
    """

    def share(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        wins = x[..., :, None] > y[..., None, :]
        ties = x[..., :, None] == y[..., None, :]
        return (wins + 0.5 * ties).mean(axis=(-2, -1))

    def point(stratum: Stratum) -> np.ndarray:
        reward, cost = stratum.per_episode()
        return _worth(reward.mean(axis=1), cost.mean(axis=1))

    pairs = list(zip(ours, theirs, strict=True))
    seen = np.mean([share(point(a), point(b)) for a, b in pairs], axis=0)
    drawn = np.mean([share(_worth(*a.draw()), _worth(*b.draw())) for a, b in pairs], axis=0)
    return _interval(seen, drawn)


def _worth(reward: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """A number that orders runs by safety first; no normalised reward is anywhere near a million."""
    return np.where(cost < SAFE, 1e6 + reward, -cost)
