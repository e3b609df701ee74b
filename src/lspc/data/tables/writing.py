"""A dataset as the columns of a table, under the names that are understood without a mapping."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def make_columns(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """`episode`, `step`, then every array: NAME_0, NAME_1, ... where it has rank 2."""
    ends = arrays["terminals"] | arrays["timeouts"]
    episode = np.cumsum(ends) - ends
    starts = np.flatnonzero(np.append(True, ends[:-1]))
    columns: dict[str, NDArray[Any]] = {"episode": episode, "step": np.arange(len(ends)) - starts[episode]}
    for name, array in arrays.items():
        columns |= {name: array} if array.ndim == 1 else {f"{name}_{i}": part for i, part in enumerate(array.T)}
    return columns
