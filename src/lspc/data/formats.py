"""Dataset files in and out: DSRL's HDF5 layout and NPZ with the same names.

Nothing is unpickled, a bad file gives a list of problems and no dataset, and equal content gives equal bytes.
"""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import FIELDS, Dataset
from lspc.data.validate import FILE_NAMES, Findings, Problem, check_arrays
from lspc.errors import UserError
from lspc.files import atomic_path

HDF5_SUFFIXES = (".hdf5", ".h5")
NPZ_SUFFIX = ".npz"
METADATA_KEY = "metadata"
"""The NPZ entry that plays the part of HDF5's file attributes."""

Metadata = Mapping[str, str | int | float]

# What h5py, zipfile and numpy raise on damaged bytes; a failed read of one array raises the same ones.
DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
AGAIN = "download or export the file again"


def load(path: str | Path, action_low: float = -1.0, action_high: float = 1.0) -> Dataset:
    """Open a dataset file; a UserError lists everything that makes it unusable, one problem per line."""
    dataset, problems = examine(path, action_low, action_high)
    if dataset is None:
        raise UserError("\n".join(problem.message for problem in problems if problem.severity == "fatal"))
    return dataset


def examine(
    path: str | Path, action_low: float = -1.0, action_high: float = 1.0
) -> tuple[Dataset | None, list[Problem]]:
    """Open a dataset file and report every problem; there is no dataset when one of them is fatal."""
    path = Path(path)
    found = Findings(str(path))
    arrays = _read(path, found)
    if arrays is None:
        return None, found.problems
    dataset = check_arrays(arrays, found, action_low=action_low, action_high=action_high)
    return dataset, found.problems


def save(dataset: Dataset, path: str | Path, metadata: Metadata | None = None) -> None:
    """Write a dataset as HDF5 or NPZ, by the suffix of `path`; a killed write leaves what was there."""
    path = Path(path)
    arrays = {FILE_NAMES[field]: getattr(dataset, field) for field in FIELDS}
    write = _write_hdf5 if _is_hdf5(path) else _write_npz if _is_npz(path) else None
    if write is None:
        raise UserError(f"{path}: {_unknown_type(path)}")
    with atomic_path(path) as temporary:
        write(temporary, arrays, metadata or {})


def read_metadata(path: str | Path) -> dict[str, str | int | float]:
    """The notes `save` put beside the arrays; empty when there are none."""
    path = Path(path)
    try:
        if _is_hdf5(path):
            with h5py.File(path, "r") as file:
                return {
                    name: value.item() if isinstance(value, np.generic) else value
                    for name, value in file.attrs.items()
                    if isinstance(value, str | np.generic)
                }
        with np.load(path, allow_pickle=False) as file:
            return json.loads(str(file[METADATA_KEY])) if METADATA_KEY in file else {}
    except DAMAGE as error:
        raise UserError(f"{path}: its metadata cannot be read ({_one_line(error)}); {AGAIN}") from error


def _read(path: Path, found: Findings) -> dict[str, NDArray[Any]] | None:
    """The known arrays of a file as they are; None when the file as a whole cannot be read."""
    kind = "HDF5" if _is_hdf5(path) else "NPZ"
    if not path.is_file():
        found.fatal("file", "there is no such file; check the path")
    elif not (_is_hdf5(path) or _is_npz(path)):
        found.fatal("file", _unknown_type(path))
    elif path.stat().st_size == 0:
        found.fatal("file", f"the file is empty (0 bytes); {AGAIN}")
    elif _is_npz(path) and not zipfile.is_zipfile(path):
        found.fatal("file", f"not an NPZ (zip) file, or damaged or cut off; {AGAIN}")
    else:
        try:
            if _is_hdf5(path):
                with h5py.File(path, "r") as file:
                    return _read_known(file, found)
            with np.load(path, allow_pickle=False) as file:
                return _read_known(file, found)
        except DAMAGE as error:
            found.fatal("file", f"not an {kind} file, or damaged or cut off ({_one_line(error)}); {AGAIN}")
    return None


def _read_known(file: Mapping[str, Any], found: Findings) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    names = list(file)
    wanted = {FILE_NAMES[field] if FILE_NAMES[field] in names else field: field for field in FIELDS}
    extra = ", ".join(name for name in names if name not in wanted and name != METADATA_KEY)
    if extra:
        found.warn(extra, f"{extra}: not part of a dataset; ignored")
    for name, field in wanted.items():
        if name not in names:
            continue
        try:
            entry = file[name]
            if isinstance(entry, h5py.Group):
                found.fatal(field, f"{name} is a group; it must be an array")
                continue
            arrays[name] = np.asarray(entry)
        except DAMAGE as error:
            if "allow_pickle" in str(error):
                found.fatal(field, f"{name} holds pickled objects, which are never loaded; store numbers")
            else:
                found.fatal(field, f"{name} is damaged or cut off ({_one_line(error)}); {AGAIN}")
    return arrays


def _write_hdf5(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            # Without times of creation, equal content gives equal bytes.
            file.create_dataset(name, data=array, compression="gzip", shuffle=True, track_times=False)
        for name, value in metadata.items():
            file.attrs[name] = value


def _write_npz(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    notes = {METADATA_KEY: np.array(json.dumps(dict(metadata), sort_keys=True))} if metadata else {}
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays, **notes)


def _is_hdf5(path: Path) -> bool:
    return path.suffix.lower() in HDF5_SUFFIXES


def _is_npz(path: Path) -> bool:
    return path.suffix.lower() == NPZ_SUFFIX


def _unknown_type(path: Path) -> str:
    known = ", ".join((*HDF5_SUFFIXES, NPZ_SUFFIX))
    return f"unknown file type {path.suffix or '(no suffix)'!r}; use {known}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
