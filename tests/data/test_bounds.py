"""Action bounds: where they come from, what is refused, and that nothing changes for actions in [-1, 1]."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.data import small_dataset

from lspc.data import Bounds, Dataset, load, save
from lspc.errors import UserError

UNIT = small_dataset()


def in_percent(dataset: Dataset = UNIT) -> Dataset:
    """The same actions as 0 to 100; bounds are not told."""
    return replace(dataset, actions=50 * (dataset.actions + 1), source="plant")


def write(path: Path, dataset: Dataset) -> Path:
    save(replace(dataset, action_bounds=Bounds()), path)
    return path


def test_bounds_to_unit_and_back() -> None:
    bounds = Bounds((0, -20, 3), (100, 20, 3))
    plant = np.array([[0, -20, 3], [25, 0, 3], [100, 20, 3]], np.float32)
    unit = np.array([[-1, -1, 0], [-0.5, 0, 0], [1, 1, 0]], np.float32)
    np.testing.assert_array_equal(bounds.to_unit(plant), unit)
    np.testing.assert_array_equal(bounds.to_plant(unit), plant)
    assert bounds.to_plant(np.ones((1, 3), np.float32)).tolist() == [[100, 20, 3]]  # held: it never varied
    assert str(bounds) == "[0, 100] x [-20, 20] x [3, 3]"
    assert str(Bounds((0, 0), (9, 9))) == "[0, 9]"


def test_unit_bounds_leave_actions_as_they_are() -> None:
    bounds = Bounds.of((-1, 1))
    assert bounds.to_unit(UNIT.actions) is UNIT.actions
    assert bounds.to_plant(UNIT.actions) is UNIT.actions
    assert UNIT.scale_actions() is UNIT


@pytest.mark.parametrize(
    ("given", "told"),
    [((0,), "1 number"), ((), "0 number"), ((100, 0), "action 0 are 100 and 0"), ((0, np.inf), "action 0")],
)
def test_what_are_no_bounds_is_refused(given: tuple[float, ...], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Bounds.of(given)


def test_as_many_pairs_as_actions() -> None:
    with pytest.raises(UserError, match="3 pairs of action bounds for actions of size 2"):
        in_percent().bound_actions([(0, 100)] * 3)
    bounds = in_percent().bound_actions([0, 100, -50, 150]).action_bounds
    assert bounds == Bounds.of([(0, 100), (-50, 150)])


def test_units_that_are_not_told_are_taken_from_the_data(tmp_path: Path) -> None:
    plant = in_percent()
    dataset = load(write(tmp_path / "a.npz", plant))
    np.testing.assert_array_equal(dataset.actions, plant.actions)  # nothing is clipped
    least, most = plant.actions.min(axis=0), plant.actions.max(axis=0)
    assert dataset.action_bounds == Bounds(tuple(least.tolist()), tuple(most.tolist()))
    [warning] = dataset.warnings
    assert "outside [-1, 1] in" in warning
    assert "bounds were taken from the data" in warning
    assert "--action-bounds" in warning


def test_given_bounds_that_many_rows_break_are_refused_and_the_first_is_named(tmp_path: Path) -> None:
    plant = in_percent()
    path = write(tmp_path / "a.npz", plant)
    rows = np.flatnonzero((plant.actions > 60).any(axis=1))
    with pytest.raises(
        UserError, match=rf"outside \[0, 60\] in {len(rows)} of 1000 rows, first .* at row {rows[0]};"
    ):
        load(path, action_bounds=(0, 60))
    with pytest.raises(UserError, match=f"at row {rows[0]};"):
        plant.bound_actions((0, 60))


def test_a_few_rows_outside_given_bounds_are_clipped_and_told(tmp_path: Path) -> None:
    actions = in_percent().actions.copy()
    actions[[7, 9], 1] = 130
    plant = replace(in_percent(), actions=actions)
    for dataset in (load(write(tmp_path / "a.npz", plant), action_bounds=(0, 100)), plant.bound_actions((0, 100))):
        assert dataset.actions[7, 1] == dataset.actions[9, 1] == 100
        [warning] = dataset.warnings
        assert "outside [0, 100] in 2 of 1000 rows, first 130 at row 7; they were clipped" in warning


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_a_file_keeps_its_bounds(tmp_path: Path, suffix: str) -> None:
    dataset = in_percent().bound_actions([(0, 100), (-0.3, 120.7)])
    save(dataset, tmp_path / f"a{suffix}")
    opened = load(tmp_path / f"a{suffix}")
    assert opened.action_bounds == dataset.action_bounds
    assert opened.fingerprint == dataset.fingerprint
    assert opened.warnings == ()


def test_bounds_that_were_given_are_given_again(tmp_path: Path) -> None:
    """Else a run's page would warn that its bounds were taken from the data."""
    path = write(tmp_path / "a.npz", in_percent())
    found = load(path, action_bounds=(0, 100))
    again = load(path, **json.loads(json.dumps(dict(found.opened))))
    assert again.warnings == found.warnings == ()
    assert again.action_bounds == found.action_bounds
    assert "action_bounds" not in load(path).opened


def test_metadata_may_be_plain_numbers_and_bad_ones_are_refused(tmp_path: Path) -> None:
    import h5py

    path = write(tmp_path / "a.hdf5", in_percent())
    with h5py.File(path, "a") as file:
        file.attrs["action_low"], file.attrs["action_high"] = 0, 100.0
    assert load(path).action_bounds == Bounds.of([(0, 100), (0, 100)])
    with h5py.File(path, "a") as file:
        file.attrs["action_high"] = "much"
    with pytest.raises(UserError, match="its metadata must hold both action_low and action_high"):
        load(path)


def test_bounds_are_part_of_the_fingerprint_unless_they_are_the_usual_ones() -> None:
    assert UNIT.bound_actions((-1, 1)).fingerprint == UNIT.fingerprint
    assert UNIT.bound_actions((-2, 2)).fingerprint != UNIT.fingerprint
    assert UNIT.bound_actions((-2, 2)).select([0, 1]).action_bounds == Bounds.of([(-2, 2), (-2, 2)])


def test_actions_far_outside_the_bounds_of_a_dataset_in_memory_are_not_learned() -> None:
    with pytest.raises(UserError, match=r"plant: actions lie outside \[-1, 1\] .* give the data their action_bounds"):
        in_percent().scale_actions()
