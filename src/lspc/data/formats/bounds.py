"""Whether what a file declares can be true, asked before anything is read: a few bytes may promise terabytes."""

from pathlib import Path

from lspc.data.mapped import COPIES, exceeds_memory, free_disk
from lspc.data.tables import Unusable
from lspc.system import free_memory

LARGEST_DEFLATION = 1100
"""Deflate makes at most 1,032 bytes of one; a file that declares more was not written by it."""


def check_memory(declared: int) -> None:
    """Refuse what is not streamed where memory is short for opening it and learning from it."""
    if exceeds_memory(declared):
        raise Unusable(
            "file",
            f"needs {COPIES * declared:,} bytes of memory, {COPIES} times what it declares, and {free_memory():,} "
            "are free; free some, or give HDF5 or Parquet files, which are streamed",
        )


def check_disk(declared: int, path: Path) -> None:
    """Refuse what is streamed where the disk is too small for the copy to work from.

    What no file of this size can hold is told later, by the name of the array.
    """
    if path.stat().st_size * LARGEST_DEFLATION >= declared > (free := free_disk(path.parent)):
        raise Unusable("file", f"needs {declared:,} bytes of disk beside it, and {free:,} are free; free some")


class Allowance:
    """What the arrays of one file may take together: of its own bytes, and of memory or, if mapped, of the disk."""

    def __init__(self, path: Path, *, mapped: bool = False) -> None:
        self._file_left = path.stat().st_size
        self._left, self._where = (free_disk(path.parent), "disk") if mapped else (free_memory(), "memory")

    def refuse(self, declared: int, stored: int, *, compressed: bool, known: bool = True) -> str | None:
        """Why an array that declares so many bytes and stores so many is not read; none where it may be.

        `known` is whether the compression is one whose limit we know.
        """
        if known and declared > stored * (LARGEST_DEFLATION if compressed else 1):
            return f"declares {declared:,} bytes but stores {stored:,}, which cannot hold them"
        if stored > self._file_left:
            return f"says that it stores {stored:,} bytes, of which the file has {self._file_left:,}"
        if declared > self._left:
            return f"declares {declared:,} bytes, more than the {max(self._left, 0):,} of {self._where} that are free"
        self._file_left -= stored
        self._left -= declared
        return None
