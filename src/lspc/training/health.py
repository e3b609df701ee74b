"""Has training diverged? Metrics that are not finite or beyond what the data allow, and weights that broke unseen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lspc import checkpoints


def find_divergence(
    metrics: Mapping[str, Sequence[float]], bounds: Mapping[str, float], seeds: Sequence[int]
) -> str | None:
    """The first metric, one value per seed, that shows that training has diverged."""
    for name, values in metrics.items():
        for seed, value in zip(seeds, values, strict=True):
            if not np.isfinite(value):
                return f"{name} of seed {seed} is {value}"
            if abs(value) > bounds.get(name, np.inf):
                return f"{name} of seed {seed} is {value:.3g}, beyond what the data allow ({bounds[name]:.3g})"
    return None


def find_broken_weights(states: Any) -> str | None:
    """What the chunk's last update broke, which no metric has seen yet."""
    for name, leaf in checkpoints.arrays_by_path(states).items():
        if not np.isfinite(np.asarray(leaf)).all():
            return f"{name} holds NaN or infinity"
    return None


def explain_divergence(reason: str, step: int, kept: Sequence[Path]) -> str:
    """What happened, which of the checkpoints `kept` to go back to, and what to try."""
    where = f"the last good checkpoint is {kept[-1]}" if kept else "no checkpoint was written yet"
    return (
        f"training diverged before update {step}: {reason}; {where}. "
        "Try a smaller --learning-rate, or --scale-rewards / --normalise-observations if they are off"
    )
