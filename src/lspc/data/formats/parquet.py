"""Parquet: a table of any columns; our own have a column for each number, and the metadata in the schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lspc.data import mapped
from lspc.data.dataset import Metadata
from lspc.data.formats.base import AGAIN, DAMAGE, METADATA_KEY, Format, metadata_or_warning, one_line, plain_values
from lspc.data.tables import Table, add_file_column, check_same_columns, import_arrow, read_arrow, read_in_parts
from lspc.data.tables.reading import check_names
from lspc.data.tables.writing import make_columns
from lspc.data.validate import Findings

BATCH_ROWS = 2**17
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


def exceed_memory(paths: Sequence[Path]) -> bool:
    """Whether what these files hold together should not be read at once."""
    import_arrow()
    import pyarrow.parquet

    about = [pyarrow.parquet.read_metadata(path) for path in paths]
    return mapped.exceeds_memory(sum(8 * max(file.num_rows, 0) * file.num_columns for file in about))


def read_large(source: str, parts: Sequence[tuple[str, Path]]) -> Table:
    """The rows of these files one after the other, column by column and a part at a time, into mapped arrays."""
    import_arrow()
    import pyarrow.parquet

    def column(name: str) -> Iterator[tuple[str, Any]]:
        for part, path in parts:
            with path.open("rb") as file:
                for batch in pyarrow.parquet.ParquetFile(file).iter_batches(BATCH_ROWS, columns=[name]):
                    yield part, batch.column(0)

    about = [(part, pyarrow.parquet.read_schema(path), pyarrow.parquet.read_metadata(path)) for part, path in parts]
    check_same_columns([(part, schema.names) for part, schema, _ in about])
    names, counts = about[0][1].names, tuple((part, facts.num_rows) for part, _, facts in about)
    check_names(names)
    table = read_in_parts(names, sum(rows for _, rows in counts), column, source, parts[0][1].parent)
    return table if len(parts) == 1 else add_file_column(replace(table, parts=counts))


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
