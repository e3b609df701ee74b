"""What a file's name says of its task, and D4RL's files: no costs, often no next observations."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from lspc.data import Dataset, load, read_metadata, save
from lspc.data.formats.sources import guess_task
from lspc.errors import UserError
from lspc.tasks import Task, all_tasks

D4RL = ("observations", "actions", "rewards", "terminals", "timeouts")


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_the_names_that_dsrl_gives_are_known(task: Task) -> None:
    for name in (task.dataset_file, f"{task.gym_id}.hdf5", f"{task.gym_id}-mine.h5"):
        assert guess_task(Path(name)) == task


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("SafetyCarGoal1Gymnasium-v0-40-1660.hdf5", "CarGoal1"),
        ("SafeMetaDrive-easymean-v0.hdf5", "easymean"),
        ("halfcheetah_medium-v2.hdf5", None),
        ("SafetyCarGoal1.hdf5", None),
        ("BallCircle.hdf5", None),
        ("logs.hdf5", None),
    ],
)
def test_only_a_name_of_dsrl_is_taken(name: str, task: str | None) -> None:
    guessed = guess_task(Path(name))
    assert (guessed.name if guessed else None) == task


def test_the_guess_is_told_and_what_the_file_says_goes_first(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "SafetyBallRun-v0-80-12.hdf5"
    save(dataset, path)
    opened = load(path)
    assert opened.metadata["task"] == read_metadata(path)["task"] == "BallRun"
    assert any("taken as data of BallRun" in line for line in opened.warnings)
    save(dataset, path, metadata={"task": "MyRobot"})
    assert load(path).metadata["task"] == read_metadata(path)["task"] == "MyRobot"
    assert load(path).warnings == ()


@pytest.fixture
def d4rl(dataset: Dataset, tmp_path: Path) -> Path:
    """The dataset as D4RL would have written it."""
    path = tmp_path / "ball_medium-v2.hdf5"
    save(dataset, path)
    with h5py.File(path, "r+") as file:
        del file["costs"], file["next_observations"]
        file["infos/qpos"] = np.zeros((dataset.transitions, 3))
        file["metadata/policy"] = np.zeros(3)
    return path


def test_a_file_of_d4rl_needs_a_cost_and_nothing_else(d4rl: Path, dataset: Dataset) -> None:
    with pytest.raises(UserError, match=r'no column is called cost; add .*--cost "COLUMN > LIMIT"') as refused:
        load(d4rl)
    assert len(str(refused.value).splitlines()) == 1
    opened = load(d4rl, cost="abs(observations_0) > 0.5")
    # The last row of an episode that the clock ended has no row after it.
    kept = ~dataset.truncated | dataset.terminated
    np.testing.assert_array_equal(opened.observations, dataset.observations[kept])
    np.testing.assert_array_equal(opened.costs, np.abs(dataset.observations[kept, 0]) > 0.5)
    inside = ~(opened.terminated | opened.truncated)
    np.testing.assert_array_equal(opened.next_observations[inside], opened.observations[1:][inside[:-1]])
    assert len(opened.episodes) == len(dataset.episodes)
    assert load(d4rl, **opened.opened).fingerprint == opened.fingerprint


def test_a_file_without_costs_alone_says_what_to_say(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "logs.hdf5"
    save(dataset, path)
    with h5py.File(path, "r+") as file:
        del file["costs"]
    with pytest.raises(UserError, match=r'costs is missing; .* or add --cost "observations_0 > LIMIT"'):
        load(path)
    opened = load(path, cost="rewards < 0")
    np.testing.assert_array_equal(opened.costs, dataset.rewards < 0)
    np.testing.assert_array_equal(opened.next_observations, dataset.next_observations)
