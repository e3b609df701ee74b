"""NPZ with DSRL's names: one array for each field; the metadata are one more entry, a text of JSON."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import Metadata
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
from lspc.data.validate import Findings


def read(path: Path, found: Findings) -> tuple[Arrays, Metadata] | None:
    if not zipfile.is_zipfile(path):
        found.fatal("file", f"not an NPZ (zip) file, or damaged or cut off; {AGAIN}")
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            return read_arrays(file, found), metadata_or_warning(lambda: _metadata(file), found)
    except DAMAGE as error:
        found.fatal("file", f"not an NPZ file, or damaged or cut off ({one_line(error)}); {AGAIN}")
        return None


def read_metadata(path: Path) -> Metadata:
    with np.load(path, allow_pickle=False) as file:
        return _metadata(file)


def _metadata(file: Mapping[str, Any]) -> Metadata:
    if METADATA_KEY not in file:
        return {}
    values = json.loads(str(file[METADATA_KEY]))
    if not isinstance(values, dict):
        raise ValueError(f"{METADATA_KEY} must be a JSON object")
    return plain_values(values)


def write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    notes = {METADATA_KEY: np.array(json.dumps(dict(metadata), sort_keys=True))} if metadata else {}
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays, **notes)


FORMAT = Format("NPZ", (".npz",), read, read_metadata, write)
