"""A tiny run, trained by a process of its own: the whole way that a user goes."""

from pathlib import Path

import pytest
from helpers.cli import TINY, Cli


@pytest.fixture(scope="session")
def trained(cli_process: Cli, data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A tiny run and what was said while it was made."""
    out = tmp_path_factory.mktemp("runs") / "tiny"
    done = cli_process("train", "--data", data_file, "--out", out, "--preset", "paper", "--seeds", "0", "2", *TINY)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return out, done.stderr
