"""Recording: what is in the file is what happened, finished episodes survive anything, other files are left alone."""

import sys
from collections.abc import Generator
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import lspc
from lspc.data import Bounds, load, save
from lspc.errors import UserError
from lspc.sims.record import record

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def tank(monkeypatch: pytest.MonkeyPatch) -> Generator[gymnasium.Env]:
    monkeypatch.syspath_prepend(EXAMPLES)
    from heated_tank import HeatedTank

    yield HeatedTank()
    sys.modules.pop("heated_tank", None)


def drive(env: gymnasium.Env, episodes: int, seed: int = 0) -> list[tuple]:
    """Random valves; what was seen, step by step."""
    rng, seen = np.random.default_rng(seed), []
    for episode in range(episodes):
        before, _ = env.reset(seed=seed + episode)
        done = False
        while not done:
            action = rng.uniform(0, 100, 1).astype(np.float32)
            after, reward, terminated, truncated, info = env.step(action)
            seen.append((before, action, reward, info["cost"], after))
            before, done = after, terminated or truncated
    return seen


def test_a_recording_is_a_dataset_of_what_happened(tank: gymnasium.Env, tmp_path: Path) -> None:
    seen = drive(lspc.record(tank, tmp_path / "log.hdf5"), 3)
    dataset = load(tmp_path / "log.hdf5")
    assert dataset.warnings == ()
    assert dataset.lengths.tolist() == [60, 60, 60]
    assert dataset.action_bounds == Bounds.of([(0, 100)])
    for column, values in zip(("observations", "actions", "rewards", "costs", "next_observations"),
                              zip(*seen, strict=True), strict=True):  # fmt: skip
        np.testing.assert_array_equal(getattr(dataset, column), np.asarray(values, np.float32))
    assert not dataset.terminated.any()
    assert [path.name for path in tmp_path.iterdir()] == ["log.hdf5"]


def test_finished_episodes_are_there_at_once_and_abandoned_ones_never(tank: gymnasium.Env, tmp_path: Path) -> None:
    env = record(tank, tmp_path / "log.hdf5")
    drive(env, 1)
    assert len(load(tmp_path / "log.hdf5").episodes) == 1
    env.reset(seed=9)
    env.step(np.array([20.0], np.float32))  # and nothing more: killed, or reset
    assert load(tmp_path / "log.hdf5").lengths.tolist() == [60]
    drive(env, 1, seed=4)
    assert load(tmp_path / "log.hdf5").lengths.tolist() == [60, 60]
    with pytest.raises(UserError, match="reset the environment before"):
        env.step(np.array([20.0], np.float32))


def test_a_failed_write_leaves_the_file_as_it_was(
    tank: gymnasium.Env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = record(tank, tmp_path / "log.hdf5")
    drive(env, 2)
    before = (tmp_path / "log.hdf5").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("lspc.sims.record._extend", fail)
    with pytest.raises(OSError, match="no space"):
        drive(env, 1)
    assert (tmp_path / "log.hdf5").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["log.hdf5"]


def test_a_later_session_goes_on_with_the_file_whoever_wrote_it(tank: gymnasium.Env, tmp_path: Path) -> None:
    drive(record(tank, tmp_path / "log.hdf5"), 2)
    first = load(tmp_path / "log.hdf5")
    save(first, tmp_path / "saved.hdf5")
    for name in ("log.hdf5", "saved.hdf5"):
        drive(record(tank, tmp_path / name), 1, seed=7)
        both = load(tmp_path / name)
        assert len(both.episodes) == 3
        assert both.select([0, 1]).fingerprint == first.fingerprint


def test_the_cost_may_be_a_function(tank: gymnasium.Env, tmp_path: Path) -> None:
    drive(record(tank, tmp_path / "log.hdf5", cost=lambda before, action, after: max(0.0, after[0] - 60)), 1)
    dataset = load(tmp_path / "log.hdf5")
    np.testing.assert_allclose(dataset.costs, np.maximum(0, dataset.next_observations[:, 0] - 60), rtol=1e-6)


def test_what_cannot_be_recorded_is_refused(tank: gymnasium.Env, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a recording is an HDF5 file"):
        record(tank, tmp_path / "log.csv")
    with pytest.raises(UserError, match="only a Box of numbers can be recorded"):
        record(gymnasium.make("CartPole-v1"), tmp_path / "log.hdf5")
    drive(record(tank, tmp_path / "log.hdf5"), 1)
    with pytest.raises(UserError, match="holds observations of size 2, the environment has 3"):
        record(gymnasium.make("Pendulum-v1"), tmp_path / "log.hdf5")
    tank.action_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    with pytest.raises(UserError, match=r"holds actions within \[0, 100\], the environment's are within \[0, 1\]"):
        record(tank, tmp_path / "log.hdf5")
    env = record(gymnasium.make("Pendulum-v1"), tmp_path / "other.hdf5")
    env.reset(seed=0)
    with pytest.raises(UserError, match="info has no 'cost'"):
        env.step(np.zeros(1, np.float32))
