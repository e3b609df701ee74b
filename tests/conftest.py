"""What several test files share: strict shapes, a small dataset shaped like BallRun's, and the command line."""

import signal
from pathlib import Path

import helpers.strict  # noqa: F401  before anything of lspc, which it checks as it is imported
import pytest
from helpers.cli import Cli, call_in_new_process, call_in_process
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
    """Call `lspc` as a user does, and see what the user sees; in this process, which saves starting another."""
    return call_in_process


@pytest.fixture(scope="session")
def cli_process() -> Cli:
    """The same in a process of its own, for what a process alone has: signals, pipes, a fresh environment."""
    return call_in_new_process
