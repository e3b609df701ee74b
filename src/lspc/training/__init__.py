"""Training: the loop, sweeps that share what they can, health checks, trackers."""

from lspc.training.loop import (
    CHUNK,
    CURVE,
    Interim,
    Interrupted,
    Progress,
    Together,
    apart,
    checkpoint_paths,
    init_states,
    make_chunk,
    train,
    train_together,
)

__all__ = [
    "CHUNK",
    "CURVE",
    "Interim",
    "Interrupted",
    "Progress",
    "Together",
    "apart",
    "checkpoint_paths",
    "init_states",
    "make_chunk",
    "train",
    "train_together",
]
