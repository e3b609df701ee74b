"""What may happen to files and to the programs that write them: damage, kills inside a write, a clock that jumps."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WRITES = ("replace", "fsync", "unlink")
"""What `lspc.files` asks of the system when it writes."""


def change_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """One to three bytes changed: what a bad disk does."""
    changed = bytearray(content)
    for place in rng.integers(0, len(content), rng.integers(1, 4)):
        changed[place] = rng.integers(0, 256)
    return bytes(changed)


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Changed bytes, or the end, a piece or all but a piece lost, repeated or zero."""
    start, end = sorted(rng.integers(0, len(content) + 1, 2).tolist())
    piece = content[start:end]
    return [
        lambda: change_bytes(content, rng),
        lambda: change_bytes(content, rng),
        lambda: content[:start],
        lambda: content[:start] + content[end:],
        lambda: content[:end] + piece + content[end:],
        lambda: content[:start] + bytes(end - start) + content[end:],
    ][rng.integers(6)]()


def strike_inside_a_write(number: int, *, torn: bool) -> Callable[[], int]:
    """From now on, the write of this number (from 1) kills this process, before it or, torn, in the middle of it.

    Returns a function that says how many writes there were so far; number 0 only counts.
    """
    count = 0

    def strike() -> bool:
        nonlocal count
        count += 1
        if count == number and not torn:
            os.kill(os.getpid(), signal.SIGKILL)
        return count == number

    def watch(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            last = strike()
            result = real(*arguments, **named)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(os, name, call)

    def tear(path: Path, content: bytes) -> int:
        if strike():
            write(path, content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return write(path, content)

    write = Path.write_bytes
    Path.write_bytes = tear  # pyrefly: ignore [bad-assignment]
    for name in WRITES:
        watch(name)
    return lambda: count


def let_the_clock_jump(seed: int) -> None:
    """From now on the time of day jumps by up to ten years, either way, whenever somebody looks."""
    rng, real = np.random.default_rng(seed), time.time
    time.time = lambda: real() + rng.uniform(-3e8, 3e8)


def pool_workers() -> list[int]:
    """The worker processes of this process, dead ones nobody collected included."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rsplit(")", 1)[1].split()[1])
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and (b"lspc.sims._worker" in command or not command):
            found.append(int(status.parent.name))
    return found
