"""Dataset files in and out. Adding a format: write its file beside this one, then name it in `FORMATS`.

A bad file gives a list of problems and no dataset; a killed write leaves what was there.
"""

from pathlib import Path
from typing import Any

from lspc.data.bounds import HIGH, LOW, Bounds, Given, write_bounds
from lspc.data.dataset import FIELDS, Dataset, Metadata
from lspc.data.formats import csv, hdf5, npz, parquet
from lspc.data.formats.base import AGAIN, DAMAGE, Arrays, Format, one_line
from lspc.data.tables import Columns, Table, Unusable, check_table, join_tables, open_table, parse_columns
from lspc.data.validate import FILE_NAMES, Findings, Problem, check_arrays
from lspc.errors import UserError
from lspc.files import atomic_path

FORMATS: tuple[Format, ...] = (
    hdf5.FORMAT,
    npz.FORMAT,
    parquet.FORMAT,
    csv.FORMAT,
)
TABLES = (*parquet.FORMAT.suffixes, *csv.FORMAT.suffixes)
"""The suffixes of files that a folder may hold."""

NO_FILE = "there is no such file; check the path"


def load(
    source: Any,
    *,
    columns: Columns = None,
    cost: str | None = None,
    drop_missing: bool = False,
    continuous: bool = False,
    action_bounds: Given | Bounds | None = None,
) -> Dataset:
    """Open a dataset; a UserError lists everything that makes it unusable, one problem per line.

    `source` is a file, a folder of Parquet or CSV files, a pandas, polars or pyarrow table, a dict of arrays or a
    list of episodes. Of tables, `columns` says which column is what, `cost` is a column or an expression such as
    "temp > 80", and `drop_missing` leaves out rows with missing values, which are refused otherwise. Actions that
    look discrete are taken for numbers if they are said to be `continuous`.

    `action_bounds` is (low, high) for every action alike or such a pair for each; unless given, the file's metadata
    name them, or they are [-1, 1] or, where the actions lie far outside that, the least and the most in the data.
    """
    bounds = None if action_bounds is None else Bounds.of(action_bounds)
    opening: dict[str, Any] = {"columns": columns, "cost": cost, "drop_missing": drop_missing,
                               "continuous": continuous, "action_bounds": bounds}  # fmt: skip
    if not isinstance(source, str | Path):
        return open_table(source, **opening)
    found = Findings(str(source))
    return found.require(_open(Path(source), found, **opening))


def examine(
    path: str | Path, *, action_bounds: Given | Bounds | None = None, **opening: Any
) -> tuple[Dataset | None, list[Problem]]:
    """Open a dataset file as `load` does and report every problem; there is no dataset when one of them is fatal."""
    bounds = None if action_bounds is None else Bounds.of(action_bounds)
    found = Findings(str(path))
    return _open(Path(path), found, action_bounds=bounds, **opening), found.problems


def _open(
    path: Path,
    found: Findings,
    *,
    columns: Columns = None,
    cost: str | None = None,
    drop_missing: bool = False,
    continuous: bool = False,
    action_bounds: Bounds | None = None,
) -> Dataset | None:
    patterns = parse_columns(columns, cost)
    content = _read(path, found)
    if content is None:
        return None
    data, metadata = content
    if isinstance(data, Table):
        return check_table(
            data, patterns, found, metadata=metadata, drop_missing=drop_missing, continuous=continuous,
            action_bounds=action_bounds,
        )  # fmt: skip
    if patterns or drop_missing:
        found.fatal("file", f"columns, cost and missing values are said of tables ({', '.join(TABLES)}), not of this")
        return None
    opened = {"continuous": True} if continuous else {}
    return check_arrays(
        data, found, metadata=metadata, action_bounds=action_bounds, continuous=continuous, opened=opened
    )


def _read(path: Path, found: Findings) -> tuple[Arrays | Table, Metadata] | None:
    """What a file or a folder holds, unchecked."""
    kind = find_format(path)
    if path.is_dir():
        return _read_folder(path, found)
    if reason := _refuse_path(path):
        found.fatal("file", reason)
    elif kind is None:
        found.fatal("file", _unknown_type(path))
    elif path.stat().st_size == 0:
        found.fatal("file", f"the file is empty (0 bytes); {AGAIN}")
    else:
        try:
            return kind.read(path, found)
        except Unusable as error:
            found.fatal(error.field, str(error))
    return None


def _read_folder(folder: Path, found: Findings) -> tuple[Table, Metadata] | None:
    """The tables in a folder and the folders below it, one after the other by name."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("[!.]*") if path.suffix.lower() in TABLES)
    if not names:
        found.fatal("file", f"the folder has no table in it ({', '.join(TABLES)}); name a file")
        return None
    try:
        paths = [folder / name for name in names]
        if all(find_format(path) is parquet.FORMAT for path in paths) and parquet.exceed_memory(paths):
            return parquet.read_large(str(folder), list(zip(names, paths, strict=True))), {}
    except Unusable as error:
        found.fatal(error.field, str(error))
        return None
    except DAMAGE:
        pass  # the file is named below
    parts: list[tuple[str, Table]] = []
    for name in names:
        inner = Findings(str(folder / name))
        content = _read(folder / name, inner)
        found.problems += inner.problems
        if content is not None and isinstance(content[0], Table):
            parts.append((name, content[0]))
    if found.fatal_in():
        return None
    try:
        return join_tables(str(folder), parts), {}
    except Unusable as error:
        found.fatal(error.field, str(error))
        return None


def read_table(path: str | Path) -> Table:
    """The columns of a table file or folder, before they mean anything."""
    found = Findings(str(path))
    content = _read(Path(path), found)
    if content is None:
        raise UserError("\n".join(problem.message for problem in found.problems))
    if not isinstance(content[0], Table):
        raise UserError(f"{path}: its arrays have names already; only tables ({', '.join(TABLES)}) need columns")
    return content[0]


def save(dataset: Dataset, path: str | Path, metadata: Metadata | None = None) -> None:
    """Write a dataset in the format of the suffix of `path`, with its own metadata unless others are given."""
    path = Path(path)
    kind = find_format(path)
    if kind is None:
        raise UserError(f"{path}: {_unknown_type(path)}")
    arrays = {FILE_NAMES[field]: getattr(dataset, field) for field in FIELDS}
    told = {k: v for k, v in (dataset.metadata if metadata is None else metadata).items() if k not in (LOW, HIGH)}
    with atomic_path(path) as temporary:
        kind.write(temporary, arrays, {**told, **write_bounds(dataset.action_bounds)})


def read_metadata(path: str | Path) -> dict[str, str | int | float]:
    """What `save` wrote beside the arrays, without reading those; a dataset that is open has it as `.metadata`."""
    path = Path(path)
    kind = find_format(path)
    if kind is None:
        raise UserError(f"{path}: {_unknown_type(path)}")
    if reason := _refuse_path(path):
        raise UserError(f"{path}: {reason}")
    try:
        return dict(kind.read_metadata(path))
    except DAMAGE as error:
        raise UserError(f"{path}: its metadata cannot be read ({one_line(error)}); {AGAIN}") from error


def find_format(path: str | Path) -> Format | None:
    """The format of files with this suffix; None when there is none."""
    suffix = Path(path).suffix.lower()
    return next((kind for kind in FORMATS if suffix in kind.suffixes), None)


def _refuse_path(path: Path) -> str | None:
    """Why there is nothing to open at `path`, if so: opening a pipe or a device might wait for ever."""
    if path.is_file():
        return None
    return "is no regular file; check the path" if path.exists() and not path.is_dir() else NO_FILE


def _unknown_type(path: Path) -> str:
    known = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes)
    return f"unknown file type {path.suffix or '(no suffix)'!r}; use {known}"
