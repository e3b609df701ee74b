"""Logged experience: what a dataset is, the files it comes from, and what it holds."""

from pathlib import Path

from lspc.data.bounds import Bounds
from lspc.data.dataset import FIELDS, Dataset, Metadata, Statistics
from lspc.data.formats import FORMATS, examine, find_format, load, locate, read_metadata, read_table, save
from lspc.data.grid import grid_filter
from lspc.data.opening import Opening
from lspc.data.profile import profile
from lspc.data.tables import propose_columns
from lspc.data.validate import Problem, budget_warning, cost_warning

__all__ = [
    "FIELDS",
    "FORMATS",
    "Bounds",
    "Dataset",
    "Metadata",
    "Opening",
    "Problem",
    "Statistics",
    "budget_warning",
    "bundled_file",
    "cost_warning",
    "examine",
    "find_format",
    "grid_filter",
    "load",
    "locate",
    "profile",
    "propose_columns",
    "read_metadata",
    "read_table",
    "save",
]


def bundled_file() -> Path:
    """The dataset that comes with lspc: BallCircle, made by `lspc collect` (its call stands beside the file)."""
    return Path(__file__).parent / "bundled" / "BallCircle.hdf5"
