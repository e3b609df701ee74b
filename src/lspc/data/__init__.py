"""Logged experience: what a dataset is, the files it comes from, and what it holds."""

from pathlib import Path

from lspc.data.dataset import FIELDS, Dataset, Statistics
from lspc.data.formats import examine, load, read_metadata, save
from lspc.data.grid import grid_filter
from lspc.data.profile import profile
from lspc.data.validate import Problem, budget_warning

__all__ = [
    "FIELDS",
    "Dataset",
    "Problem",
    "Statistics",
    "budget_warning",
    "bundled",
    "examine",
    "grid_filter",
    "load",
    "profile",
    "read_metadata",
    "save",
]


def bundled() -> Path:
    """The dataset that comes with lspc: BallCircle, made by `lspc collect` (its call stands beside the file)."""
    return Path(__file__).parent / "bundled" / "BallCircle.hdf5"
