"""DSRL's density filter: thin out episodes until every mix of cost and reward is about equally common."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def grid_filter(
    returns: ArrayLike,
    costs: ArrayLike,
    *,
    cost_bins: int,
    reward_bins: int,
    max_per_bin: int,
    min_per_bin: int,
    max_cost: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The indices, sorted, of the episodes to keep.

    Episodes above `max_cost` go first. The rest is laid on a grid of `cost_bins` x `reward_bins` cells that
    spans their costs and returns; a cell with fewer than `min_per_bin` episodes holds outliers and is
    emptied, and from a cell with more than `max_per_bin` that many are drawn at random.
    """
    returns, costs = np.asarray(returns, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    affordable = np.flatnonzero(costs <= max_cost)
    if len(affordable) == 0:
        return affordable
    row = _bin(costs[affordable], cost_bins)
    column = _bin(returns[affordable], reward_bins)
    cell = row * reward_bins + column
    kept: list[NDArray[np.int64]] = []
    for number in np.unique(cell):
        members = affordable[cell == number]
        if len(members) < min_per_bin:
            continue
        if len(members) > max_per_bin:
            members = rng.choice(members, max_per_bin, replace=False)
        kept.append(members)
    return np.sort(np.concatenate(kept)) if kept else affordable[:0]


def _bin(values: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """The bin of each value, in equal bins from the smallest to the largest, which is in the last bin."""
    low, high = values.min(), values.max()
    width = (high - low) / bins
    if width == 0:
        return np.zeros(len(values), dtype=np.int64)
    return np.minimum((values - low) / width, bins - 1).astype(np.int64)
