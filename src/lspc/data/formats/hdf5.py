"""HDF5 in DSRL's layout: one compressed array for each field; the metadata are the file's attributes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
from numpy.typing import NDArray

from lspc.data.dataset import Metadata
from lspc.data.formats.base import (
    AGAIN,
    DAMAGE,
    Arrays,
    Format,
    metadata_or_warning,
    one_line,
    plain_values,
    read_arrays,
)
from lspc.data.validate import Findings


def read(path: Path, found: Findings) -> tuple[Arrays, Metadata] | None:
    try:
        with h5py.File(path, "r") as file:
            return read_arrays(file, found), metadata_or_warning(lambda: plain_values(file.attrs), found)
    except DAMAGE as error:
        found.fatal("file", f"not an HDF5 file, or damaged or cut off ({one_line(error)}); {AGAIN}")
        return None


def read_metadata(path: Path) -> Metadata:
    with h5py.File(path, "r") as file:
        return plain_values(file.attrs)


def write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            # Without times of creation, equal content gives equal bytes.
            file.create_dataset(name, data=array, compression="gzip", shuffle=True, track_times=False)
        for name, value in metadata.items():
            file.attrs[name] = value


FORMAT = Format("HDF5", (".hdf5", ".h5"), read, read_metadata, write)
