"""A dataset in numbers, as `lspc inspect` prints it: sizes, spread of reward and cost, share in budget."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data import mapped
from lspc.data.dataset import FIELDS, Dataset
from lspc.data.validate import budget_warning

BINS = 12
LEAK = 0.999
"""Correlation from which an observation is suspected to be the cost."""


def profile(dataset: Dataset, thresholds: Sequence[float]) -> dict[str, Any]:
    """What a dataset holds, ready for JSON; `problems` are the warnings of its opening and of its budgets."""
    inside = {f"{threshold:g}": dataset.cost_returns <= threshold for threshold in thresholds}
    over_budget, rows = budget_warning(dataset, thresholds), _hash_rows(dataset)
    return {
        "episodes": len(dataset.episodes),
        "transitions": dataset.transitions,
        "observation_dim": dataset.observation_dim,
        "action_dim": dataset.action_dim,
        "action_bounds": {"low": dataset.action_bounds.low, "high": dataset.action_bounds.high},
        "lengths": _spread(dataset.lengths),
        "returns": _spread(dataset.returns),
        "costs": _spread(dataset.cost_returns),
        "within_threshold": {name: float(mask.mean()) for name, mask in inside.items()},
        "best_return_within_threshold": {
            name: float(dataset.returns[mask].max()) if mask.any() else None for name, mask in inside.items()
        },
        "columns": _columns(dataset),
        "duplicates": dataset.transitions - len(np.unique(rows)),
        "duplicate_episodes": len(dataset.episodes) - len({rows[episode].tobytes() for episode in dataset.episodes}),
        "fingerprint": dataset.fingerprint,
        "problems": [*dataset.warnings, *([over_budget] if over_budget else []), *_find_leaks(dataset)],
    }


def _columns(dataset: Dataset) -> list[dict[str, Any]]:
    """The range of every column that is learned from, under the name it has in the log."""
    named = dataset.opened.get("columns", {})
    told: list[dict[str, Any]] = []
    for role, array in (("observations", dataset.observations), ("actions", dataset.actions)):
        told += _ranges(_names(dataset, role), role, array)
    told += _ranges([named.get("reward", "rewards")], "reward", dataset.rewards[:, None])
    told += _ranges([named.get("cost", "costs")], "cost", dataset.costs[:, None])
    return told


def _ranges(names: Sequence[str], role: str, array: NDArray[Any]) -> list[dict[str, Any]]:
    (low, high), (mean, _) = mapped.extremes(array), mapped.moments(array)
    counts = _histograms(array, low.astype(np.float64), high.astype(np.float64))
    values = zip(names, low.tolist(), high.tolist(), mean.tolist(), counts, strict=True)
    return [
        {"name": name, "role": role, "min": a, "max": b, "mean": m, "histogram": bins.tolist()}
        for name, a, b, m, bins in values
    ]


def _histograms(array: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Of each column, between its least and its most; one bin for a column that never changes."""
    bins = [BINS if a < b else 1 for a, b in zip(low, high, strict=True)]
    counts = [np.zeros(count, np.int64) for count in bins]
    for rows in mapped.blocks(array):
        block = array[rows].astype(np.float64)
        for i, count in enumerate(counts):
            count += np.histogram(block[:, i], bins[i], (low[i], high[i]))[0] if bins[i] > 1 else len(block)
    return counts


def _names(dataset: Dataset, role: str) -> list[str]:
    columns: int = getattr(dataset, role).shape[1]
    return dataset.opened.get("columns", {}).get(role) or [f"{role}_{i}" for i in range(columns)]


def _find_leaks(dataset: Dataset) -> list[str]:
    """Observations that are the cost of their own row: what a step costs is not known before it is taken."""
    said = str(dataset.opened.get("columns", {}).get("cost", ""))
    mean, spread = mapped.moments(dataset.observations)
    cost_mean, cost_spread = mapped.moments(dataset.costs)
    if cost_spread == 0:
        return []
    products = np.zeros_like(mean)
    for rows in mapped.blocks(dataset.observations):
        products += (dataset.costs[rows] - cost_mean) @ (dataset.observations[rows] - mean)
    correlations = products / dataset.transitions / np.maximum(spread * cost_spread, 1e-300)
    return [
        f"{dataset.source}: {name}, an observation, goes with the cost of its own row throughout: if it was "
        "recorded after the step, no policy will have it; leave it out"
        for name, correlation in zip(_names(dataset, "observations"), correlations, strict=True)
        # A cost that was said to be made of the column follows it.
        if abs(correlation) > LEAK and name not in said
    ]


def _hash_rows(dataset: Dataset) -> NDArray[np.uint64]:
    """64 bits of every transition: equal ones have equal bits, and different ones hardly ever."""
    arrays = [getattr(dataset, name) for name in FIELDS]
    width = sum(array[:1].size for array in arrays)
    factors = np.random.default_rng(0).integers(2**63, size=width, dtype=np.uint64) | np.uint64(1)
    hashes = np.zeros(dataset.transitions, np.uint64)
    for rows in mapped.blocks(*arrays):
        parts = [array[rows].reshape(rows.stop - rows.start, -1).astype(np.float32) for array in arrays]
        bits = (np.concatenate(parts, axis=1) + np.float32(0)).view(np.uint32).astype(np.uint64)  # -0 and 0 are equal
        bits *= factors
        bits ^= bits >> np.uint64(32)
        bits *= np.uint64(0x9E3779B97F4A7C15)
        hashes[rows] = bits.sum(axis=1)
    return hashes


def _spread(values: NDArray[Any]) -> dict[str, float]:
    q25, median, q75 = np.quantile(values, [0.25, 0.5, 0.75])
    return {
        "min": float(values.min()),
        "q25": float(q25),
        "median": float(median),
        "mean": float(values.mean()),
        "q75": float(q75),
        "max": float(values.max()),
    }
