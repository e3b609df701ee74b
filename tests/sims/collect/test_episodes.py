"""Which collected episodes are kept, and what rounding does to them."""

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.data import small_dataset

from lspc import data
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.sims.collect.episodes import Recorder, check_finite, choose_episodes, round_numbers
from lspc.tasks import get_task

TASK = get_task("BallRun")


def test_the_recorder_keeps_finished_episodes_one_after_the_other() -> None:
    recorder = Recorder(2)
    for step in range(4):
        for world in range(2):
            now, ends = np.array([10 * world + step]), (world, step) in [(0, 3), (1, 1)]
            recorder.add(world, (now, np.zeros(1), float(step), 0.0, now + 1, False, ends), ends)
    arrays = recorder.arrays()
    assert arrays["observations"].ravel().tolist() == [10, 11, 0, 1, 2, 3]  # rows 12 and 13 end no episode
    assert arrays["timeouts"].tolist() == [False, True, False, False, False, True]
    assert (arrays["rewards"].dtype, arrays["terminals"].dtype) == (np.float32, np.bool_)


@pytest.mark.parametrize("name", ["observations", "rewards"])
def test_what_is_no_number_is_refused_by_name_and_place(name: str) -> None:
    arrays = {
        "observations": np.zeros((5, 3), np.float32),
        "rewards": np.zeros(5, np.float32),
        "timeouts": np.ones(5, bool),
    }
    check_finite(arrays)
    arrays[name][3:] = np.inf
    with pytest.raises(
        UserError, match=f"its {name} hold NaN or infinity, first in transition 3 of 5; nothing of it is"
    ):
        check_finite(arrays)


@pytest.mark.parametrize("cap", [1, 7, 30, 100, 10_000])
def test_the_choice_obeys_the_cap_and_the_largest_cost(cap: int) -> None:
    everything = small_dataset(episodes=400, steps=20)
    task = replace(TASK, cost_max=15, min_npb=1)
    chosen = choose_episodes(everything, task, cap, seed=0)
    assert 1 <= len(chosen.episodes) <= cap
    assert (chosen.cost_returns <= 15).all()
    assert chosen.fingerprint == choose_episodes(everything, task, cap, seed=0).fingerprint
    if cap == 10_000:
        assert len(chosen.episodes) == (everything.cost_returns <= 15).sum()


def test_episodes_below_the_tasks_smallest_return_are_left_out() -> None:
    everything = small_dataset(episodes=40, steps=20)
    middle = float(np.median(everything.returns))
    chosen = choose_episodes(everything, replace(TASK, reward_min=middle, min_npb=1), 1000, seed=0)
    assert chosen.returns.min() >= middle


def test_nothing_worth_keeping_is_told() -> None:
    with pytest.raises(UserError, match=r"none of the 20 collected episodes is worth keeping.*more steps"):
        choose_episodes(small_dataset(), replace(TASK, cost_max=-1), 10, seed=0)


def test_rounding_keeps_eleven_bits_and_halves_the_file(dataset: Dataset) -> None:
    short = round_numbers(dataset)
    for name in data.FIELDS:
        before, after = getattr(dataset, name), getattr(short, name)
        assert after.dtype == before.dtype
        if before.dtype == np.bool_:
            np.testing.assert_array_equal(before, after)
            continue
        assert not (after.view(np.uint32) & np.uint32(2**12 - 1)).any()
        assert (np.abs(after - before) <= np.abs(before) * 2.0**-12).all()
    np.testing.assert_array_equal(short.costs, dataset.costs)
    assert (np.abs(short.actions) <= 1).all()
    packed = [len(zlib.compress(shuffled(d.observations))) for d in (dataset, short)]
    assert packed[1] < 0.65 * packed[0]
    twice = round_numbers(short)
    assert twice.fingerprint == short.fingerprint


def shuffled(array: np.ndarray) -> bytes:
    """Bytes of equal rank side by side, as HDF5's shuffle filter lays them."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(-1, 4).T.tobytes()


def test_rounded_data_still_continue_from_row_to_row(dataset: Dataset, tmp_path: Path) -> None:
    data.save(round_numbers(dataset), tmp_path / "a.hdf5")
    assert data.load(tmp_path / "a.hdf5").warnings == ()
