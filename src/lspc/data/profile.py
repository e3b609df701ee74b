"""A dataset in numbers, as `lspc inspect` prints it: sizes, spread of reward and cost, share in budget."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import Dataset
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
        "fingerprint": dataset.fingerprint,
        "problems": [*dataset.warnings, *([over_budget] if over_budget else [])],
    }


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
