"""Data larger than memory: what is learned, inspected and calibrated is bit for bit what memory gives."""

import json
from functools import cache, partial
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
from lspc.calibration.families import PolicyFamily
from lspc.data import Dataset, load, profile
from lspc.errors import UserError

DATASET = small_dataset(episodes=12, steps=10)
STREAMED = [method for method in algos.METHODS if method != "cdt"]


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """The same data from each form that can be streamed."""
    folder = tmp_path_factory.mktemp("logs")
    for name in ("log.hdf5", "log.parquet"):
        lspc.save_dataset(DATASET, folder / name)
    with little_memory():
        return {name: load(folder / name) for name in ("log.hdf5", "log.parquet")}


def train(
    dataset: Dataset, out: Path, method: str, seeds: tuple[int, ...] = (3,), **changes: Any
) -> dict[str, bytes]:
    """A run's numbers: its policies' weights and its metrics."""
    run = training.train(dataset, out, small(algos.get(method), steps=3, **changes), method=method, seeds=seeds)
    weights = {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("policy/*/weights*"))}
    assert len(weights) == len(seeds)
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return weights | {"metrics": json.dumps(metrics).encode()}


@pytest.mark.slow
@pytest.mark.parametrize("method", STREAMED)
def test_every_method_learns_from_a_file_what_it_learns_from_memory(
    method: str, streamed: dict[str, Dataset], tmp_path: Path
) -> None:
    assert not DATASET.is_mapped
    expected = train(DATASET, tmp_path / "memory", method)
    # Both files hold the same numbers: one of them is enough for all methods but one.
    for name, dataset in list(streamed.items())[: None if method == "bc" else 1]:
        assert dataset.is_mapped
        assert train(dataset, tmp_path / name, method) == expected, name


@pytest.mark.slow
def test_chunks_and_seeds_are_gathered_in_order(
    streamed: dict[str, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("chunk", "loop"):
        monkeypatch.setattr(f"lspc.training.{module}.CHUNK", 2)  # three updates: the second chunk is half full
    training.make_chunk.cache_clear()
    data = {"memory": DATASET, "file": streamed["log.hdf5"]}
    found = [train(dataset, tmp_path / name, "bc", (0, 3)) for name, dataset in data.items()]
    training.make_chunk.cache_clear()
    assert found[0] == found[1]


@pytest.mark.slow
def test_episodes_that_are_left_out_stay_on_disk(streamed: dict[str, Dataset], tmp_path: Path) -> None:
    expected = train(DATASET, tmp_path / "memory", "bc", budget=4.0)
    with little_memory():
        inside = streamed["log.hdf5"].within(4)
        assert inside.is_mapped
        assert inside.fingerprint == DATASET.within(4).fingerprint
        assert train(streamed["log.hdf5"], tmp_path / "file", "bc", budget=4.0) == expected


def test_a_part_that_fits_is_held_in_memory(streamed: dict[str, Dataset]) -> None:
    inside = streamed["log.hdf5"].within(4)
    assert not inside.is_mapped
    assert inside.fingerprint == DATASET.within(4).fingerprint


def test_a_method_that_needs_whole_episodes_says_how_much_memory_they_take(
    streamed: dict[str, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(streamed["log.hdf5"].source)
    needed = 4 * 120 * (4 * (7 + 7 + 2 + 1 + 1) + 2)  # four copies of 120 steps
    told = f"cdt learns from whole episodes, which must fit into memory: these need {needed / 1e9:.3g} GB free"
    with pytest.raises(UserError, match=told) as refused:
        train(streamed["log.hdf5"], tmp_path / "run", "cdt")
    assert len(str(refused.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()
    for gigabytes, is_mapped in ((needed - 1, True), (needed, False)):
        monkeypatch.setenv("LSPC_MEMORY", f"{gigabytes / 1e9:.12f}")
        assert load(path).is_mapped == is_mapped


def test_a_profile_does_not_depend_on_memory(streamed: dict[str, Dataset]) -> None:
    expected = profile(DATASET, (5, 10))
    named = [column.pop("name") for column in expected["columns"]]
    assert len(named) == 11
    for dataset in streamed.values():
        found = profile(dataset, (5, 10))
        for column in found["columns"]:
            column.pop("name")  # a table has names of its own
        assert found == expected


class Still(PolicyFamily):
    """A policy that does nothing, whatever its parameter."""

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def __call__(self, observations: Any, parameters: Any) -> Any:
        return jnp.zeros((*observations.shape[:-1], 2))


@cache
def fit_models(dataset: Dataset) -> list[np.ndarray]:
    settings: dict[str, Any] = {"updates": 3, "members": 2, "batch_size": 8, "hidden": (8,)}
    models = dynamics.fit(dataset, dynamics.Config(**settings), seed=1)
    values = fitted_q.fit(dataset, Still(), fitted_q.Config(**settings), seed=1)
    return [np.asarray(leaf) for leaf in jax.tree.leaves((models, values))]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log.hdf5", "log.parquet"])
def test_calibration_fits_the_same_models(name: str, streamed: dict[str, Dataset]) -> None:
    for found, expected in zip(fit_models(streamed[name]), fit_models(DATASET), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_rows_are_drawn_whole() -> None:
    table = jnp.asarray(DATASET.observations), jnp.asarray(DATASET.rewards), jnp.arange(DATASET.transitions)
    observations, rewards, rows = batches.draw_rows(table, jax.random.key(0), 50)
    np.testing.assert_array_equal(observations, DATASET.observations[rows])
    np.testing.assert_array_equal(rewards, DATASET.rewards[rows])
    assert len(set(rows.tolist())) > 15


def test_a_table_in_memory_is_never_asked_for() -> None:
    source = batches.Source(jnp.arange(5), partial(batches.draw_rows, count=2), (0,), 3)
    assert source.ask(0, 9) is None
