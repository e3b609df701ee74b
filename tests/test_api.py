"""The library and the command line are one: the same file gives the same settings, whichever trains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data import small_dataset

import lspc
from lspc import cli, data
from lspc.algos import METHODS
from lspc.tasks import get_task
from lspc.training import loop
from lspc.training.settings import Resolved

TASK = get_task("CarGoal1")
"""Its thresholds are 20, 40 and 80, where every method's own budget is 10."""


@pytest.fixture(scope="module")
def car_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of CarGoal1's sizes in a file that names the task."""
    dataset = small_dataset()
    rows = np.random.default_rng(0).normal(size=(dataset.transitions + 1, TASK.observation_dim)).astype(np.float32)
    path = tmp_path_factory.mktemp("car") / "car.hdf5"
    wide = replace(dataset, observations=rows[:-1], next_observations=rows[1:], metadata={"task": TASK.name})
    data.save(wide, path)
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The settings and the task of every run that would be trained, in place of training it."""
    requests: list[tuple[Any, Any]] = []

    def train_runs(dataset: data.Dataset, runs: dict[Path, Resolved], *, task: Any, **_: Any) -> None:
        requests.extend((run, task) for run in runs.values())

    monkeypatch.setattr(loop, "train_runs", train_runs)
    return requests


@pytest.mark.parametrize("name", METHODS)
def test_settings_are_the_same_from_the_command_line_and_from_python(
    name: str, car_file: Path, tmp_path: Path, asked: list[tuple[Any, Any]]
) -> None:
    cli.main(["train", "--data", str(car_file), "--algo", name, "--out", str(tmp_path / "a")])
    lspc.train(lspc.load_dataset(car_file), tmp_path / "b", algo=name)
    by_command, by_python = asked
    assert by_command == by_python
    resolved, task = by_python
    assert task == TASK
    if getattr(resolved.config, "budget", None) is not None:
        assert resolved.config.budget == 20


def test_the_tasks_budget_is_what_methods_with_one_get(car_file: Path, asked: list[tuple[Any, Any]]) -> None:
    lspc.train(lspc.load_dataset(car_file), "out", algo="cpq")
    lspc.train(lspc.load_dataset(car_file).within(100), "out", algo="cpq")
    lspc.train(lspc.load_dataset(car_file), "out", algo="cpq", task=None)
    lspc.train(lspc.load_dataset(car_file), "out", algo="cpq", budget=5)
    assert [run.config.budget for run, _ in asked] == [20, 20, 10, 5]
    assert [task for _, task in asked] == [TASK, TASK, None, TASK]
    assert asked[0][0].provenance == {"budget": "task CarGoal1"}


def test_both_can_be_told_that_there_is_no_task(car_file: Path, asked: list[tuple[Any, Any]]) -> None:
    cli.main(["train", "--data", str(car_file), "--algo", "cpq", "--task", "None"])
    lspc.train(lspc.load_dataset(car_file), "out", algo="cpq", task=None)
    assert asked[0] == asked[1]
    assert asked[0][1] is None
