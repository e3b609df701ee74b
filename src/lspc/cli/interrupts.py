"""Ctrl-C while a verb works: the program ends at once and says so in one line.

An exception would be raised wherever Python happens to be: while modules are imported or JAX starts, compiles and
computes, some of that code swallows it and some crashes. Ending spoils nothing: a file is renamed into place when it
is whole, and workers end when we are gone. What has something to save takes over: the training loop, a bench.
"""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

from lspc import files


@contextmanager
def end_at_once() -> Generator[None]:
    """Inside `with`, Ctrl-C ends the program, unless somebody has a use of their own for it."""
    before = signal.getsignal(signal.SIGINT)
    if before not in (signal.default_int_handler, signal.SIG_DFL) or not _is_main():
        yield
        return
    errors = os.dup(2)  # simulators send 2 itself to nowhere for a while

    def end(number: int, frame: Any) -> NoReturn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        files.discard_unfinished()
        cursor = b"\x1b[?25h" if os.isatty(errors) else b""  # a progress bar hides it
        os.write(errors, cursor + b"\nlspc: stopped\n")
        os._exit(130)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(errors)


@contextmanager
def raise_instead() -> Generator[None]:
    """Inside `with`, Ctrl-C raises KeyboardInterrupt: for what waits in Python and ends its workers in order."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or not _is_main():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
