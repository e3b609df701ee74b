"""What a table is: named columns of equal length, each of one kind, with what is missing marked."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["number", "boolean", "text", "time", "other"]
MANY_SHOWN = 3
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")


class Unusable(Exception):
    """A table that cannot become a dataset: the field at fault and one line on it, without the source."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, eq=False)
class Column:
    """One column. A missing value (null or NaN) is marked in `missing`; its place in `values` means nothing."""

    kind: Kind
    values: NDArray[Any]
    """Numbers and booleans as they are, times as numpy's, texts as numbers of `labels`."""
    missing: NDArray[np.bool_]
    type_name: str
    """What its library calls the type."""
    labels: tuple[str, ...] = ()
    """The different texts, in order."""

    def describe(self) -> str:
        """What it looks like, in a few words."""
        present = self.values[~self.missing]
        if len(present) == 0:
            return "empty: every value is missing"
        lost = f", {int(self.missing.sum())} missing" if self.missing.any() else ""
        return self._describe_values(present) + lost

    def _describe_values(self, present: NDArray[Any]) -> str:
        if self.kind == "other":
            return f"{self.type_name}: cannot be used"
        if self.kind == "text":
            shown = ", ".join(repr(label) for label in self.labels[:MANY_SHOWN])
            more = ", ..." if len(self.labels) > MANY_SHOWN else ""
            return f"text, {len(self.labels)} different: {shown}{more}"
        low, high = present.min(), present.max()
        if self.kind == "boolean":
            return f"true or false, {100 * present.mean():.3g} % true"
        if low == high:
            return f"{self.kind}, constant {self.show(low)}"
        whole = self.kind == "number" and bool(np.all(present == np.round(present)))
        different = len(np.unique(present)) if whole else 0
        kind = "whole number" if whole else self.kind
        return f"{kind}, {self.show(low)} to {self.show(high)}" + (f", {different} different" if whole else "")

    def find_odd_texts(self) -> list[int]:
        """The few texts that are no numbers, where all others are; none where the column is of texts."""
        odd = [number for number, label in enumerate(self.labels) if not NUMBER.fullmatch(label.strip())]
        return odd if len(odd) < len(self.labels) / 2 else []

    def is_constant(self) -> bool:
        present = self.values[~self.missing]
        return len(present) > 0 and bool((present == present[0]).all())

    def show(self, value: Any) -> str:
        """One of its values as a reader would write it."""
        if self.kind == "text":
            return self.labels[int(value)]
        return str(value) if self.kind == "time" else f"{value:g}"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length. `groups` names the columns that were one column of lists, or an array of rank 2."""

    source: str
    columns: dict[str, Column]
    groups: dict[str, list[str]] = field(default_factory=dict)
    parts: tuple[tuple[str, int], ...] = ()
    """The files of a folder and their rows, in order."""
    roles: Mapping[str, list[str]] = field(default_factory=dict)
    """What its format says of its columns; what the user says goes before."""

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())).values) if self.columns else 0

    def place(self, row: int) -> str:
        """Where a row stands, for messages; rows are counted from 0, the header of a CSV file not among them."""
        for name, rows in self.parts:
            if row < rows:
                return f"row {row} of {name}"
            row -= rows
        return f"row {row}"


def join_tables(source: str, parts: Sequence[tuple[str, Table]]) -> Table:
    """One table of the rows of several; a column `file` says where each came from, unless there is one."""
    check_same_columns([(name, table.columns) for name, table in parts])
    first = parts[0][1]
    columns = {
        name: _join_column(name, [(part, table.columns[name]) for part, table in parts]) for name in first.columns
    }
    return add_file_column(Table(source, columns, first.groups, tuple((name, table.rows) for name, table in parts)))


def check_same_columns(parts: Sequence[tuple[str, Iterable[str]]]) -> None:
    """Refuse files that have not the same columns."""
    (first_name, first), *rest = parts
    for name, columns in rest:
        if different := set(first) ^ set(columns):
            raise Unusable(
                "file",
                f"{name} and {first_name} have different columns ({', '.join(sorted(different))} in one of them)",
            )


def add_file_column(table: Table) -> Table:
    """The table with a column `file` that says where each row came from, unless there is one."""
    if "file" in table.columns:
        return table
    labels = sorted({name for name, _ in table.parts})
    numbers = [labels.index(name) for name, rows in table.parts if rows]
    values = np.repeat(numbers, [rows for _, rows in table.parts if rows])
    file = Column("text", values, np.zeros(len(values), bool), "name of the file", tuple(labels))
    return replace(table, columns={**table.columns, "file": file})


def _join_column(name: str, parts: Sequence[tuple[str, Column]]) -> Column:
    missing = np.concatenate([column.missing for _, column in parts])
    # A file in which every value is missing says nothing of the type.
    telling = [(part, column) for part, column in parts if not column.missing.all()] or list(parts[:1])
    kinds = {column.kind: part for part, column in telling}
    if len(kinds) > 1:
        told = ", ".join(f"{kind} in {part}" for kind, part in kinds.items())
        raise Unusable("file", f"{name} is of different kinds: {told}; make them equal")
    first = telling[0][1]
    if first.kind == "text":
        texts = [np.array(column.labels or ("",), dtype=object)[column.values.astype(int)] for _, column in parts]
        return text_column(np.concatenate(texts), missing, first.type_name)
    empty = first.values.dtype
    values = [
        column.values if column.kind == first.kind else np.zeros(len(column.values), empty) for _, column in parts
    ]
    return Column(first.kind, np.concatenate(values), missing, first.type_name)


def text_column(texts: NDArray[Any], missing: NDArray[np.bool_], type_name: str) -> Column:
    labels, numbers = np.unique(np.where(missing, "", texts).astype(str), return_inverse=True)
    present = np.unique(numbers[~missing])  # what stands for a missing text is no text of the column
    values = np.searchsorted(present, numbers)
    return Column("text", values, missing, type_name, tuple(labels[present].tolist()))
