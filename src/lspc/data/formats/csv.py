"""CSV with a header: a table of any columns; our own have a column for each number. It has no place for metadata."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import Metadata
from lspc.data.formats.base import AGAIN, DAMAGE, Format, one_line
from lspc.data.formats.bounds import check_memory
from lspc.data.tables import Table, import_arrow, read_arrow
from lspc.data.tables.writing import make_columns
from lspc.data.validate import Findings

DELIMITERS = ",;\t"
LINES_LOOKED_AT = 20
BLOCK = 2**24
"""Bytes looked at together while lines are counted."""


def read(path: Path, found: Findings) -> tuple[Table, Metadata] | None:
    import_arrow()
    from pyarrow import csv

    try:
        check_memory(measure(path))
        with path.open("rb") as file:
            header = file.readline().decode("utf-8-sig")
            lines = [file.readline().decode(errors="replace") for _ in range(LINES_LOOKED_AT)]
        # Commas may be decimal points elsewhere, so what the header is cut by counts.
        delimiter = max(DELIMITERS, key=header.count)
        point = _find_decimal_point(lines, delimiter)
        table = csv.read_csv(
            path,
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(decimal_point=point),
        )
        if point == ",":
            found.warn("file", "its numbers were read with a decimal comma")
    except DAMAGE as error:
        found.fatal("file", f"not a CSV file, or damaged ({one_line(error)}); {AGAIN}")
        return None
    return read_arrow(table, str(path)), {}


def measure(path: Path) -> int:
    """Bytes with eight for each field, by its lines and the columns of the first; of long texts half of its size."""
    header, ends = b"", {b"\n": 0, b"\r": 0}
    with path.open("rb") as file:
        for block in iter(partial(file.read, BLOCK), b""):
            header = header or re.split(rb"[\r\n]", block, maxsplit=1)[0]
            ends = {end: count + block.count(end) for end, count in ends.items()}
    columns = 1 + max(header.count(delimiter.encode()) for delimiter in DELIMITERS)
    return max(8 * columns * (1 + max(ends.values())), path.stat().st_size // 2)


def _find_decimal_point(lines: Sequence[str], delimiter: str) -> str:
    """A comma, where fields such as 12,5 stand among the first lines and none such as 12.5 does."""
    fields = [field.strip().strip('"') for line in lines for field in line.split(delimiter)]
    found = {point for point in ",." if any(re.fullmatch(rf"[+-]?\d+[{point}]\d+", field) for field in fields)}
    return "," if delimiter != "," and found == {","} else "."


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
