"""Minari's folders, as Minari 0.5.4 wrote them (made_by.txt beside them), and what is wrong with broken ones."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from lspc.data import Dataset, examine, load, read_metadata, save
from lspc.errors import UserError

SAMPLES = Path(__file__).parents[1] / "samples" / "minari"
PLANT = SAMPLES / "plant"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PLANT / "tank-hdf5-v0", tmp_path / "tank"))


def refuse(folder: Path) -> str:
    with pytest.raises(UserError) as refused:
        load(folder)
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


@pytest.mark.parametrize("storage", ["hdf5", "arrow", "parquet"])
def test_every_storage_gives_what_happened(storage: str) -> None:
    dataset = load(PLANT / f"tank-{storage}-v0")
    assert dataset.fingerprint == load(PLANT / "tank-parquet-v0").fingerprint
    assert len(dataset.episodes) == 2
    np.testing.assert_array_equal(dataset.initial_observations, [[45, 1], [45, 1]])
    moved = dataset.next_observations[:, 0] - dataset.observations[:, 0]
    np.testing.assert_allclose(moved, dataset.actions[:, 0] / 20 - 1, atol=1e-5)
    np.testing.assert_allclose(dataset.rewards, dataset.actions[:, 0] / 100, atol=1e-6)
    # The cost of a step is in the info that came with it, not in the one before.
    np.testing.assert_array_equal(dataset.costs, dataset.next_observations[:, 0] > 50)
    assert dataset.costs.any()
    assert not dataset.costs.all()
    np.testing.assert_array_equal(dataset.terminated, dataset.next_observations[:, 0] > 60)
    assert str(dataset.action_bounds) == "[0, 100]"
    assert dataset.warnings == ()
    assert load(PLANT / f"tank-{storage}-v0", **dataset.opened).fingerprint == dataset.fingerprint


def test_observations_in_parts_are_put_side_by_side() -> None:
    together, apart = load(PLANT / "tank-parquet-v0"), load(PLANT / "dict-parquet-v0")
    named = [name.removeprefix("observations_") for name in apart.opened["columns"]["observations"]]
    assert named == ["rest_0", "temp_0"] or named == ["temp_0", "rest_0"]
    order = [named.index("temp_0"), named.index("rest_0")]
    np.testing.assert_array_equal(apart.observations[:, order], together.observations)


def test_a_cost_that_is_not_recorded_is_said() -> None:
    bare = PLANT / "bare-parquet-v0"
    assert 'add --columns cost=COLUMN, or --cost "COLUMN > LIMIT"' in refuse(bare)
    dataset = load(bare, cost="next_observations_0 > 50")
    assert dataset.fingerprint == load(PLANT / "tank-parquet-v0").fingerprint


def test_the_user_speaks_first() -> None:
    dataset = load(PLANT / "tank-hdf5-v0", columns=["observations=observations_0"], cost="rewards > 0.5")
    assert dataset.observation_dim == 1
    np.testing.assert_array_equal(dataset.costs, dataset.rewards > 0.5)


def test_discrete_actions_are_refused_by_name() -> None:
    assert "its actions are Discrete" in refuse(PLANT / "switch-parquet-v0")


def test_the_environment_is_the_task(copied: Path) -> None:
    assert "task" not in load(copied).metadata
    description = copied / "data" / "metadata.json"
    told = json.loads(description.read_text(encoding="utf-8"))
    told["env_spec"] = json.dumps({"id": "OfflineBallCircle-v0"})
    description.write_text(json.dumps(told), encoding="utf-8")
    assert load(copied).metadata["task"] == "OfflineBallCircle-v0"
    assert read_metadata(copied) == load(copied).metadata


def test_an_old_one_describes_itself_within_the_file(copied: Path) -> None:
    description = copied / "data" / "metadata.json"
    told = json.loads(description.read_text(encoding="utf-8"))
    with h5py.File(copied / "data" / "main_data.hdf5", "r+") as file:
        file.attrs.update({name: told[name] for name in ("action_space", "observation_space")})
    description.unlink()
    assert str(load(copied).action_bounds) == "[0, 100]"


def open_broken(copied: Path, kind: str) -> tuple[Dataset | None, str]:
    main = copied / "data" / "main_data.hdf5"
    if kind == "cut":
        main.write_bytes(main.read_bytes()[:20_000])
    elif kind == "description":
        (copied / "data" / "metadata.json").write_text("{", encoding="utf-8")
    else:
        with h5py.File(main, "r+") as file:
            if kind == "rewards":
                del file["episode_1/rewards"]
            elif kind == "short":
                actions = np.asarray(file["episode_1/actions"])[:-2]
                del file["episode_1/actions"]
                file["episode_1/actions"] = actions
            elif kind == "link":
                del file["episode_0/infos/cost"]
                file["episode_0/infos/cost"] = h5py.ExternalLink("other.hdf5", "cost")
            elif kind == "empty":
                del file["episode_0"], file["episode_1"]
    dataset, problems = examine(copied)
    return dataset, "\n".join(problem.message for problem in problems if problem.severity == "fatal")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("cut", "damaged or cut off"),
        ("description", "damaged or cut off"),
        ("rewards", "episode 1 has no rewards"),
        ("short", "actions of episode 1 has"),
        ("link", "episode_0/infos/cost is a link to somewhere else"),
        ("empty", "holds no episode"),
    ],
)
def test_a_broken_folder_is_refused(copied: Path, kind: str, told: str) -> None:
    dataset, message = open_broken(copied, kind)
    assert dataset is None
    assert told in message


def test_a_folder_of_tables_may_hold_a_file_of_that_name(tmp_path: Path, dataset: Dataset) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "metadata.json").write_text("{", encoding="utf-8")
    save(dataset, tmp_path / "data" / "log.parquet")
    assert load(tmp_path).fingerprint == dataset.fingerprint


@pytest.mark.parametrize("storage", ["arrow", "parquet"])
@pytest.mark.parametrize("kind", ["gone", "cut", "columns"])
def test_broken_episodes_are_refused(tmp_path: Path, storage: str, kind: str) -> None:
    folder = Path(shutil.copytree(PLANT / f"tank-{storage}-v0", tmp_path / "tank"))
    part = folder / "data" / "1" / f"part-0.{storage}"
    if kind == "gone":
        part.unlink()
        assert "episode 1 is not there" in refuse(folder)
    elif kind == "cut":
        part.write_bytes(part.read_bytes()[:700])
        assert "damaged or cut off" in refuse(folder)
    else:
        shutil.copy(PLANT / "dict-parquet-v0" / "data" / "1" / "part-0.parquet", part.with_suffix(".parquet"))
        if storage == "arrow":
            part.unlink()
        assert "observations" in refuse(folder)


def test_an_info_that_one_episode_lacks_is_no_column(copied: Path) -> None:
    with h5py.File(copied / "data" / "main_data.hdf5", "r+") as file:
        del file["episode_1/infos/cost"]
    assert "no column is called cost" in refuse(copied)
