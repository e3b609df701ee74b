"""The command line, in this process or in one of its own, and what a folder holds afterwards."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

LSPC = [sys.executable, "-m", "lspc.cli"]
Cli = Callable[..., subprocess.CompletedProcess[str]]
"""To be called with the arguments of `lspc` and, if need be, `columns`: the width of the terminal."""
TINY = ("--hidden", "8", "8", "--latent-dim", "4", "--batch-size", "32", "--steps", "10")
"""Settings with which `lspc train` takes no time."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def call_in_new_process(
    *arguments: object, columns: int = 80, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LSPC, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **_terminal(columns), **environment},
    )  # fmt: skip


def call_in_process(*arguments: object, columns: int = 80) -> subprocess.CompletedProcess[str]:
    """An exception that `lspc` lets pass comes through: a user would see a traceback."""
    import jax

    from lspc.cli import main

    jax.devices()  # once it has started, no command changes the number of devices for the tests to come
    given, handlers = [str(argument) for argument in arguments], [signal.getsignal(number) for number in SIGNALS]
    output, errors, code = _Utf8(), _Utf8(), 0
    with mock.patch.dict(os.environ, _terminal(columns)), redirect_stdout(output), redirect_stderr(errors):
        try:
            main(given)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    assert [signal.getsignal(number) for number in SIGNALS] == handlers, "lspc left a signal handler behind"
    return subprocess.CompletedProcess(["lspc", *given], code, output.getvalue(), errors.getvalue())


class _Utf8(io.StringIO):
    """A stream that says it can take any letter, as a terminal does: boxes are drawn where it can."""

    encoding = "utf-8"


def _terminal(columns: int) -> dict[str, str]:
    return {"COLUMNS": str(columns), "NO_COLOR": "1"}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run: all of it must be the same, the names too."""
    names = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}
