"""Dataset files in and out. Adding a format: write its file beside this one, then name it in `FORMATS`.

A bad file gives a list of problems and no dataset; a killed write leaves what was there.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from lspc.data.bounds import HIGH, LOW, write_bounds
from lspc.data.dataset import FIELDS, Dataset, Metadata
from lspc.data.formats import csv, hdf5, lerobot, minari, npz, parquet, rlds
from lspc.data.formats.base import AGAIN, DAMAGE, Arrays, Folder, Format, one_line, read_tables
from lspc.data.formats.bounds import check_memory
from lspc.data.formats.sources import locate, name_task, named_task
from lspc.data.opening import Opening
from lspc.data.tables import Table, Unusable, check_table, open_table, parse_columns
from lspc.data.tables.reading import read_columns
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

FOLDERS: tuple[Folder, ...] = (minari.FOLDER, lerobot.FOLDER, rlds.FOLDER)
"""The folders that are more than the tables in them."""

NO_FILE = "there is no such file, DSRL task or Minari dataset; check the name"


def load(source: Any, **opening: Any) -> Dataset:
    """Open a dataset; a UserError lists everything that makes it unusable, one problem per line.

    `source` is a file, a folder of Parquet or CSV files, of Minari or of LeRobot, a Minari id, a DSRL task, a pandas,
    polars or pyarrow table, a dict of arrays or a list of episodes. `opening` are the fields of `lspc.data.Opening`:
    `columns`, `cost` and `drop_missing` for tables, `continuous` and `action_bounds` for all.
    """
    how = Opening(**opening)
    if not isinstance(source, str | Path):
        return open_table(source, how)
    path = locate(source, offline=how.offline)
    found = Findings(str(path))
    return found.require(_open(path, found, how))


def examine(path: str | Path, **opening: Any) -> tuple[Dataset | None, list[Problem]]:
    """Open a dataset file as `load` does and report every problem; there is no dataset when one of them is fatal."""
    how = Opening(**opening)
    path = locate(path, offline=how.offline)
    found = Findings(str(path))
    return _open(path, found, how), found.problems


def _open(path: Path, found: Findings, opening: Opening) -> Dataset | None:
    patterns = parse_columns(opening.columns, opening.cost)
    content = _read(path, found)
    if content is None:
        return None
    data, metadata = content
    metadata = name_task(path, metadata, found)
    if isinstance(data, Table):
        return check_table(data, patterns, found, opening, metadata=metadata)
    if (patterns or opening.drop_missing or _lacks_next(data)) and not found.fatal_in():
        table = _as_table(data, found)
        return None if table is None else check_table(table, patterns, found, opening, metadata=metadata)
    return check_arrays(data, found, opening, metadata=metadata)


def _lacks_next(arrays: Arrays) -> bool:
    """Whether a file is whole but for its next observations, as many of D4RL's are: a table derives them."""
    return "next_observations" not in arrays and {"observations", "actions", "rewards"} <= set(arrays)


def _as_table(arrays: Arrays, found: Findings) -> Table | None:
    """The arrays as columns such as observations_0, of which a user can speak."""
    try:
        return read_columns(arrays, found.source)
    except Unusable as error:
        found.fatal(error.field, str(error))
        return None


def _read(path: Path, found: Findings) -> tuple[Arrays | Table, Metadata] | None:
    """What a file or a folder holds, unchecked."""
    kind = find_format(path)
    try:
        if path.is_dir():
            return _read_folder(path, found)
        if reason := _refuse_path(path):
            found.fatal("file", reason)
        elif kind is None:
            found.fatal("file", _unknown_type(path))
        elif path.stat().st_size == 0:
            found.fatal("file", f"the file is empty (0 bytes); {AGAIN}")
        else:
            return kind.read(path, found)
    except Unusable as error:
        found.fatal(error.field, str(error))
    return None


def _read_folder(folder: Path, found: Findings) -> tuple[Table, Metadata] | None:
    """A folder of a known kind, or the tables in it and in the folders below it, one after the other by name."""
    if kind := find_folder(folder):
        return kind.read(folder, found)
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("[!.]*") if path.suffix.lower() in TABLES)
    if not names:
        found.fatal("file", f"the folder has no table in it ({', '.join(TABLES)}); name a file")
        return None
    if all(find_format(name) is parquet.FORMAT for name in names):
        table = parquet.read_files(folder, names, found)
    else:
        with suppress(*DAMAGE):  # the file is named below
            check_memory(sum(_measure_table(folder / name) for name in names))
        table = read_tables(folder, names, _read, found)
    return None if table is None else (table, {})


def _measure_table(path: Path) -> int:
    return parquet.measure(path) if find_format(path) is parquet.FORMAT else csv.measure(path)


def read_table(path: str | Path) -> Table:
    """The columns of a table file or folder, before they mean anything."""
    path = locate(path)
    found = Findings(str(path))
    content = _read(path, found)
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
    if task := named_task(path):  # its file need not be here yet
        return {"task": task.name}
    path = locate(path)
    kind = find_folder(path) or find_format(path)
    if kind is None:
        raise UserError(f"{path}: {_unknown_type(path)}")
    if not path.is_dir() and (reason := _refuse_path(path)):
        raise UserError(f"{path}: {reason}")
    try:
        return dict(name_task(path, kind.read_metadata(path)))
    except DAMAGE as error:
        raise UserError(f"{path}: its metadata cannot be read ({one_line(error)}); {AGAIN}") from error


def find_format(path: str | Path) -> Format | None:
    """The format of files with this suffix; None when there is none."""
    suffix = Path(path).suffix.lower()
    return next((kind for kind in FORMATS if suffix in kind.suffixes), None)


def find_folder(path: Path) -> Folder | None:
    """What kind of folder this is; None where it is a file or any folder."""
    return next((kind for kind in FOLDERS if path.is_dir() and kind.recognise(path)), None)


def _refuse_path(path: Path) -> str | None:
    """Why there is nothing to open at `path`, if so: opening a pipe or a device might wait for ever."""
    if path.is_file():
        return None
    return "is not a regular file; check the path" if path.exists() and not path.is_dir() else NO_FILE


def _unknown_type(path: Path) -> str:
    known = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes)
    return f"unknown file type {path.suffix or '(no suffix)'!r}; use {known}"
