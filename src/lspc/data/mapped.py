"""Arrays beyond memory: mapped from a file without a name, beside the log, which is gone when the program ends.

Whatever is made of a mapped array is mapped too. Scans go block by block and give the pages back, so that what is
resident stays small; blocks depend on the shape alone, so that sums are the same wherever an array lies.
"""

import math
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lspc.errors import UserError
from lspc.system import free_memory

COPIES = 4
"""Training in memory holds the data so many times: as read, checked, side by side, and on the device."""
BLOCK = 2**23
"""Bytes of one array that are looked at together."""
SCATTERED = 2048
"""Rows gathered from all over a mapped array before pages are given back: the system maps up to 64 KB around each."""


NEAR = 4
"""Pages between two rows that are read along with them: cheaper than to ask the disk twice."""


class Mapping(mmap.mmap):
    """The bytes of mapped arrays. `folder` is where their file lies, `address` where they are mapped."""

    folder: Path
    address: int


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
    """`array[rows]` in memory, of rows that lie anywhere."""
    mapping = mapping_of(array)
    if mapping is None:
        return array[rows]
    found = np.empty((len(rows), *array.shape[1:]), array.dtype)
    mapping.madvise(mmap.MADV_RANDOM)  # nothing around a row is read along with it
    starts = range(0, len(rows), SCATTERED)
    _read_ahead(mapping, array, rows[:SCATTERED])
    for start in starts:
        _read_ahead(mapping, array, rows[start + SCATTERED : start + 2 * SCATTERED])
        found[start : start + SCATTERED] = array[rows[start : start + SCATTERED]]
        release(array)
    mapping.madvise(mmap.MADV_NORMAL)
    return found


def _read_ahead(mapping: Mapping, array: NDArray[Any], rows: NDArray[np.integer]) -> None:
    """Ask the disk for these rows all at once: one after the other, each would wait for the one before."""
    if len(rows) == 0:
        return
    starts = np.sort(array.ctypes.data - mapping.address + rows.astype(np.int64) * array.strides[0])
    first = starts // mmap.PAGESIZE
    last = (starts + math.prod(array.shape[1:]) * array.itemsize - 1) // mmap.PAGESIZE
    far = first[1:] > last[:-1] + NEAR
    begins, ends = first[np.append(True, far)], last[np.append(far, True)]
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        mapping.madvise(mmap.MADV_WILLNEED, begin * mmap.PAGESIZE, (end - begin + 1) * mmap.PAGESIZE)


def _copy_rows(array: NDArray[Any], rows: NDArray[np.integer], out: NDArray[Any]) -> None:
    """With few pages of the array resident at a time."""
    for start in range(0, len(rows), SCATTERED):
        part = slice(start, start + SCATTERED)
        out[part] = array[rows[part]]
        release(array)


def moments(array: NDArray[Any], change: Callable[[slice], NDArray[Any]] | None = None) -> tuple[Any, Any]:
    """Mean and standard deviation of each column, in double precision; of `change(rows)` instead, if given."""
    of = change or (lambda rows: array[rows])
    total = np.float64(0)
    for rows in blocks(array):
        total = total + of(rows).sum(axis=0, dtype=np.float64)
    mean, squares = total / len(array), np.float64(0)
    for rows in blocks(array):
        squares = squares + ((of(rows) - mean) ** 2).sum(axis=0)
    return mean, np.sqrt(squares / len(array))


def extremes(array: NDArray[Any]) -> tuple[Any, Any]:
    """The least and the most of each column."""
    found = [(array[rows].min(axis=0), array[rows].max(axis=0)) for rows in blocks(array)]
    return np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0)
