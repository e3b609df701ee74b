"""A run has a type: the names of its files, its description, the episodes measured of it, and their statistics."""

from lspc.runs.record import Record
from lspc.runs.run import DatasetFacts, Run

__all__ = ["DatasetFacts", "Record", "Run"]
