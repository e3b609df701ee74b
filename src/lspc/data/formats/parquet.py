"""Parquet: a table of any columns; our own have a column for each number, and the metadata in the schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from lspc.data import mapped
from lspc.data.dataset import Metadata
from lspc.data.formats.base import (
    AGAIN,
    DAMAGE,
    METADATA_KEY,
    Format,
    metadata_or_warning,
    one_line,
    plain_values,
    read_tables,
)
from lspc.data.tables import Table, add_file_column, check_same_columns, import_arrow, read_arrow, read_in_parts
from lspc.data.tables.reading import check_names
from lspc.data.tables.writing import make_columns
from lspc.data.validate import Findings

BATCH_ROWS = 2**17
BATCH_BYTES = 2**26
"""Of one column that are read together: a row may hold a long list or a picture."""
KEY = f"lspc.{METADATA_KEY}".encode()


def read(path: Path, found: Findings) -> tuple[Table, Metadata] | None:
    import_arrow()
    import pyarrow.parquet

    try:
        if exceed_memory([path]):
            return read_large(str(path), [("", path)]), metadata_or_warning(lambda: read_metadata(path), found)
        # Opened by us, so that a folder such as t=3 in the path adds no column.
        with path.open("rb") as file:
            table = pyarrow.parquet.read_table(file)
    except DAMAGE as error:
        found.fatal("file", f"not a Parquet file, or damaged or cut off ({one_line(error)}); {AGAIN}")
        return None
    return read_arrow(table, str(path)), metadata_or_warning(lambda: _metadata(table.schema), found)


def read_files(folder: Path, names: Sequence[str], found: Findings) -> Table | None:
    """The tables in these files of a folder, one after the other; streamed where they do not fit together."""
    parts = [(name, folder / name) for name in names]
    try:
        if exceed_memory([path for _, path in parts]):
            return read_large(str(folder), parts)
    except DAMAGE:
        pass  # the file is named below
    return read_tables(folder, names, read, found)


def exceed_memory(paths: Sequence[Path]) -> bool:
    """Whether what these files hold together should not be read at once."""
    return mapped.exceeds_memory(sum(map(measure, paths)))


def measure(path: Path) -> int:
    """Bytes of all columns with eight for each value, those within lists too."""
    widths = _measure_widths(path)
    return 8 * widths.rows * (widths.single + sum(widths.nested))


class _Widths(NamedTuple):
    rows: int
    single: int
    """Columns of one value in a row."""
    nested: list[int]
    """How many values the first row has in each of the others; lists must be of one length."""


def _measure_widths(path: Path) -> _Widths:
    """By the first row: asked what a damaged footer says of each column's chunks, pyarrow would end the program."""
    import_arrow()
    import pyarrow.parquet

    with path.open("rb") as file:
        opened = pyarrow.parquet.ParquetFile(file)
        nested = [field.name for field in opened.schema_arrow if field.type.num_fields]
        first = next(opened.iter_batches(1, columns=nested), None) if nested else None
        widths = [] if first is None else [_count_values(column) for column in first.columns]
        return _Widths(max(opened.metadata.num_rows, 0), len(opened.schema_arrow) - len(nested), widths)


def _count_values(array: Any) -> int:
    kinds, kind = import_arrow().types, array.type
    if kinds.is_struct(kind):
        return sum(map(_count_values, array.flatten()))
    if any(test(kind) for test in (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)):
        return _count_values(array.flatten())
    return len(array)


def read_large(source: str, parts: Sequence[tuple[str, Path]]) -> Table:
    """The rows of these files one after the other, column by column and a part at a time, into mapped arrays."""
    import_arrow()
    import pyarrow.parquet

    about = [(part, pyarrow.parquet.read_schema(path), pyarrow.parquet.read_metadata(path)) for part, path in parts]
    rows_at_once = [_rows_at_once(path) for _, path in parts]

    def column(name: str) -> Iterator[tuple[str, Any]]:
        for (part, path), rows in zip(parts, rows_at_once, strict=True):
            with path.open("rb") as file:
                for batch in pyarrow.parquet.ParquetFile(file).iter_batches(rows, columns=[name]):
                    yield part, batch.column(0)

    check_same_columns([(part, schema.names) for part, schema, _ in about])
    names, counts = about[0][1].names, tuple((part, facts.num_rows) for part, _, facts in about)
    check_names(names)
    table = read_in_parts(names, sum(rows for _, rows in counts), column, source, parts[0][1].parent)
    return table if len(parts) == 1 else add_file_column(replace(table, parts=counts))


def _rows_at_once(path: Path) -> int:
    widths = _measure_widths(path)
    stored = path.stat().st_size // max(widths.rows, 1)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(8, stored, *(8 * length for length in widths.nested))))


def read_metadata(path: Path) -> Metadata:
    import_arrow()
    import pyarrow.parquet

    return _metadata(pyarrow.parquet.read_schema(path))


def _metadata(schema: Any) -> Metadata:
    values = json.loads((schema.metadata or {}).get(KEY, b"{}"))
    if not isinstance(values, dict):
        raise ValueError(f"{KEY.decode()} must be a JSON object")
    return plain_values(values)


def write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    arrow = import_arrow()
    import pyarrow.parquet

    notes = {KEY: json.dumps(dict(metadata), sort_keys=True).encode()} if metadata else None
    pyarrow.parquet.write_table(arrow.table(make_columns(arrays)).replace_schema_metadata(notes), path)


FORMAT = Format("Parquet", (".parquet", ".pq"), read, read_metadata, write)
