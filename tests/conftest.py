"""What several test files share: strict shapes, a small dataset like BallRun's, and the command line as a process."""

import os
import signal
import subprocess
from pathlib import Path

import helpers.strict  # noqa: F401  before anything of lspc, which it checks as it is imported
import pytest
from helpers.cli import LSPC, Cli
from helpers.data import small_dataset

from lspc.data import Dataset, save

# A shell that runs the tests in the background makes them, and every program they start, deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    return small_dataset()


@pytest.fixture(scope="session")
def data_file(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "small.hdf5"
    save(dataset, path, metadata={"task": "BallRun"})
    return path


@pytest.fixture(scope="session")
def cli() -> Cli:
    """Run `lspc` as a user does, and see what the user sees."""

    def run(*arguments: object, columns: int = 80) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"}
        return subprocess.run(
            [*LSPC, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=300, check=False
        )

    return run
