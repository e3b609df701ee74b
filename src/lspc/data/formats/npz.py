"""NPZ with DSRL's names: one array for each field; the metadata are one more entry, a text of JSON."""

import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import FIELDS, Metadata
from lspc.data.formats.base import (
    AGAIN,
    DAMAGE,
    METADATA_KEY,
    Arrays,
    Format,
    metadata_or_warning,
    one_line,
    plain_values,
    read_arrays,
)
from lspc.data.formats.bounds import Allowance, check_memory
from lspc.data.validate import FILE_NAMES, Findings


def read(path: Path, found: Findings) -> tuple[Arrays, Metadata] | None:
    if not zipfile.is_zipfile(path):
        found.fatal("file", f"not an NPZ (zip) file, or damaged or cut off; {AGAIN}")
        return None
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            check_memory(_declared(file))
            allowance = Allowance(path)
            arrays = read_arrays(file, found, lambda name: _refuse(file, name, allowance))
            return arrays, metadata_or_warning(lambda: _metadata(file, path), found)
    except DAMAGE as error:
        found.fatal("file", f"not an NPZ file, or damaged or cut off ({one_line(error)}); {AGAIN}")
        return None


def _declared(file: Any) -> int:
    """Bytes of all that will be read, as far as the file says."""
    names = {*FIELDS, *FILE_NAMES.values(), METADATA_KEY}
    return sum(entry.file_size for entry in file.zip.infolist() if entry.filename.removesuffix(".npy") in names)


def _refuse(file: Any, name: str, allowance: Allowance) -> str | None:
    """Why this entry must not be read, if it must not: its header declares more than its bytes can hold."""
    entry = file.zip.getinfo(name if name in file.zip.namelist() else f"{name}.npy")
    compressed = entry.compress_type != zipfile.ZIP_STORED
    reason = allowance.refuse(
        entry.file_size, entry.compress_size, compressed=compressed,
        known=entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
    )  # fmt: skip
    with file.zip.open(entry) as packed:
        version = np.lib.format.read_magic(packed)
        read_header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read_header(packed)
    declared = math.prod(shape) * dtype.itemsize
    if not reason and not dtype.hasobject and declared > entry.file_size:
        reason = f"declares {declared:,} bytes but its entry holds {entry.file_size:,}"
    return reason and f"{reason}; {AGAIN}"


def read_metadata(path: Path) -> Metadata:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return _metadata(file, path)


def _metadata(file: Any, path: Path) -> Metadata:
    if METADATA_KEY not in file:
        return {}
    if reason := _refuse(file, METADATA_KEY, Allowance(path)):
        raise ValueError(reason)
    values = json.loads(str(file[METADATA_KEY]))
    if not isinstance(values, dict):
        raise ValueError(f"{METADATA_KEY} must be a JSON object")
    return plain_values(values)


def write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    notes = {METADATA_KEY: np.array(json.dumps(dict(metadata), sort_keys=True))} if metadata else {}
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays, **notes)


FORMAT = Format("NPZ", (".npz",), read, read_metadata, write)
