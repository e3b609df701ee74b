"""Training: the loop, sweeps that share what they can, health checks, trackers."""

from lspc.training.chunk import init_states, make_chunk, make_source
from lspc.training.loop import Interim, Interrupted, Progress, fit_to_task, plan_runs, train
from lspc.training.sweep import first_unshared_setting, train_each, train_sweep

__all__ = [
    "Interim",
    "Interrupted",
    "Progress",
    "first_unshared_setting",
    "fit_to_task",
    "init_states",
    "make_chunk",
    "make_source",
    "plan_runs",
    "train",
    "train_each",
    "train_sweep",
]
