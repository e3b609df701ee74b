"""Parquet: a table of any columns; our own have a column for each number, and the metadata in the schema."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lspc.data.dataset import Metadata
from lspc.data.formats.base import AGAIN, DAMAGE, METADATA_KEY, Format, metadata_or_warning, one_line, plain_values
from lspc.data.tables import Table, import_arrow, read_arrow
from lspc.data.tables.writing import make_columns
from lspc.data.validate import Findings

KEY = f"lspc.{METADATA_KEY}".encode()


def read(path: Path, found: Findings) -> tuple[Table, Metadata] | None:
    import_arrow()
    import pyarrow.parquet

    try:
        # Opened by us, so that a folder such as t=3 in the path adds no column.
        with path.open("rb") as file:
            table = pyarrow.parquet.read_table(file)
    except DAMAGE as error:
        found.fatal("file", f"not a Parquet file, or damaged or cut off ({one_line(error)}); {AGAIN}")
        return None
    return read_arrow(table, str(path)), metadata_or_warning(lambda: _metadata(table.schema), found)


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
