"""Data larger than memory: what is learned, inspected and calibrated is bit for bit what memory gives."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.data import little_memory, small_dataset
from helpers.methods import small

import lspc
from lspc import algos, batches, training
from lspc.calibration import dynamics, fitted_q
from lspc.calibration.families import LspcFamily
from lspc.data import Dataset, load, mapped
from lspc.errors import UserError
from lspc.policy import load_policy

DATASET = small_dataset(episodes=12, steps=10)
STREAMED = [method for method in algos.METHODS if method != "cdt"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same data in each form that can be streamed."""
    folder = tmp_path_factory.mktemp("logs")
    found = {"hdf5": folder / "log.hdf5", "parquet": folder / "log.parquet"}
    for path in found.values():
        lspc.save_dataset(DATASET, path)
    return found


@pytest.fixture(scope="module", params=["hdf5", "parquet"])
def streamed(request: pytest.FixtureRequest, logs: dict[str, Path]) -> Iterator[Dataset]:
    with little_memory():
        yield load(logs[request.param])


def train(dataset: Dataset, out: Path, method: str, **changes: Any) -> dict[str, bytes]:
    """A run's numbers: its policies' weights and its metrics."""
    config = small(algos.get(method), steps=5, **changes)
    run = training.train(dataset, out, config, method=method, seeds=(0, 3))
    found = {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("policy/*/weights*"))}
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return found | {"metrics": json.dumps(metrics).encode()}


@pytest.mark.parametrize("method", STREAMED)
def test_every_method_learns_the_same_from_a_file_as_from_memory(
    method: str, streamed: Dataset, tmp_path: Path
) -> None:
    assert streamed.is_mapped
    assert not DATASET.is_mapped
    assert train(streamed, tmp_path / "streamed", method) == train(DATASET, tmp_path / "memory", method)
