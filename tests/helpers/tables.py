"""A plant's log as a table: batches with two temperatures, a valve and a yield, under the plant's own names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCHES, STEPS = 4, 6
COLUMNS = {"observations": "temp_*", "actions": "valve", "reward": "yield", "episode": "batch", "step": "t"}
COST = "temp_a > 80"
Table = dict[str, NDArray[Any]]


def plant_log() -> Table:
    rng = np.random.default_rng(0)
    rows = BATCHES * STEPS
    return {
        "batch": np.repeat([f"B{i}" for i in range(BATCHES)], STEPS),
        "t": np.tile(np.arange(STEPS), BATCHES),
        "temp_a": rng.uniform(60, 100, rows),
        "temp_b": rng.uniform(60, 100, rows),
        "valve": rng.uniform(0, 100, rows),
        "yield": rng.normal(size=rows),
    }
