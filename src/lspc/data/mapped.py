"""Arrays beyond memory: mapped from a file without a name, beside the log, which is gone when the program ends.

Whatever is made of a mapped array is mapped too. Scans go block by block and give the pages back, so that what is
resident stays small; blocks depend on the shape alone, so that sums are the same wherever an array lies.
"""

import math
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lspc.errors import UserError
from lspc.system import free_memory

COPIES = 4
"""Training in memory holds the data so many times: as read, checked, side by side, and on the device."""
BLOCK = 2**23
"""Bytes of one array that are looked at together."""
SCATTERED = 2048
"""Rows copied from all over a mapped array before pages are given back: the system maps up to 64 KB around each."""
READERS: int = 16
"""Threads that read rows from the disk: one after the other, each row would wait for the one before."""


class Mapping(mmap.mmap):
    """The bytes of mapped arrays. `folder` is where their file lies, `address` where they are mapped."""

    folder: Path
    address: int
    descriptor: int


def exceeds_memory(size: int) -> bool:
    """Whether data of so many bytes should be mapped instead of held."""
    return COPIES * size > free_memory()


def free_disk(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def mapping_of(array: Any) -> Mapping | None:
    """What an array is mapped from; none for one in memory."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, Mapping) else None


def map_arrays(wanted: Sequence[tuple[tuple[int, ...], DTypeLike]], folder: Path) -> list[NDArray[Any]]:
    """Arrays of these shapes and types in one file, which has no name any more when they are returned."""
    kinds = [(shape, np.dtype(dtype)) for shape, dtype in wanted]
    starts = np.cumsum([0, *(-(-math.prod(shape) * dtype.itemsize // 64) * 64 for shape, dtype in kinds)]).tolist()
    folder = folder if os.access(folder, os.W_OK) else Path(tempfile.gettempdir())
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(max(starts[-1], 1))
            if hasattr(os, "posix_fallocate"):  # claimed now: a disk that is full later would kill the program
                os.posix_fallocate(file.fileno(), 0, max(starts[-1], 1))
            mapping = Mapping(file.fileno(), max(starts[-1], 1))
            mapping.descriptor = os.dup(file.fileno())
            weakref.finalize(mapping, os.close, mapping.descriptor)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot allocate {starts[-1]:,} bytes on disk for data larger than memory ({error.strerror})"
        ) from error
    mapping.folder, mapping.address = folder, np.frombuffer(mapping, np.uint8).ctypes.data
    return [
        np.ndarray(shape, dtype, mapping, start) for (shape, dtype), start in zip(kinds, starts[:-1], strict=True)
    ]


def empty(shape: tuple[int, ...], dtype: DTypeLike, *like: Any) -> NDArray[Any]:
    """An array without values, mapped if one of `like` is."""
    mapping = next((found for array in like if (found := mapping_of(array)) is not None), None)
    return np.empty(shape, dtype) if mapping is None else map_arrays([(shape, dtype)], mapping.folder)[0]


def release(*arrays: Any) -> None:
    """Give back the memory of mapped arrays; their values stay in the file."""
    for mapping in {id(found): found for array in arrays if (found := mapping_of(array)) is not None}.values():
        mapping.madvise(mmap.MADV_DONTNEED)


def blocks(*arrays: Any) -> Iterator[slice]:
    """The rows of arrays of equal length, some at a time; after each, what was mapped for them is given back."""
    rows = len(arrays[0])
    width = max(math.prod(array.shape[1:]) * array.dtype.itemsize for array in arrays)
    step = max(BLOCK // max(width, 1), 1)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
        release(*arrays)


def side_by_side(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """The bytes of each row of all columns in one piece, on disk: a row of all is then one read."""
    flat = [column.reshape(len(column), -1) for column in columns]
    widths = [column.shape[1] * column.itemsize for column in flat]
    packed = empty((len(flat[0]), sum(widths)), np.uint8, *columns)
    for rows in blocks(packed, *columns):
        np.concatenate(
            [np.ascontiguousarray(column[rows]).view(np.uint8) for column in flat], axis=1, out=packed[rows]
        )
    return packed


def split(packed: NDArray[np.uint8], like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Rows of `side_by_side`, in memory, as columns again."""
    found, start = [], 0
    for column in like:
        width = math.prod(column.shape[1:]) * column.itemsize
        part = np.ascontiguousarray(packed[:, start : start + width])
        found.append(part.view(column.dtype).reshape(len(packed), *column.shape[1:]))
        start += width
    return found


def copy(entry: Any, folder: Path) -> NDArray[Any]:
    """A mapped copy of what has a shape, a type and rows, such as an array in an open file."""
    [target] = map_arrays([(entry.shape, entry.dtype)], folder)
    for rows in blocks(target):
        target[rows] = entry[rows]
    return target


def transform(array: NDArray[Any], change: Callable[[NDArray[Any]], NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """`change` of every row, where the array lies."""
    if mapping_of(array) is None:
        return change(array).astype(dtype, copy=False)
    target = empty(array.shape, dtype, array)
    for rows in blocks(array, target):
        target[rows] = change(array[rows])
    return target


def take(array: NDArray[Any], rows: NDArray[np.integer]) -> NDArray[Any]:
    """`array[rows]`, where the array lies."""
    if mapping_of(array) is None:
        return array[rows]
    target = empty((len(rows), *array.shape[1:]), array.dtype, array)
    for part in blocks(target):
        _copy_rows(array, rows[part], target[part])
    return target


def gather(array: NDArray[Any], rows: NDArray[np.integer]) -> NDArray[Any]:
    """`array[rows]` in memory, of rows that lie anywhere.

    They are read from the file, not through the mapping, whose pages would be this process's memory.
    """
    mapping = mapping_of(array)
    if mapping is None:
        return array[rows]
    assert array[:1].flags.c_contiguous
    found = np.empty((len(rows), *array.shape[1:]), array.dtype)
    width, first = math.prod(array.shape[1:]) * array.itemsize, array.ctypes.data - mapping.address
    places = (first + rows.astype(np.int64) * array.strides[0]).tolist()
    target = memoryview(cast(Any, found.reshape(-1))).cast("B")

    def read(part: range) -> None:
        for i in part:
            if os.preadv(mapping.descriptor, [target[i * width : (i + 1) * width]], places[i]) != width:
                raise OSError("the working copy of the data is shorter than it was")

    if width:
        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(read, (range(start, len(rows), READERS) for start in range(READERS))))
    return found


def _copy_rows(array: NDArray[Any], rows: NDArray[np.integer], out: NDArray[Any]) -> None:
    """With few pages of the array resident at a time."""
    for start in range(0, len(rows), SCATTERED):
        part = slice(start, start + SCATTERED)
        out[part] = array[rows[part]]
        release(array)


def moments(*arrays: NDArray[Any], change: Callable[[slice], NDArray[Any]] | None = None) -> tuple[Any, Any]:
    """Mean and standard deviation of each column, in double precision; of `change(rows)` of the arrays, if given."""
    of = change or (lambda rows: arrays[0][rows])
    total = np.float64(0)
    for rows in blocks(*arrays):
        total = total + of(rows).sum(axis=0, dtype=np.float64)
    mean, squares = total / len(arrays[0]), np.float64(0)
    for rows in blocks(*arrays):
        squares = squares + ((of(rows) - mean) ** 2).sum(axis=0)
    return mean, np.sqrt(squares / len(arrays[0]))


def extremes(array: NDArray[Any]) -> tuple[Any, Any]:
    """The least and the most of each column."""
    found = [(array[rows].min(axis=0), array[rows].max(axis=0)) for rows in blocks(array)]
    return np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0)
