"""Writing files so that a reader never sees half of one: to a neighbour first, then renamed into place."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lspc.errors import UserError

UNFINISHED = ".unfinished-"
"""How the name of a file begins while it is being written; a kill may leave one behind."""
_unfinished = set[Path]()
"""Those that this process is writing."""


@contextmanager
def atomic_path(path: str | Path) -> Generator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it replaces `path`, else it is removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{UNFINISHED}{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    _unfinished.add(temporary)
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
        _unfinished.discard(temporary)


@contextmanager
def temporary_folder() -> Generator[Path]:
    """A folder of the system's for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="lspc-") as name:
        _unfinished.add(folder := Path(name))
        try:
            yield folder
        finally:
            _unfinished.discard(folder)


def check_writable(folder: str | Path) -> None:
    """Refuse a folder that nothing can be written into, before hours of work are lost on it."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=UNFINISHED, dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{folder}: cannot be written into ({error.strerror}); check its permissions") from error


def write_text(path: str | Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: str | Path) -> Any:
    return _parse(_read_text(path), f"{path}")


def write_jsonl(path: str | Path, rows: list[dict[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def append_jsonl(path: str | Path, rows: list[dict[str, Any]]) -> None:
    """Add lines with a single write: a killed process leaves whole lines, and `read_jsonl` drops a torn last one."""
    append_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def append_text(path: str | Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; a last line without its end was torn by a kill and is left out."""
    rows = []
    for number, line in enumerate(_read_text(path).split("\n")[:-1], start=1):
        if line:
            rows.append(_parse(line, f"{path}, line {number}"))
            if not isinstance(rows[-1], dict):
                raise UserError(f"{path}, line {number}: damaged, not a JSON object; repair or delete it")
    return rows


def _read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: damaged, not UTF-8 (at byte {error.start}); repair or delete it") from error


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of too many digits is a ValueError of its own
        raise UserError(f"{place}: damaged, not JSON ({error}); repair or delete it") from error


@contextmanager
def locked(folder: str | Path, *, wait: float = 0.0) -> Generator[None]:
    """Make `folder` this process's alone and clear what a killed one left half written.

    The system lets go of the lock however the process ends. `wait` is for how many seconds another may hold it.
    """
    folder, until = Path(folder), time.monotonic() + wait
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    message = f"{folder} is in use by another process: wait for it or choose another"
                    raise UserError(message) from error
                time.sleep(0.02)
                continue
            except OSError:
                pass  # a file system without locks: better unprotected than unusable
            break
        clear_unfinished(folder)
        yield


def clear_unfinished(folder: Path) -> None:
    """Remove what a killed process left half written; only for the one that may write into `folder`."""
    for leftover in folder.glob(f"{UNFINISHED}*"):
        leftover.unlink()


def discard_unfinished() -> None:
    """Remove what this process is writing, before it ends in the middle of it."""
    for temporary in list(_unfinished):
        shutil.rmtree(temporary, ignore_errors=True) if temporary.is_dir() else temporary.unlink(missing_ok=True)


def as_json(value: Any) -> Any:
    """`value` as it will look when read back: tuples become lists, keys become strings."""
    return json.loads(json.dumps(value))


def restore_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were before JSON made lists of their tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


SEAL = "sha256"
"""The entry of a JSON object that holds the hash of all its others."""


def seal(values: Mapping[str, Any]) -> dict[str, Any]:
    """The object with a hash of its content, so that a later change is noticed."""
    content = {name: value for name, value in values.items() if name != SEAL}
    return {**content, SEAL: _digest(content)}


def is_sealed(values: Mapping[str, Any], place: str, what_to_do: str) -> bool:
    """Whether the object carries the hash of its content; one that was changed since is refused."""
    if SEAL not in values:
        return False
    if seal(values) != dict(values):
        raise UserError(f"{place}: changed since it was written (its SHA-256 differs); {what_to_do}")
    return True


def expect_seal(values: Mapping[str, Any], place: str, what_to_do: str) -> bool:
    """`is_sealed`, and a warning where there is no hash: older versions wrote none."""
    sealed = is_sealed(values, place, what_to_do)
    if not sealed:
        warnings.warn(
            f"{place}: no SHA-256 of its content (from before 0.3, or damaged): a change would go unnoticed; "
            f"to have one, {what_to_do}",
            stacklevel=3,
        )
    return sealed


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(value: Any) -> str:
    """Twelve hex digits that tell settings apart."""
    return _digest(value)[:12]
