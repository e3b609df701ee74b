"""A dataset in numbers, as `lspc inspect` prints it: sizes, spread of reward and cost, share in budget."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        "duplicates": dataset.transitions - len(np.unique(_rows_as_bytes(dataset))),
        "fingerprint": dataset.fingerprint,
        "problems": [*dataset.warnings, *([over_budget] if over_budget else [])],
    }


def _columns(dataset: Dataset) -> list[dict[str, Any]]:
    """The range of every column that is learned from, under the name it has in the log."""
    named = dataset.opened.get("columns", {})
    told: list[dict[str, Any]] = []
    for role, array in (("observations", dataset.observations), ("actions", dataset.actions)):
        names = named.get(role) or [f"{role}_{i}" for i in range(array.shape[1])]
        told += [_range(name, role, column) for name, column in zip(names, array.T, strict=True)]
    told.append(_range(named.get("reward", "rewards"), "reward", dataset.rewards))
    told.append(_range(named.get("cost", "costs"), "cost", dataset.costs))
    return told


def _range(name: str, role: str, values: NDArray[Any]) -> dict[str, Any]:
    mean = float(values.mean(dtype=np.float64))
    return {"name": name, "role": role, "min": float(values.min()), "max": float(values.max()), "mean": mean}


def _rows_as_bytes(dataset: Dataset) -> NDArray[Any]:
    """Every transition as one value: equal transitions have equal ones."""
    columns = [getattr(dataset, name).reshape(dataset.transitions, -1).astype(np.float32) for name in FIELDS]
    rows = np.ascontiguousarray(np.concatenate(columns, axis=1) + np.float32(0))  # -0 and 0 are equal
    return rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()


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
