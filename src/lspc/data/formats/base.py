"""What a file format is, and what formats share: the known arrays of an open file, and words for damage."""

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.dataset import FIELDS, Metadata
from lspc.data.tables import Table, Unusable, join_tables
from lspc.data.validate import FILE_NAMES, Findings

METADATA_KEY = "metadata"
"""The entry that holds the metadata in files that have no attributes."""

# What h5py, zipfile and numpy raise on damaged bytes; a failed read of one array raises the same ones.
DAMAGE = (
    OSError, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError, EOFError, MemoryError, SyntaxError,
    AttributeError, tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
AGAIN = "download or export the file again"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Format:
    """One kind of file. Nothing in a file may run code, and equal content must be written as equal bytes."""

    name: str
    suffixes: tuple[str, ...]
    """In small letters, with the dot; the first is the usual one."""
    read: Callable[[Path, Findings], tuple[Arrays | Table, Metadata] | None]
    """The known arrays as they are, or a table whose columns the user may name, and the metadata.

    None and a fatal finding if it cannot be opened."""
    read_metadata: Callable[[Path], Metadata]
    """The metadata alone, without unpacking the arrays; raises one of `DAMAGE` where that cannot be done."""
    write: Callable[[Path, Mapping[str, NDArray[Any]], Metadata], None]


@dataclass(frozen=True)
class Folder:
    """One kind of folder, known by what is in it. Folders are read, not written."""

    name: str
    recognise: Callable[[Path], bool]
    read: Callable[[Path, Findings], tuple[Table, Metadata] | None]
    read_metadata: Callable[[Path], Metadata]


def read_tables(
    folder: Path, names: Sequence[str], read: Callable[[Path, Findings], tuple[Any, Metadata] | None], found: Findings
) -> Table | None:
    """The tables in these files of a folder, one after the other."""
    parts: list[tuple[str, Table]] = []
    for name in names:
        inner = Findings(str(folder / name))
        content = read(folder / name, inner)
        found.problems += inner.problems
        if content is not None and isinstance(content[0], Table):
            parts.append((name, content[0]))
    if not parts and not found.fatal_in():
        found.fatal("file", f"the folder has no table in it; {AGAIN}")
    if found.fatal_in():
        return None
    try:
        return join_tables(str(folder), parts)
    except Unusable as error:
        found.fatal(error.field, str(error))
        return None


def read_arrays(
    file: Mapping[str, Any],
    found: Findings,
    refuse: Callable[[str], str | None] = lambda name: None,
    copy: Callable[[Any], NDArray[Any]] = np.asarray,
) -> Arrays:
    """The arrays of a dataset among the entries of an open file; whatever else there is gives a warning.

    `refuse` says why the entry of a name must not be read, and none where it may be; `copy` reads one.
    """
    arrays: Arrays = {}
    names = list(file)
    wanted = {FILE_NAMES[field] if FILE_NAMES[field] in names else field: field for field in FIELDS}
    extra = ", ".join(name for name in names if name not in wanted and name != METADATA_KEY)
    if extra:
        found.warn(extra, f"{extra}: not part of a dataset; ignored")
    for name, field in wanted.items():
        if name not in names:
            continue
        try:
            if reason := refuse(name):
                found.fatal(field, f"{name} {reason}")
                continue
            entry = file[name]
            if isinstance(entry, Mapping):
                found.fatal(field, f"{name} is a group; it must be an array")
                continue
            arrays[name] = copy(entry)
        except DAMAGE as error:
            if "allow_pickle" in str(error):
                found.fatal(field, f"{name} holds pickled objects, which are never loaded; store numbers")
            else:
                found.fatal(field, f"{name} is damaged or cut off ({one_line(error)}); {AGAIN}")
    return arrays


def metadata_or_warning(read: Callable[[], Metadata], found: Findings) -> Metadata:
    """A dataset is good without its metadata: where they are damaged there is a warning and none."""
    try:
        return read()
    except DAMAGE as error:
        found.warn(METADATA_KEY, f"its metadata cannot be read ({one_line(error)}); ignored")
        return {}


def plain_values(values: Mapping[str, Any]) -> Metadata:
    """The texts and numbers among `values`: the kinds that every format can write."""
    plain: dict[str, str | int | float] = {}
    for name, value in values.items():
        value = value.item() if isinstance(value, np.generic) else value
        value = value.decode(errors="replace") if isinstance(value, bytes) else value
        if isinstance(value, str | int | float):
            plain[name] = value
    return plain


def one_line(error: BaseException) -> str:
    """What a library says of damage, without the damaged bytes that some of them quote at length."""
    return shorten(" ".join(str(error).split()) or type(error).__name__, 300, placeholder="...")
