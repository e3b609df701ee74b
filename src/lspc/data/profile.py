"""A dataset in numbers, as `lspc inspect` prints it: sizes, spread of reward and cost, share in budget."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import FIELDS, Dataset
from lspc.data.validate import budget_warning

BINS = 12
LEAK = 0.999
"""Correlation from which an observation is suspected to be the cost."""


def profile(dataset: Dataset, thresholds: Sequence[float]) -> dict[str, Any]:
    """What a dataset holds, ready for JSON; `problems` are the warnings of its opening and of its budgets."""
    inside = {f"{threshold:g}": dataset.cost_returns <= threshold for threshold in thresholds}
    over_budget, rows = budget_warning(dataset, thresholds), _rows_as_bytes(dataset)
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
        told += [_range(name, role, column) for name, column in zip(_names(dataset, role), array.T, strict=True)]
    told.append(_range(named.get("reward", "rewards"), "reward", dataset.rewards))
    told.append(_range(named.get("cost", "costs"), "cost", dataset.costs))
    return told


def _range(name: str, role: str, values: NDArray[Any]) -> dict[str, Any]:
    wide = values.astype(np.float64)
    low, high = wide.min(), wide.max()
    counts = np.histogram(wide, BINS)[0] if low < high else np.array([len(wide)])
    return {
        "name": name, "role": role, "min": float(low), "max": float(high), "mean": float(wide.mean()),
        "histogram": counts.tolist(),
    }  # fmt: skip


def _names(dataset: Dataset, role: str) -> list[str]:
    columns: int = getattr(dataset, role).shape[1]
    return dataset.opened.get("columns", {}).get(role) or [f"{role}_{i}" for i in range(columns)]


def _find_leaks(dataset: Dataset) -> list[str]:
    """Observations that are the cost of their own row: what a step costs is not known before it is taken."""
    costs = dataset.costs.astype(np.float64)
    said = str(dataset.opened.get("columns", {}).get("cost", ""))
    told: list[str] = []
    if costs.std() == 0:
        return told
    for name, column in zip(_names(dataset, "observations"), dataset.observations.T, strict=True):
        values = column.astype(np.float64)
        if values.std() == 0 or name in said:  # a cost that was said to be made of the column follows it
            continue
        if abs(np.corrcoef(values, costs)[0, 1]) > LEAK:
            told.append(
                f"{dataset.source}: {name}, an observation, goes with the cost of its own row throughout: if it was "
                "recorded after the step, no policy will have it; leave it out"
            )
    return told


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
