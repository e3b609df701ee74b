"""The library and the command line are one: the same file gives the same settings, whichever trains."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from helpers.data import small_dataset

import lspc
from lspc import api, cli, data
from lspc.algos import METHODS
from lspc.data import Dataset
from lspc.data.validate import check_built
from lspc.errors import UserError
from lspc.runs import Run
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

    def train_runs(
        dataset: data.Dataset, runs: dict[Path, Resolved], *, method: str, seeds: Any, task: Any, **_: Any
    ) -> None:
        requests.extend((run, task) for run in runs.values())
        for planned, _ in loop.plan_runs(dataset, runs, method=method, seeds=seeds, task=task)[0]:
            planned.claim()

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


def test_the_tasks_budget_is_what_methods_with_one_get(
    car_file: Path, tmp_path: Path, asked: list[tuple[Any, Any]]
) -> None:
    lspc.train(lspc.load_dataset(car_file), tmp_path / "a", algo="cpq")
    lspc.train(lspc.load_dataset(car_file).within(100), tmp_path / "b", algo="cpq")
    lspc.train(lspc.load_dataset(car_file), tmp_path / "c", algo="cpq", task=None)
    lspc.train(lspc.load_dataset(car_file), tmp_path / "d", algo="cpq", budget=5)
    assert [run.config.budget for run, _ in asked] == [20, 20, 10, 5]
    assert [task for _, task in asked] == [TASK, TASK, None, TASK]
    assert asked[0][0].provenance == {"budget": "task CarGoal1"}


def test_both_can_be_told_that_there_is_no_task(car_file: Path, tmp_path: Path, asked: list[tuple[Any, Any]]) -> None:
    cli.main(["train", "--data", str(car_file), "--algo", "cpq", "--task", "None", "--out", str(tmp_path / "a")])
    lspc.train(lspc.load_dataset(car_file), tmp_path / "b", algo="cpq", task=None)
    assert asked[0] == asked[1]
    assert asked[0][1] is None


def test_dir_shows_the_names_that_matter_and_each_is_documented() -> None:
    names = dir(lspc)
    assert sorted(names) == sorted(lspc.__all__)
    assert {"fit", "train", "load_policy", "load_dataset", "calibrate", "export"} <= set(names)
    assert len(names) <= 13
    for name in set(names) - {"__version__"}:
        found = getattr(lspc, name)
        assert found.__doc__, name
        if inspect.isfunction(found):
            signature = inspect.signature(found)
            assert signature.return_annotation is not inspect.Signature.empty, name
            assert all(each.annotation is not each.empty for each in signature.parameters.values()), name
    with pytest.raises(AttributeError, match="module 'lspc' has no attribute 'fitt'"):
        _ = lspc.fitt


def test_a_path_and_a_budget_are_enough_to_train(
    car_file: Path, tmp_path: Path, asked: list[tuple[Any, Any]]
) -> None:
    lspc.train(car_file, tmp_path / "a", algo="cpq", budget=7, task=None)
    assert asked[0][0].config.budget == 7
    with pytest.raises(lspc.UserError, match="a budget must be a number of 0 or more, not -1"):
        lspc.train(car_file, tmp_path / "b", budget=-1)


def test_what_was_trained_for_a_budget_is_judged_by_it(data_file: Path, tmp_path: Path) -> None:
    heard: list[int] = []
    small: dict[str, Any] = {"hidden": (8, 8), "batch_size": 32, "steps": 2}
    run = lspc.train(
        data_file, tmp_path / "run", algo="bc", budget=7, on_progress=lambda now: heard.append(now.step), **small
    )
    assert heard == [2]
    assert Run.open(run).budgets(None) == (7,)


@pytest.mark.parametrize(
    ("field", "change", "told"),
    [
        (
            "observations",
            lambda values: np.where(values > 2, np.nan, values),
            r"observations is nan at row \d+, column",
        ),
        ("costs", lambda values: -values - 1, "a cost must be 0 or more"),
        ("actions", np.round, "actions look discrete: 3 values"),
    ],
)
def test_data_that_were_built_by_hand_are_looked_at_before_anything_is_learned(
    field: str, change: Any, told: str, tmp_path: Path
) -> None:
    sound = small_dataset()
    built = replace(sound, **{field: change(getattr(sound, field))})
    for learn in (lspc.train, lambda data, out: lspc.fit(data, 10, out)):
        with pytest.raises(UserError, match=told) as refused:
            learn(built, tmp_path / "run")
        assert len(str(refused.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()
    assert check_built(replace(sound, opened={"continuous": True}, actions=np.round(sound.actions)))


def test_a_device_that_is_not_there_is_refused_in_one_line(data_file: Path, tmp_path: Path) -> None:
    with pytest.raises(lspc.UserError, match=r"^--device tpu: .*[^\n]$"):
        lspc.train(data_file, tmp_path / "run", device="tpu")
    assert not (tmp_path / "run").exists()


def test_progress_is_a_bar_on_standard_error(
    data_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lspc.train(data_file, tmp_path / "run", algo="bc", progress=True, hidden=(8, 8), batch_size=32, steps=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "training" in err
    assert "100%" in err


def test_fit_warns_of_data_without_any_cost(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.fitting, "fit", MagicMock())
    free = replace(dataset, costs=np.zeros_like(dataset.costs))
    with pytest.warns(UserWarning, match=f"NONE of the {dataset.transitions:,} steps has a cost above 0"):
        lspc.fit(free, 10, tmp_path)
    lspc.fit(free, 10, tmp_path, on_stage=lambda *_: None)  # the command line, which has shown it


def test_calibrate_pilot_and_evaluate_show_a_bar_or_tell_the_caller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell_stages(*_: Any, on_stage: Callable[[str, int, int], None], **__: Any) -> Any:
        on_stage("models", 3, 4)
        return MagicMock()

    def tell_episodes(*_: Any, on_start: Any, on_episode: Any, **__: Any) -> Any:
        on_start("LSPC-O", 7)
        on_episode()
        return {"task": []}

    monkeypatch.setattr(api, "calibrate_run", tell_stages)
    monkeypatch.setattr(api, "run_pilot", tell_stages)
    monkeypatch.setattr(api.evaluation, "evaluate_runs", tell_episodes)
    lspc.calibrate("run", progress=True)
    lspc.pilot("run", 10, progress=True)
    lspc.evaluate("run", progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert all(told in err for told in ("calibrating", "pilot", "75%", "evaluating", "1/7"))
    heard: list[tuple[str, int, int]] = []
    lspc.calibrate("run", on_stage=lambda what, done, total: heard.append((what, done, total)))
    lspc.pilot("run", 10)
    assert heard == [("models", 3, 4)]
    assert capsys.readouterr().err == ""
