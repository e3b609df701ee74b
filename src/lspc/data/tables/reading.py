"""Tables from what holds them: Arrow tables and all that pandas, polars and files become, plain arrays, episodes.

Arrow is the one table engine; plain arrays and episodes do without it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.mapped import blocks, empty, map_arrays, release
from lspc.data.tables.columns import CONVENTIONS
from lspc.data.tables.table import Column, Table, Unusable, text_column
from lspc.errors import UserError

PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name when it hands over a table."""
INSTALL = 'tables need pyarrow: pip install "lspc[data]"'


def import_arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise UserError(INSTALL) from error
    return pyarrow


def name_source(value: Any) -> str:
    """What messages call a table that has no file."""
    if isinstance(value, Mapping):
        return "dict of arrays"
    if isinstance(value, list | tuple):
        return "list of episodes"
    return f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"


def make_table(value: Any, source: str, observed: Sequence[str] = ()) -> Table:
    """The table that a pandas, polars or pyarrow table, a dict of arrays or a list of episodes holds.

    `observed` are the names that the user gave to observations.
    """
    if hasattr(value, "__arrow_c_stream__"):
        arrow = import_arrow()
        try:
            return read_arrow(arrow.table(value), source)
        except (arrow.ArrowException, TypeError, ValueError) as error:
            raise Unusable("table", f"Arrow cannot take it ({' '.join(str(error).split())})") from error
    if isinstance(value, Mapping):
        return read_columns(value, source)
    if isinstance(value, list | tuple):
        return read_episodes(value, source, observed)
    raise Unusable(
        "table",
        "it is not a table; give a file, a folder, a pandas, polars or pyarrow table, a dict of arrays or a list of "
        "episodes",
    )


def read_arrow(arrow_table: Any, source: str) -> Table:
    """The columns of an Arrow table; a column of lists of one length becomes that many columns."""
    names = [name for name in arrow_table.column_names if not PANDAS_INDEX.fullmatch(name)]
    check_names(names)
    columns: dict[str, Column] = {}
    groups: dict[str, list[str]] = {}
    for name in names:
        array = arrow_table[name].combine_chunks()
        _add(name, _spread_lists(name, array) or [_from_arrow(array)], columns, groups)
    return Table(source, columns, groups)


def check_names(names: Sequence[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise Unusable("table", f"two columns are called {twice[0]!r}; rename one")


def read_in_parts(
    names: Sequence[str], rows: int, parts: Callable[[str], Iterator[tuple[str, Any]]], source: str, folder: Path
) -> Table:
    """A table larger than memory: each column's Arrow arrays, with the place they are from, one after the other."""
    columns: dict[str, Column] = {}
    groups: dict[str, list[str]] = {}
    for name in names:
        if not PANDAS_INDEX.fullmatch(name):
            _add(name, _map_column(name, rows, parts(name), folder), columns, groups)
    return Table(source, columns, groups)


def _map_column(name: str, rows: int, parts: Iterator[tuple[str, Any]], folder: Path) -> list[Column]:
    """One column, or those in a column of lists, with mapped values."""
    joined: list[_Joined] = []
    start = 0
    for place, array in parts:
        pieces = _spread_lists(name, array) or [_from_arrow(array)]
        if not joined:
            types = [((rows,), piece.values.dtype) for piece in pieces]
            joined = [_Joined(piece, values) for piece, values in zip(pieces, map_arrays(types, folder), strict=True)]
        if len(pieces) != len(joined):
            raise Unusable(name, f"{name} holds lists of different lengths; store one column for each number")
        for whole, piece in zip(joined, pieces, strict=True):
            whole.add(piece, start, name, place)
        start += len(array)
    return [whole.finish() for whole in joined]


class _Joined:
    """A column that is put together from pieces."""

    def __init__(self, first: Column, values: NDArray[Any]) -> None:
        self.first, self.values = first, values
        self.missing: NDArray[np.bool_] = np.broadcast_to(np.False_, values.shape)
        self.labels: dict[str, int] = {}

    def add(self, piece: Column, start: int, name: str, place: str) -> None:
        rows = slice(start, start + len(piece.values))
        if piece.missing.any():
            if not self.missing.flags.writeable:
                self.missing = empty(self.values.shape, np.bool_, self.values)  # a new file is all zeros
            self.missing[rows] = piece.missing
            if piece.missing.all():
                return
        if piece.kind != self.first.kind or np.result_type(piece.values, self.values) != self.values.dtype:
            raise Unusable("file", f"{name} is of another type in {place} ({piece.type_name}); make them equal")
        numbers = piece.values
        if piece.kind == "text":
            known = np.array([self.labels.setdefault(label, len(self.labels)) for label in piece.labels or ("",)])
            numbers = known[np.where(piece.missing, 0, numbers)]
        self.values[rows] = numbers
        release(self.values, self.missing)

    def finish(self) -> Column:
        labels = tuple(sorted(self.labels))
        if self.first.kind == "text":
            order = np.argsort([self.labels[label] for label in labels])  # from the order of their first use
            for rows in blocks(self.values):
                self.values[rows] = order[self.values[rows]]
        return Column(self.first.kind, self.values, self.missing, self.first.type_name, labels)


def read_columns(arrays: Mapping[Any, Any], source: str) -> Table:
    """A dict of arrays: each is a column, or several where its rank is 2."""
    columns: dict[str, Column] = {}
    groups: dict[str, list[str]] = {}
    for name, value in arrays.items():
        array = _as_array(name, value)
        if array.ndim not in (1, 2):
            raise Unusable(str(name), f"{name} has shape {array.shape}; it must be (N,) or (N, columns)")
        parts = [array] if array.ndim == 1 else list(array.T)
        _add(str(name), [_from_numpy(part) for part in parts], columns, groups, spread=array.ndim == 2)
    lengths = {name: len(column.values) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        usual, _ = Counter(lengths.values()).most_common(1)[0]
        name = next(name for name, rows in lengths.items() if rows != usual)
        raise Unusable(name, f"{name} has {lengths[name]} rows where others have {usual}; make them equal")
    return Table(source, columns, groups)


def read_episodes(episodes: Sequence[Any], source: str, observed: Sequence[str] = ()) -> Table:
    """Episodes in order. Observations may have a row more than the rest: what was seen after the last action."""
    if not episodes:
        raise Unusable("episodes", "there is no episode in the list")
    aligned: list[dict[str, NDArray[Any]]] = []
    for number, episode in enumerate(episodes):
        if not isinstance(episode, Mapping):
            raise Unusable("episodes", f"episode {number} is a {type(episode).__name__}, not a dict of arrays")
        arrays = {str(name): _as_array(name, value) for name, value in episode.items()}
        aligned.append(_align_episode(number, arrays, {*CONVENTIONS["observations"], *observed}))
        if different := set(aligned[0]) ^ set(aligned[-1]):
            raise Unusable("episodes", f"episodes 0 and {number} do not both have {', '.join(sorted(different))}")
    try:
        joined = {name: np.concatenate([arrays[name] for arrays in aligned]) for name in aligned[0]}
    except (ValueError, TypeError) as error:
        raise Unusable("episodes", f"the episodes differ in shape or type ({error})") from error
    return read_columns(joined, source)


def _align_episode(number: int, arrays: dict[str, NDArray[Any]], observed: set[str]) -> dict[str, NDArray[Any]]:
    """An episode's arrays with a row for each step, and its number."""
    lengths = Counter(len(array) for array in arrays.values() if array.ndim)
    if not lengths:
        raise Unusable("episodes", f"episode {number} has no arrays")
    steps = min(lengths, key=lambda length: (-lengths[length], length))
    aligned: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        if array.ndim == 0 and array.dtype.kind == "b":  # such as terminated=True: it is said of the last step
            aligned[name] = (np.arange(steps) == steps - 1) & bool(array)
        elif array.ndim == 0:
            aligned[name] = np.full(steps, array[()])
        elif len(array) == steps + 1 and name in observed:
            aligned[name], aligned[f"next_{name}"] = array[:-1], array[1:]
        elif len(array) == steps:
            aligned[name] = array
        else:
            raise Unusable(
                "episodes",
                f"{name} of episode {number} has {len(array)} rows where others have {steps}; make them equal",
            )
    if not set(CONVENTIONS["episode"]) & set(aligned):
        aligned["episode"] = np.full(steps, number)
    return aligned


def _as_array(name: Any, value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise Unusable(str(name), f"{name} is not an array ({' '.join(str(error).split())})") from error


def _add(
    name: str, parts: Sequence[Column], columns: dict[str, Column], groups: dict[str, list[str]], spread: bool = False
) -> None:
    """Put the parts of a column under its name, or under NAME_0, NAME_1, ... where it was spread."""
    names = [f"{name}_{i}" for i in range(len(parts))] if spread or len(parts) > 1 else [name]
    if spread or len(parts) > 1:
        groups[name] = names
    for own, column in zip(names, parts, strict=True):
        if own in columns:
            raise Unusable(own, f"two columns are called {own!r}; rename one")
        columns[own] = column


def _spread_lists(name: str, array: Any) -> list[Column]:
    """The columns within a column of lists; none where it is no such column."""
    arrow = import_arrow()
    kinds = arrow.types
    if not (kinds.is_list(array.type) or kinds.is_large_list(array.type) or kinds.is_fixed_size_list(array.type)):
        return []
    import pyarrow.compute as compute

    lengths = compute.call_function("list_value_length", [array]).unique().to_pylist() if len(array) else []
    if len(lengths) != 1 or not lengths[0]:
        raise Unusable(name, f"{name} holds lists of different lengths or none; store one column for each number")
    flat = array.flatten()
    return [_from_arrow(flat.take(arrow.array(np.arange(i, len(flat), lengths[0])))) for i in range(lengths[0])]


def _from_arrow(array: Any) -> Column:
    arrow = import_arrow()
    kinds, kind = arrow.types, array.type
    missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if _is_text(kind.value_type if kinds.is_dictionary(kind) else kind):
        return text_column(np.array(array.to_pylist(), dtype=object), missing, str(kind))
    if kinds.is_null(kind):
        return Column("number", np.zeros(len(array)), missing, str(kind))
    if kinds.is_boolean(kind):
        return Column(
            "boolean", np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False)), missing, str(kind)
        )
    if kinds.is_decimal(kind):
        return _from_arrow(array.cast(arrow.float64()))
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        values = np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))
        lost = missing | np.isnan(values) if values.dtype.kind == "f" else missing
        return Column("number", np.where(lost, 0, values).astype(values.dtype), lost, str(kind))
    if kinds.is_timestamp(kind) or kinds.is_date(kind) or kinds.is_duration(kind) or kinds.is_time(kind):
        if kinds.is_time(kind):
            array = array.cast(arrow.int64() if kinds.is_time64(kind) else arrow.int32()).cast(arrow.int64())
            return Column("time", np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False)), missing, str(kind))
        return Column("time", np.asarray(array.to_numpy(zero_copy_only=False)), missing, str(kind))
    return Column("other", np.zeros(len(array)), missing, str(kind))


def _is_text(kind: Any) -> bool:
    kinds = import_arrow().types
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _from_numpy(array: NDArray[Any]) -> Column:
    """A column of a plain array; a list of Python objects is one only if they are texts."""
    missing = np.zeros(len(array), bool)
    type_name, code = str(array.dtype), array.dtype.kind
    if code == "f":
        missing = np.isnan(array)
        return Column("number", np.where(missing, 0, array).astype(array.dtype), missing, type_name)
    if code in "iu":
        return Column("number", array, missing, type_name)
    if code == "b":
        return Column("boolean", array, missing, type_name)
    if code in "mM":
        return Column("time", array, np.isnat(array), type_name)
    if code == "U":
        return text_column(array, missing, type_name)
    if code == "O" and all(value is None or isinstance(value, str) for value in array):
        return text_column(array, np.array([value is None for value in array], bool), "text")
    return Column("other", np.zeros(len(array)), missing, type_name)
