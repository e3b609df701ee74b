"""A small dataset shaped like BallRun's."""

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import pytest

from lspc.data import Dataset


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


@contextmanager
def little_memory() -> Generator[None]:
    """Whatever is opened here is larger than memory, as far as lspc knows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LSPC_MEMORY", "0")
        yield
