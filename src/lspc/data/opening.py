"""What a user says of a log beside its name: one type from the command line and `load` down to the checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lspc.data.bounds import Bounds, Given

Columns = str | Path | Mapping[str, Any] | Sequence[str] | None
"""The user's columns: ROLE=COLUMN texts, a dict of them, or the name of a TOML file of them."""


@dataclass(frozen=True)
class Opening:
    """How to open a log; every function that opens one takes these as keywords."""

    columns: Columns = None
    """Of a table: which column is what; without a word, what their names say."""
    cost: str | None = None
    """Of a table: a column, or an expression of columns such as "temp > 80"."""
    drop_missing: bool = False
    """Of a table: leave out rows with missing values, which are refused otherwise, and cut their episodes there."""
    continuous: bool = False
    """Treat actions that look discrete (a few whole numbers) as continuous."""
    action_bounds: Given | Bounds | None = None
    """(low, high) for every action alike or such a pair for each; unless given, the file's metadata name them, or
    they are [-1, 1] or, where the actions lie far outside that, the least and the most in the data."""

    filter: Sequence[str] = ()
    """What is done to the episodes then, one after the other: see `lspc.data.filters`."""
    filter_seed: int = 0
    offline: bool = False
    """Of a DSRL task: take its file from this machine or not at all."""

    def __post_init__(self) -> None:
        _ = self.bounds  # bad ones are refused before a file is read

    @cached_property
    def bounds(self) -> Bounds | None:
        return None if self.action_bounds is None else Bounds.of(self.action_bounds)

    def describe(self, columns: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The keywords that open the same data again, `columns` being those that were chosen."""
        flags = {name: True for name in ("drop_missing", "continuous") if getattr(self, name)}
        filters = {"filter": list(self.filter), "filter_seed": self.filter_seed} if self.filter else {}
        # A run holds the bounds that were found; those that were given are no cause for a warning later.
        given = self.bounds
        bounds = {"action_bounds": [list(pair) for pair in zip(given.low, given.high, strict=True)]} if given else {}
        return {**({"columns": dict(columns)} if columns else {}), **flags, **bounds, **filters}


AS_NAMED = Opening()
"""Nothing said: names and metadata tell it all."""
