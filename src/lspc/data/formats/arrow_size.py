"""How many bytes an Arrow file unpacks to, asked of its headers alone: a buffer of a few bytes may declare gigabytes.

pyarrow unpacks a batch whenever it is asked about it, so the headers, flatbuffers by Arrow's
Message.fbs, are read here.
"""

import struct
from pathlib import Path
from typing import Any

from lspc.data.tables import import_arrow

MAGIC = 8
"""Bytes before the first message: ARROW1 and two of padding."""
LENGTH = 8
"""Bytes in front of a compressed buffer, which say how long it was; -1 if it was left as it is."""


def measure(path: Path) -> int:
    """Bytes of all batches and dictionaries, at least eight for each value."""
    arrow = import_arrow()
    from pyarrow import ipc

    with arrow.memory_map(str(path)) as file:
        file.seek(MAGIC)
        return sum(_measure_message(message) for message in ipc.MessageReader.open_stream(file) if message.body)


def _measure_message(message: Any) -> int:
    content, body = memoryview(message.metadata), memoryview(message.body)
    batch = _follow(content, _field(content, _follow(content, 0), 2))
    if message.type == "dictionary":
        batch = _follow(content, _field(content, batch, 1))
    rows, buffers, compressed = (_field(content, batch, number) for number in (1, 2, 3))
    values = sum(length for length, _ in _pairs(content, rows))
    stored = sum(_unpacked(body, start, size) if compressed else size for start, size in _pairs(content, buffers))
    return max(stored, 8 * values)


def _unpacked(body: memoryview, start: int, size: int) -> int:
    declared = struct.unpack_from("<q", body, start)[0] if size >= LENGTH else 0
    return max(declared, size)


def _follow(content: memoryview, place: int) -> int:
    """Where the table or vector lies that is referred to here."""
    return place + struct.unpack_from("<I", content, place)[0]


def _field(content: memoryview, table: int, number: int) -> int:
    """Where a table has this field; 0 if it has none."""
    layout = table - struct.unpack_from("<i", content, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", content, layout)[0]:
        return 0
    offset = struct.unpack_from("<H", content, layout + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _pairs(content: memoryview, field: int) -> list[tuple[int, int]]:
    """A vector of pairs of whole numbers."""
    if not field:
        return []
    vector = _follow(content, field)
    count = struct.unpack_from("<I", content, vector)[0]
    if vector + 4 + 16 * count > len(content):
        raise ValueError("a header of the Arrow file is damaged")
    return [struct.unpack_from("<qq", content, vector + 4 + 16 * i) for i in range(count)]
