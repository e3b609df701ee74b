"""DSRL's own files by the name of their task: from a mirror into a cache, resumed where a line broke.

What arrives is believed when it has the length and the SHA-256 that the server told, and is a whole HDF5 file.
"""

import http.client
import os
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h5py

from lspc import files
from lspc.errors import UserError
from lspc.tasks import Task

MIRRORS = (
    "https://huggingface.co/datasets/YYY-45/DSRL/resolve/main/",
    "http://data.offline-saferl.org/download/",
)
"""Where DSRL's files are, the first asked first; the environment's LSPC_MIRROR goes before them."""
ATTEMPTS = 4
"""Tries of one mirror that bring nothing new before the next one is asked."""
TIMEOUT, BLOCK, LOCK_WAIT = 30.0, 1 << 20, 3600.0
SHA256 = re.compile(r'(?:W/)?"?([0-9a-f]{64})"?')

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and, where the server told, how many there will be."""


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lspc" / "datasets"


def fetch(
    task: Task,
    *,
    offline: bool = False,
    mirrors: Sequence[str] | None = None,
    pause: float = 1.0,
    on_progress: Progress | None = None,
) -> Path:
    """Where DSRL's file of this task is on this machine, after a download if need be and if not `offline`.

    `pause` is the seconds between two tries; each waits twice as long as the one before.
    """
    name, folder = task.dataset_file, cache_folder()
    known = Path(os.environ.get("DSRL_DATASET_DIR") or Path.home() / ".dsrl" / "datasets") / name
    for path in (folder / name, known):
        if path.is_file():
            return path
    otherwise = (
        f"put it into {folder}, or make data of your own: lspc collect --task {task.name} --out {task.name}.hdf5"
    )
    if offline:
        raise UserError(f"{name}, the data of {task.name}, is not here and --offline forbids a download; {otherwise}")
    own = os.environ.get("LSPC_MIRROR")
    failures: list[str] = []
    with files.locked(folder, wait=LOCK_WAIT):
        for mirror in mirrors or (*([own] if own else []), *MIRRORS):
            if (folder / name).is_file():  # another process was quicker
                break
            try:
                _download(f"{mirror.rstrip('/')}/{name}", folder / name, pause, on_progress or (lambda *_: None))
            except _Failed as error:
                failures.append(f"{urlsplit(mirror).hostname or mirror}: {error}")
    if not (folder / name).is_file():
        raise UserError(
            f"{name}, the data of {task.name}, could not be downloaded ({'; '.join(failures)}); {otherwise}"
        )
    return folder / name


class _Failed(Exception):
    """Why a mirror did not give the file."""


@dataclass
class _Promise:
    """What a server says of the whole file."""

    size: int | None = None
    sha256: str | None = None
    mark: str | None = None
    """What tells this version of the file from another."""


def _download(url: str, target: Path, pause: float, on_progress: Progress) -> None:
    """Into `target`, by way of a part that lies beside it until it is whole."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise _Failed("no web address; write https://...")
    part, idle = target.with_name(target.name + ".part"), 0
    most = part.stat().st_size if part.exists() else 0
    while True:
        reason: str | None = None
        try:
            promise = _receive(url, part, on_progress)
            if (reason := _refuse(part, promise)) is None:
                part.replace(target)
                _mark_path(part).unlink(missing_ok=True)
                return
        except urllib.error.HTTPError as error:
            if error.code in (401, 403, 404, 410):
                raise _Failed(f"{error.code} {error.reason}") from error
            reason = f"{error.code} {error.reason}"
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", None) or error) or type(error).__name__
            if isinstance(getattr(error, "reason", None), socket.gaierror):  # no such host, or no network
                raise _Failed(reason) from error
        have = part.stat().st_size if part.exists() else 0
        idle, most = (0, have) if have > most else (idle + 1, most)
        if idle >= ATTEMPTS:  # what is here stays, for the next time
            raise _Failed(reason)
        time.sleep(pause * 2**idle)


def _receive(url: str, part: Path, on_progress: Progress) -> _Promise:
    """Add to `part` what is missing of it; begin anew where the server has another version or cannot go on."""
    have = part.stat().st_size if part.exists() else 0
    mark = _mark_path(part).read_text(encoding="utf-8") if have and _mark_path(part).exists() else ""
    headers = {"User-Agent": "lspc", "Accept-Encoding": "identity"}
    if have and mark:
        headers |= {"Range": f"bytes={have}-", "If-Range": mark}
    redirects = _Redirects()
    opener = urllib.request.build_opener(redirects)
    try:
        response = opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the part is as long as the file, or longer: begin anew
            _forget(part)
        raise
    with response:
        promise, goes_on = _read_promise(response, redirects.told, have)
        if promise.mark:
            files.write_text(_mark_path(part), promise.mark)
        with part.open("ab" if goes_on else "wb") as file:
            for block in _blocks(response):
                file.write(block)
                on_progress(file.tell(), promise.size)
    return promise


def _blocks(response: Any) -> Iterator[bytes]:
    """What comes, to the last byte: a line that breaks off leaves what came before it."""
    while True:
        try:
            block = response.read1(BLOCK)
        except http.client.IncompleteRead as error:
            block = error.partial
        if not block:
            return
        yield block


def _read_promise(response: Any, told: dict[str, str], have: int) -> tuple[_Promise, bool]:
    """What the server promises, and whether its answer goes on where the part ends."""
    headers = response.headers
    goes_on, size = False, _whole(headers.get("Content-Length"))
    if response.status == 206:
        matched = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
        if matched is None or int(matched[1]) != have:
            raise http.client.HTTPException(f"asked from byte {have}, got {headers.get('Content-Range')!r}")
        goes_on, size = True, _whole(matched[2])
    linked = SHA256.fullmatch(told.get("x-linked-etag", "") or headers.get("X-Linked-ETag", "") or "")
    mark = headers.get("ETag") or headers.get("Last-Modified")
    return _Promise(_whole(told.get("x-linked-size")) or size, linked[1] if linked else None, mark), goes_on


def _refuse(part: Path, promise: _Promise) -> str | None:
    """Why what arrived is not the file, if it is not; one that can grow no further is forgotten."""
    size = part.stat().st_size
    if promise.size is not None and size < promise.size:
        return f"it broke off after {size:,} of {promise.size:,} bytes"
    reason = None
    if promise.size is not None and size > promise.size:
        reason = f"{size:,} bytes came where {promise.size:,} were promised"
    elif promise.sha256 is not None and files.file_hash(part) != promise.sha256:
        reason = "its SHA-256 is not the one promised"
    else:
        try:
            h5py.File(part, "r").close()
        except OSError:
            reason = f"the {size:,} bytes that came are no whole HDF5 file"
    if reason:
        _forget(part)
    return reason


def _mark_path(part: Path) -> Path:
    return part.with_name(part.name + ".mark")


def _forget(part: Path) -> None:
    for path in (part, _mark_path(part)):
        path.unlink(missing_ok=True)


def _whole(text: str | None) -> int | None:
    with suppress(TypeError, ValueError):
        return int(text or "")
    return None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps what is said on the way: Hugging Face tells length and SHA-256 before it points elsewhere."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        self.told |= {name.lower(): value for name, value in headers.items() if name.lower().startswith("x-linked-")}
        return super().redirect_request(req, fp, code, msg, headers, newurl)
