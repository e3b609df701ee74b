"""A dataset in numbers, as `lspc inspect` prints it: sizes, spread of reward and cost, share in budget."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data import mapped
from lspc.data.dataset import FIELDS, Dataset
from lspc.data.validate import budget_warning


def profile(dataset: Dataset, thresholds: Sequence[float]) -> dict[str, Any]:
    """What a dataset holds, ready for JSON; `problems` are the warnings of its opening and of its budgets."""
    inside = {f"{threshold:g}": dataset.cost_returns <= threshold for threshold in thresholds}
    over_budget = budget_warning(dataset, thresholds)
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
        "duplicates": dataset.transitions - len(np.unique(_hash_rows(dataset))),
        "fingerprint": dataset.fingerprint,
        "problems": [*dataset.warnings, *([over_budget] if over_budget else [])],
    }


def _columns(dataset: Dataset) -> list[dict[str, Any]]:
    """The range of every column that is learned from, under the name it has in the log."""
    named = dataset.opened.get("columns", {})
    told: list[dict[str, Any]] = []
    for role, array in (("observations", dataset.observations), ("actions", dataset.actions)):
        names = named.get(role) or [f"{role}_{i}" for i in range(array.shape[1])]
        told += _ranges(names, role, array)
    told += _ranges([named.get("reward", "rewards")], "reward", dataset.rewards[:, None])
    told += _ranges([named.get("cost", "costs")], "cost", dataset.costs[:, None])
    return told


def _ranges(names: Sequence[str], role: str, array: NDArray[Any]) -> list[dict[str, Any]]:
    (low, high), (mean, _) = mapped.extremes(array), mapped.moments(array)
    values = zip(names, low.tolist(), high.tolist(), mean.tolist(), strict=True)
    return [{"name": name, "role": role, "min": a, "max": b, "mean": m} for name, a, b, m in values]


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
