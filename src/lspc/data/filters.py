"""Which part of a log to learn from, and how to make it worse on purpose: DSRL's filters and a few more.

Each is a function of the dataset, its numbers and a generator; a user writes NAME=NUMBER:NUMBER, one after the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import Dataset
from lspc.data.grid import grid_filter
from lspc.errors import UserError

Numbers = tuple[float, ...]


def safe_only(dataset: Dataset, numbers: Numbers, rng: np.random.Generator) -> Dataset:
    """The episodes without any cost."""
    return dataset.select(np.flatnonzero(dataset.cost_returns == 0))


def max_cost(dataset: Dataset, numbers: Numbers, rng: np.random.Generator) -> Dataset:
    """The episodes that cost at most COST."""
    return dataset.select(np.flatnonzero(dataset.cost_returns <= numbers[0]))


def subsample(dataset: Dataset, numbers: Numbers, rng: np.random.Generator) -> Dataset:
    """This SHARE of the episodes, drawn at random; at least one."""
    share = _check_share(numbers[0])
    count = max(round(share * len(dataset.episodes)), 1)
    return dataset.select(np.sort(rng.choice(len(dataset.episodes), count, replace=False)))


def grid(dataset: Dataset, numbers: Numbers, rng: np.random.Generator) -> Dataset:
    """DSRL's density filter: on a grid of COSTS x RETURNS cells, cells of at most LEAST episodes are emptied, and of
    each other at most MOST episodes stay."""
    costs, returns, most, least = (int(number) for number in numbers or (10, 50, 5, 2))
    if min(costs, returns, most) < 1 or least < 0:
        raise UserError("COSTS, RETURNS and MOST must be 1 or more")
    kept = grid_filter(
        dataset.returns, dataset.cost_returns, cost_bins=costs, reward_bins=returns, max_per_bin=most,
        min_per_bin=least + 1, max_cost=np.inf, rng=rng,
    )  # fmt: skip
    return dataset.select(kept)


def noise(dataset: Dataset, numbers: Numbers, rng: np.random.Generator) -> Dataset:
    """Gaussian noise on what is seen, SCALE times each observation's own standard deviation.

    A moment is read once: the next observation of a row is the noisy observation of the row after it.
    """
    std = np.array([column.std(dtype=np.float64) for column in dataset.observations.T])
    size = dataset.observations.shape
    now = (dataset.observations + numbers[0] * std * rng.normal(size=size)).astype(np.float32)
    then = (dataset.next_observations + numbers[0] * std * rng.normal(size=size)).astype(np.float32)
    inside = ~(dataset.terminated | dataset.truncated)[:-1]
    then[:-1][inside] = now[1:][inside]
    return replace(dataset, observations=now, next_observations=then)


def outliers(dataset: Dataset, numbers: Numbers, rng: np.random.Generator) -> Dataset:
    """Episodes that lie: SHARE of all, at least one, of those with at least half of the largest cost and return.

    Their rewards count half as much again, and their costs become single ones at random steps, fewer than BUDGET.
    """
    share, budget = _check_share(numbers[0]), numbers[1]
    if budget < 1:
        raise UserError("BUDGET must be 1 or more")
    total, returns = dataset.cost_returns, dataset.returns
    eligible = np.flatnonzero((total >= total.max() / 2) & (returns >= returns.max() / 2))
    count = max(int(share * len(total)), 1)
    if count > len(eligible):
        raise UserError(f"{len(eligible)} episodes have half of the largest cost and return, and {count} are wanted")
    costs, rewards = dataset.costs.copy(), dataset.rewards.copy()
    for index in rng.choice(eligible, count, replace=False):
        rows = dataset.episodes[index]
        length = rows.stop - rows.start
        costs[rows] = 0.0
        costs[rows.start + rng.choice(length, min(int(rng.integers(int(budget))), length), replace=False)] = 1.0
        rewards[rows] *= 1.5
    return replace(dataset, costs=costs, rewards=rewards)


def inpaint(dataset: Dataset, numbers: Numbers, rng: np.random.Generator) -> Dataset:
    """Without the episodes whose cost and return lie within these shares of their ranges, ends included."""
    c_low, c_high, r_low, r_high = numbers
    within = _within(dataset.cost_returns, c_low, c_high) & _within(dataset.returns, r_low, r_high)
    return dataset.select(np.flatnonzero(~within))


def eps_reduce(dataset: Dataset, numbers: Numbers, rng: np.random.Generator) -> Dataset:
    """Without the best within BUDGET, those whose return is at most EPS below the best of them.

    A negative EPS takes away the best beyond BUDGET in the same way, which makes the data easier.
    """
    eps, budget = numbers
    group = dataset.cost_returns <= budget if eps >= 0 else dataset.cost_returns > budget
    if not group.any():
        raise UserError(f"no episode costs {'at most' if eps >= 0 else 'more than'} {budget:g}")
    best = dataset.returns[group].max()
    return dataset.select(np.flatnonzero(~(group & (dataset.returns >= best - abs(eps)))))


@dataclass(frozen=True)
class Filter:
    """A filter and the numbers it takes, as a user writes them; those of `may_lack` may be left out together."""

    apply: Callable[[Dataset, Numbers, np.random.Generator], Dataset]
    numbers: tuple[str, ...] = ()
    may_lack: bool = False


FILTERS = {
    "safe-only": Filter(safe_only),
    "max-cost": Filter(max_cost, ("COST",)),
    "subsample": Filter(subsample, ("SHARE",)),
    "grid": Filter(grid, ("COSTS", "RETURNS", "MOST", "LEAST"), may_lack=True),
    "noise": Filter(noise, ("SCALE",)),
    "outliers": Filter(outliers, ("SHARE", "BUDGET")),
    "inpaint": Filter(inpaint, ("COST", "COST", "RETURN", "RETURN")),
    "eps-reduce": Filter(eps_reduce, ("EPS", "BUDGET")),
}


def apply_filters(dataset: Dataset, texts: Sequence[str], seed: int) -> Dataset:
    """The dataset after each filter in turn; a line of the warnings says what each did."""
    for position, text in enumerate(texts):
        name, numbers = parse_filter(text)
        before = len(dataset.episodes)
        try:
            changed = FILTERS[name].apply(dataset, numbers, np.random.default_rng([seed, position]))
        except UserError as error:
            reason = str(error).removeprefix(f"{dataset.source}: ")
            raise UserError(f"{dataset.source}: --filter {text}: {reason}") from error
        told = f"{dataset.source}: filter {text}: {len(changed.episodes):,} of {before:,} episodes"
        dataset = replace(changed, warnings=(*dataset.warnings, told))
    return dataset


def parse_filter(text: str) -> tuple[str, Numbers]:
    name, _, values = text.partition("=")
    known = FILTERS.get(name)
    if known is None:
        raise UserError(f"--filter {text}: there is no filter {name!r}; there are {', '.join(map(usage, FILTERS))}")
    try:
        numbers = tuple(float(value) for value in values.split(":")) if values else ()
    except ValueError as error:
        raise UserError(f"--filter {text}: write {usage(name)} with numbers") from error
    fits = len(numbers) == len(known.numbers) or (known.may_lack and not numbers)
    if not fits or not np.isfinite(numbers).all():
        raise UserError(f"--filter {text}: write {usage(name)}")
    return name, numbers


def usage(name: str) -> str:
    """How a user writes it."""
    known = FILTERS[name]
    words = f"={':'.join(known.numbers)}" if known.numbers else ""
    return f"{name}[{words}]" if known.may_lack else name + words


def _check_share(share: float) -> float:
    if not 0 < share <= 1:
        raise UserError("SHARE must be above 0 and at most 1")
    return share


def _within(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.bool_]:
    """Which values lie between these shares of the way from the least to the most."""
    least, span = values.min(), np.ptp(values)
    return (values >= least + low * span) & (values <= least + high * span)
