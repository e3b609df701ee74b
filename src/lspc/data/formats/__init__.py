"""Dataset files in and out. Adding a format: write its file beside this one, then name it in `FORMATS`.

A bad file gives a list of problems and no dataset; a killed write leaves what was there.
"""

from pathlib import Path

from lspc.data.bounds import HIGH, LOW, Bounds, Given, write_bounds
from lspc.data.dataset import FIELDS, Dataset, Metadata
from lspc.data.formats import hdf5, npz
from lspc.data.formats.base import AGAIN, DAMAGE, Format, one_line
from lspc.data.validate import FILE_NAMES, Findings, Problem, check_arrays
from lspc.errors import UserError
from lspc.files import atomic_path

FORMATS: tuple[Format, ...] = (
    hdf5.FORMAT,
    npz.FORMAT,
)

NO_FILE = "there is no such file; check the path"


def load(path: str | Path, *, action_bounds: Given | Bounds | None = None) -> Dataset:
    """Open a dataset file; a UserError lists everything that makes it unusable, one problem per line.

    `action_bounds` is (low, high) for every action alike or such a pair for each; unless given, the file's metadata
    name them, or they are [-1, 1] or, where the actions lie far outside that, the least and the most in the data.
    """
    dataset, problems = examine(path, action_bounds=action_bounds)
    if dataset is None:
        raise UserError("\n".join(problem.message for problem in problems if problem.severity == "fatal"))
    return dataset


def examine(path: str | Path, *, action_bounds: Given | Bounds | None = None) -> tuple[Dataset | None, list[Problem]]:
    """Open a dataset file and report every problem; there is no dataset when one of them is fatal."""
    path = Path(path)
    bounds = None if action_bounds is None else Bounds.of(action_bounds)
    found = Findings(str(path))
    kind = find_format(path)
    content = None
    if reason := _refuse_path(path):
        found.fatal("file", reason)
    elif kind is None:
        found.fatal("file", _unknown_type(path))
    elif path.stat().st_size == 0:
        found.fatal("file", f"the file is empty (0 bytes); {AGAIN}")
    else:
        content = kind.read(path, found)
    if content is None:
        return None, found.problems
    arrays, metadata = content
    dataset = check_arrays(arrays, found, metadata=metadata, action_bounds=bounds)
    return dataset, found.problems


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
