"""Writing files so that a reader never sees half of one: to a neighbour first, then renamed into place."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lspc.errors import UserError


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it replaces `path`, else it is removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: str | Path) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_jsonl(path: str | Path, rows: list[dict[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def append_jsonl(path: str | Path, rows: list[dict[str, Any]]) -> None:
    """Add lines with a single write: a killed process leaves whole lines, and `read_jsonl` drops a torn last one."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; a last line without its end was torn by a kill and is left out."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines if line]


def as_json(value: Any) -> Any:
    """`value` as it will look when read back: tuples become lists, keys become strings."""
    return json.loads(json.dumps(value))


def content_hash(value: Any) -> str:
    """Twelve hex digits that tell settings apart."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def read_run(folder: str | Path) -> dict[str, Any]:
    """The description of a run folder, config.json."""
    path = Path(folder) / "config.json"
    if not path.exists():
        raise UserError(f"{folder} is not a run folder: it has no config.json")
    return read_json(path)
