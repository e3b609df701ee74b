"""What a file says of its data travels with the dataset, cannot be changed there, and never spoils the data."""

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from helpers.data import small_dataset

from lspc.data import Dataset, load, read_metadata, save
from lspc.errors import UserError

SUFFIXES = [".hdf5", ".h5", ".npz", ".parquet"]
NOTES = {"task": "BallRun", "seed": 3, "share": 0.25}


@pytest.fixture
def noted(dataset: Dataset) -> Dataset:
    return replace(dataset, metadata=NOTES)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_metadata_travel_through_files_and_are_no_extra_array(noted: Dataset, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    save(noted, path)
    assert load(path).metadata == read_metadata(path) == NOTES
    assert load(path).warnings == ()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_metadata_that_are_given_to_save_replace_the_datasets(noted: Dataset, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    for given in ({"task": "CarRun"}, {}):
        save(noted, path, given)
        assert load(path).metadata == read_metadata(path) == given
    assert noted.metadata == NOTES


def test_metadata_survive_a_round_through_every_format(noted: Dataset, tmp_path: Path) -> None:
    current = noted
    for name in ("a.hdf5", "b.npz", "c.parquet", "d.h5"):
        save(current, tmp_path / name)
        current = load(tmp_path / name)
    assert current.metadata == NOTES
    assert [type(current.metadata[name]) for name in ("task", "seed", "share")] == [str, int, float]


def test_what_is_derived_keeps_the_metadata(noted: Dataset) -> None:
    assert noted.select([1, 0]).metadata == noted.within(20).metadata == NOTES
    assert replace(noted, source="elsewhere").metadata == NOTES
    assert small_dataset().metadata == {}


def test_metadata_are_no_part_of_the_fingerprint(noted: Dataset, dataset: Dataset) -> None:
    assert noted.fingerprint == dataset.fingerprint


def test_metadata_cannot_be_changed(dataset: Dataset) -> None:
    mine: dict[str, Any] = {"task": "BallRun"}
    noted: Any = replace(dataset, metadata=mine)
    with pytest.raises(TypeError, match="does not support item assignment"):
        noted.metadata["task"] = "CarRun"
    mine["task"] = "CarRun"  # the caller's own stay the caller's
    assert noted.metadata == {"task": "BallRun"}


def test_a_dataset_can_be_copied_and_sent_to_another_process(noted: Dataset) -> None:
    for twin in (copy.deepcopy(noted), pickle.loads(pickle.dumps(noted))):  # noqa: S301 (our own bytes)
        assert (twin.metadata, twin.fingerprint) == (NOTES, noted.fingerprint)


def test_attributes_of_foreign_hdf5_files_become_texts_and_numbers(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    save(dataset, path)
    with h5py.File(path, "a") as file:
        file.attrs["fixed"] = np.bytes_("BallRun")
        file.attrs["count"] = np.uint8(7)
        file.attrs["array"] = np.arange(3)
        file.attrs["empty"] = h5py.Empty("f")
    found = load(path)
    assert found.metadata == {"fixed": "BallRun", "count": 7}
    save(found, tmp_path / "b.npz")
    assert load(tmp_path / "b.npz").metadata == found.metadata


@pytest.mark.parametrize("entry", [np.array(5), np.array("no JSON"), np.array(json.dumps(["a", "list"]))])
def test_damaged_metadata_are_told_and_the_data_stay_usable(dataset: Dataset, tmp_path: Path, entry: Any) -> None:
    path = tmp_path / "a.npz"
    save(dataset, path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, allow_pickle=False, **arrays, metadata=entry)
    found = load(path)
    assert found.fingerprint == dataset.fingerprint
    assert found.metadata == {}
    (warning,) = found.warnings
    assert "a.npz: its metadata cannot be read" in warning
    with pytest.raises(UserError, match="its metadata cannot be read"):
        read_metadata(path)


def test_metadata_of_a_bad_file_are_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "a.hdf5").write_text("no")
    with pytest.raises(UserError, match="metadata cannot be read"):
        read_metadata(tmp_path / "a.hdf5")
    with pytest.raises(UserError, match=r"unknown file type '.txt'"):
        read_metadata(tmp_path / "a.txt")
