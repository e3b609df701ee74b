"""`lspc inspect`, and what a bad file does to it and to training."""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers.cli import Cli

from lspc.data import Dataset, save


def test_inspect(cli: Cli, dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "logs.hdf5"
    save(dataset, path, metadata={"task": "BallRun"})
    done = cli("inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    profile = json.loads(done.stdout)
    wanted = "episodes transitions observation_dim action_dim returns costs within_threshold problems"
    assert set(wanted.split()) <= set(profile)
    assert (profile["episodes"], profile["transitions"]) == (20, 1000)
    assert list(profile["within_threshold"]) == ["10", "20", "40"]
    assert profile["problems"] == []
    assert profile["duplicates"] == 0
    assert [column["name"] for column in profile["columns"]][6:] == [
        "observations_6",
        "actions_0",
        "actions_1",
        "rewards",
        "costs",
    ]
    assert list(tmp_path.iterdir()) == [path]  # no picture but the one asked for
    picture = tmp_path / "pictures" / "mine.png"
    told = cli("inspect", path, "--thresholds", "5", "--figure", picture).stdout
    assert "cost within 5" in told
    assert "cost within 10 " not in told
    assert dataset.fingerprint in "".join(re.sub(r"[│\s]", "", told))
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_names_a_task_of_its_own_is_no_fault(cli: Cli, dataset: Dataset, tmp_path: Path) -> None:
    save(dataset, tmp_path / "logs.npz", metadata={"task": "MyRobot"})
    assert cli("inspect", tmp_path / "logs.npz").returncode == 0


def bad_file(folder: Path, kind: str, dataset: Dataset) -> Path:
    path = folder / "bad.hdf5"
    save(dataset, path)
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:3000])
    elif kind == "text":
        path.write_text("time,speed\n0,1\n")
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        with h5py.File(path, "r+") as file:
            if kind in ("missing", "two"):
                del file["costs"]
            if kind in ("nan", "two"):
                values = np.asarray(file["rewards"])
                values[17] = np.nan
                file["rewards"][...] = values
    return path


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("cut", ["not an HDF5 file, or damaged or cut off"]),
        ("text", ["not an HDF5 file, or damaged or cut off"]),
        ("empty", ["the file is empty"]),
        ("missing", ["costs"]),
        ("nan", ["17"]),
        ("two", ["costs", "rewards"]),
    ],
)
def test_a_bad_file_gives_one_line_per_problem(
    cli: Cli, dataset: Dataset, tmp_path: Path, kind: str, told: list[str]
) -> None:
    path = bad_file(tmp_path, kind, dataset)
    done = cli("inspect", path)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == len(told)
    assert all(line.startswith(f"lspc: {path}: ") for line in lines)
    assert all(any(words in line for line in lines) for words in told)
    assert not list(tmp_path.glob("*.png"))


def test_training_on_a_bad_file_leaves_no_run(cli: Cli, dataset: Dataset, tmp_path: Path) -> None:
    done = cli("train", "--data", bad_file(tmp_path, "nan", dataset), "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "rewards" in done.stderr
    assert not (tmp_path / "run").exists()
