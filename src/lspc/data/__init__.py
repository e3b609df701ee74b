"""Logged experience: what a dataset is, the files it comes from, and what it holds."""

from lspc.data.dataset import Dataset, Statistics
from lspc.data.formats import examine, load, read_metadata, save
from lspc.data.grid import grid_filter
from lspc.data.profile import profile
from lspc.data.validate import Problem, budget_warning

__all__ = [
    "Dataset",
    "Problem",
    "Statistics",
    "budget_warning",
    "examine",
    "grid_filter",
    "load",
    "profile",
    "read_metadata",
    "save",
]
