"""The command line as a process, and what a folder holds afterwards."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

LSPC = [sys.executable, "-m", "lspc.cli"]
Cli = Callable[..., subprocess.CompletedProcess[str]]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run: all of it must be the same, the names too."""
    names = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}
