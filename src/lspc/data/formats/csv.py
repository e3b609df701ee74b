"""CSV with a header: a table of any columns; our own have a column for each number. It has no place for metadata."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import Metadata
from lspc.data.formats.base import AGAIN, DAMAGE, Format, one_line
from lspc.data.tables import Table, import_arrow, read_arrow
from lspc.data.tables.writing import make_columns
from lspc.data.validate import Findings

DELIMITERS = ",;\t"


def read(path: Path, found: Findings) -> tuple[Table, Metadata] | None:
    import_arrow()
    from pyarrow import csv

    try:
        with path.open("rb") as file:
            header = file.readline().decode("utf-8-sig")
        # Commas may be decimal points elsewhere, so what the header is cut by counts.
        delimiter = max(DELIMITERS, key=header.count)
        table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True))
    except DAMAGE as error:
        found.fatal("file", f"not a CSV file, or damaged ({one_line(error)}); {AGAIN}")
        return None
    return read_arrow(table, str(path)), {}


def read_metadata(path: Path) -> Metadata:
    return {}


def write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    arrow = import_arrow()
    from pyarrow import csv

    columns = {name: _exact(array) for name, array in make_columns(arrays).items()}
    csv.write_csv(arrow.table(columns), path, csv.WriteOptions(quoting_style="none", quoting_header="none"))


def _exact(array: NDArray[Any]) -> Any:
    """Numbers so that they are read as they were: with all digits of a double, and -0 not as a whole number."""
    if array.dtype.kind != "f":
        return array
    wide = array.astype(np.float64)
    negative_zero = (wide == 0) & np.signbit(wide)
    return [repr(value) for value in wide.tolist()] if negative_zero.any() else wide


FORMAT = Format("CSV", (".csv",), read, read_metadata, write)
