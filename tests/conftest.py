"""What several test files share: a small dataset shaped like BallRun's, and the command line as a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lspc.data import Dataset, save

# A shell that runs the tests in the background makes them, and every program they start, deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

LSPC = [sys.executable, "-m", "lspc.cli"]
Cli = Callable[..., subprocess.CompletedProcess[str]]


def small_dataset(seed: int = 0, episodes: int = 20, steps: int = 50) -> Dataset:
    """Random transitions of BallRun's sizes; the episodes' costs run from 0 to `steps`."""
    rng = np.random.default_rng(seed)
    rows = episodes * steps
    path = rng.normal(size=(episodes, steps + 1, 7)).astype(np.float32)
    truncated = np.zeros(rows, bool)
    truncated[steps - 1 :: steps] = True
    return Dataset(
        observations=path[:, :-1].reshape(rows, 7),
        actions=rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        rewards=(3 + rng.normal(size=rows)).astype(np.float32),
        costs=(rng.random(rows) < np.repeat(np.linspace(0, 1, episodes), steps)).astype(np.float32),
        next_observations=path[:, 1:].reshape(rows, 7),
        terminated=np.zeros(rows, bool),
        truncated=truncated,
    )


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
