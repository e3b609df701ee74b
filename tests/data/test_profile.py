"""What inspecting finds beyond the numbers: shapes of columns, copies, costs among the observations."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import Cli

from lspc.data import Dataset, profile, save
from lspc.report import terminal


def leaking(dataset: Dataset, column: np.ndarray) -> Dataset:
    """The dataset with one more observation."""
    ends = dataset.terminated | dataset.truncated
    then = np.where(ends, column, np.roll(column, -1))
    return replace(
        dataset, observations=np.column_stack([dataset.observations, column]),
        next_observations=np.column_stack([dataset.next_observations, then]),
    )  # fmt: skip


def leaks(dataset: Dataset) -> list[str]:
    return [line for line in profile(dataset, (10,))["problems"] if "cost of its own row" in line]


def test_a_histogram_counts_every_value(dataset: Dataset) -> None:
    for column, values in zip(profile(dataset, (10,))["columns"], dataset.observations.T, strict=False):
        edges = np.linspace(values.min(), values.max(), 13, dtype=np.float64)
        counted = [int(((values >= low) & (values < high)).sum()) for low, high in pairwise(edges)]
        counted[-1] += int((values == values.max()).sum())
        assert sum(column["histogram"]) == dataset.transitions
        np.testing.assert_allclose(column["histogram"], counted, atol=1)  # rounding at an edge


def test_a_column_that_never_changes_has_one_bin(dataset: Dataset) -> None:
    column = profile(leaking(dataset, np.full(dataset.transitions, 1e30)), (10,))["columns"][7]
    assert (column["min"], column["max"], column["histogram"]) == (np.float32(1e30), np.float32(1e30), [1000])


def test_a_histogram_is_drawn() -> None:
    drawn = terminal.draw_histogram([0, 1, 50, 100])
    assert len(drawn) == 4
    assert (drawn[0], drawn[-1]) in ((" ", "█"), (" ", "#"))
    assert drawn[1] != " "  # what is rare is still there


def test_episodes_that_are_there_twice_are_counted(dataset: Dataset) -> None:
    told = profile(dataset.select([0, 1, 0, 2, 0]), (10,))
    assert told["duplicate_episodes"] == 2
    assert told["duplicates"] == 2 * dataset.lengths[0]
    assert profile(dataset, (10,))["duplicate_episodes"] == 0


@pytest.mark.parametrize("scale", [1.0, -0.3, 100.0])
def test_a_cost_among_the_observations_is_told(dataset: Dataset, scale: float) -> None:
    assert leaks(dataset) == []
    (line,) = leaks(leaking(dataset, scale * dataset.costs + 2))
    assert "observations_7, an observation" in line


def test_the_cost_of_the_step_before_is_no_leak(dataset: Dataset) -> None:
    assert leaks(leaking(dataset, np.roll(dataset.costs, 1))) == []


def test_a_cost_said_to_be_a_column_is_no_leak() -> None:
    rng = np.random.default_rng(0)
    episode = {"temp": rng.uniform(0, 1, 30), "valve": rng.uniform(-1, 1, 30), "gain": rng.uniform(0, 1, 30)}
    columns = {"observations": "temp", "actions": "valve", "reward": "gain"}
    assert leaks(Dataset.from_episodes([episode], columns=columns, cost="temp * 2")) == []


def test_inspect_shows_the_shape_of_each_column(cli: Cli, dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "logs.hdf5"
    save(leaking(dataset, dataset.costs), path)
    done = cli("inspect", path)
    assert done.returncode == 0, done.stderr
    assert "observations_7, an observation" in " ".join(done.stdout.replace("│", " ").split())
    assert "0 rows, 0 whole episodes" in done.stdout
    assert any(letter in done.stdout for letter in terminal.BARS[1:])
    assert max(map(len, done.stdout.splitlines())) <= 80
