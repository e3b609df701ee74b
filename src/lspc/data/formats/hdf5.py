"""HDF5 in DSRL's layout: one compressed array for each field; the metadata are the file's attributes.

HDF5 reads zeros where nothing was stored, and follows links into other files; both are refused by name.
"""

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from lspc.data import mapped
from lspc.data.dataset import FIELDS, Metadata
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
from lspc.data.formats.bounds import Allowance, check_disk
from lspc.data.validate import FILE_NAMES, Findings

KNOWN_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_LZF}
"""Those that never make more of a byte than deflate does."""
HEAP, HEAP_HEADER = b"GCOL\x01\x00\x00\x00", 16
SEARCHED = 2**26
"""Bytes of a file that are looked through together."""
EXPORT = "store the numbers themselves in this file"


def read(path: Path, found: Findings) -> tuple[Arrays, Metadata] | None:
    try:
        check_heaps(path)
        with h5py.File(path, "r") as file:
            declared = _declared(file)
            if streamed := mapped.exceeds_memory(declared):
                check_disk(declared, path)
            allowance = Allowance(path, mapped=streamed)
            copy = partial(_map_matrix, folder=path.parent) if streamed else np.asarray
            arrays = read_arrays(file, found, lambda name: refuse(file, name, allowance), copy)
            return arrays, metadata_or_warning(lambda: plain_values(file.attrs), found)
    except DAMAGE as error:
        found.fatal("file", f"not an HDF5 file, or damaged or cut off ({one_line(error)}); {AGAIN}")
        return None


def _declared(file: h5py.File) -> int:
    """Bytes of all that may be an array of the dataset, as far as the file says."""
    names = {*FIELDS, *FILE_NAMES.values()} & set(file)
    entries = [file[name] for name in names if isinstance(file.get(name, getlink=True), h5py.HardLink)]
    return sum(
        math.prod(entry.shape) * entry.dtype.itemsize
        for entry in entries
        if isinstance(entry, h5py.Dataset) and entry.shape is not None
    )


def _map_matrix(entry: h5py.Dataset, folder: Path) -> NDArray[Any]:
    """What has several numbers in a row is mapped; what has one is small beside it, and stays in memory."""
    return mapped.copy(entry, folder) if entry.ndim >= 2 and entry.dtype.kind in "biuf" else np.asarray(entry)


def refuse(file: h5py.File, name: str, allowance: Allowance) -> str | None:
    """Why this entry must not be read, if it must not."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return f"is a link to somewhere else, which is never followed; {EXPORT}"
    entry = file[name]
    if not isinstance(entry, h5py.Dataset) or entry.shape is None:
        return None  # told by what looks at its type
    if entry.is_virtual:
        return f"is a virtual dataset: its numbers lie in other files, and are zeros where those are gone; {EXPORT}"
    if entry.id.get_create_plist().get_external_count():
        return f"is stored in another file, which is never opened; {EXPORT}"
    return _refuse_unwritten(entry) or _refuse_size(entry, allowance)


def _refuse_unwritten(entry: h5py.Dataset) -> str | None:
    """Where nothing was stored HDF5 reads zeros, which would be costs of nothing."""
    if entry.size == 0:
        return None
    if entry.chunks is None:
        return None if entry.id.get_storage_size() else "was never written: the file holds none of its numbers"
    wanted = math.prod(-(-rows // chunk) for rows, chunk in zip(entry.shape, entry.chunks, strict=True))
    written = entry.id.get_num_chunks()
    if written < wanted:
        return f"was never written in full: the file holds {written:,} of its {wanted:,} chunks; export it again"
    return None


def _refuse_size(entry: h5py.Dataset, allowance: Allowance) -> str | None:
    plist = entry.id.get_create_plist()
    filters = {plist.get_filter(i)[0] for i in range(plist.get_nfilters())}
    reason = allowance.refuse(
        math.prod(entry.shape) * entry.dtype.itemsize, entry.id.get_storage_size(),
        compressed=bool(filters), known=filters <= KNOWN_FILTERS,
    )  # fmt: skip
    return reason and f"{reason}; {AGAIN}"


def read_metadata(path: Path) -> Metadata:
    check_heaps(path)
    with h5py.File(path, "r") as file:
        return plain_values(file.attrs)


def check_heaps(path: Path) -> None:
    """Refuse a file whose texts lie in a damaged heap: the HDF5 library walks it without end where a size is 0."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for start, size in _find_heaps(content):
            place, end = start + HEAP_HEADER, min(start + size, len(content))
            while place + HEAP_HEADER <= end:
                index, length = struct.unpack_from("<H6xQ", content, place)
                step = HEAP_HEADER + -(-length // 8) * 8 if index else length  # free space counts its own header
                if step < HEAP_HEADER:
                    raise ValueError(f"the heap of texts at byte {start:,} is damaged")
                place += step


def _find_heaps(content: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where each global heap begins, and its size; a part of the file at a time, which is then given back."""
    for begin in range(0, len(content), SEARCHED):
        stop = begin + SEARCHED + len(HEAP) - 1  # one that begins in this part may end in the next
        start = begin - 1
        while (start := content.find(HEAP, start + 1, stop)) >= 0 and start + HEAP_HEADER <= len(content):
            yield start, struct.unpack_from("<8xQ", content, start)[0]
        content.madvise(mmap.MADV_DONTNEED)


def write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            # Without times of creation, equal content gives equal bytes.
            file.create_dataset(name, data=array, compression="gzip", shuffle=True, track_times=False)
        for name, value in metadata.items():
            file.attrs[name] = value


FORMAT = Format("HDF5", (".hdf5", ".h5"), read, read_metadata, write)
