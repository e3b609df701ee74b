"""A dataset cuts episodes, sums returns and fingerprints content; every expected number is worked by hand."""

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from lspc.data import Dataset
from lspc.errors import UserError


def hand_made(**changes: Any) -> Dataset:
    """Three episodes of 3, 1 and 2 rows, ended by the task, by the clock and by both."""
    observations = np.arange(12, dtype=np.float32).reshape(6, 2)
    arrays: dict[str, Any] = {
        "observations": observations,
        "actions": np.full((6, 1), 0.5),
        "rewards": [1, 2, 3, 10, -1, -2],
        "costs": [0, 1, 1, 0, 5, 0.5],
        "next_observations": observations + 2,
        "terminated": [0, 0, 1, 0, 0, 1],
        "truncated": [0, 0, 0, 1, 0, 1],
    }
    return Dataset(**(arrays | changes))


def test_episodes_and_returns_by_hand() -> None:
    dataset = hand_made()
    assert dataset.episodes == [slice(0, 3), slice(3, 4), slice(4, 6)]
    assert dataset.returns.tolist() == [6, 10, -3]
    assert dataset.cost_returns.tolist() == [2, 0, 5.5]
    assert dataset.lengths.tolist() == [3, 1, 2]
    assert dataset.initial_observations.tolist() == [[0, 1], [6, 7], [8, 9]]
    assert (dataset.transitions, dataset.observation_dim, dataset.action_dim) == (6, 2, 1)


def test_arrays_have_their_types_and_cannot_change() -> None:
    mine = np.zeros(6, dtype=np.float32)
    dataset = hand_made(rewards=mine)
    assert dataset.costs.dtype == np.float32
    assert dataset.terminated.dtype == np.bool_
    with pytest.raises(ValueError, match="read-only"):
        dataset.rewards[0] = 1
    with pytest.raises(FrozenInstanceError):
        dataset.rewards = mine  # pyrefly: ignore [read-only]
    mine[0] = 1  # the caller's own array stays the caller's


def test_statistics_by_hand() -> None:
    observations = np.zeros((6, 3))
    observations[:, 0] = [0, 0, 0, 2, 2, 2]
    observations[:, 1] = [0, 0, 0, 2e-4, 2e-4, 2e-4]
    observations[:, 2] = 7
    statistics = hand_made(observations=observations, next_observations=observations).statistics
    assert statistics.observation_mean == pytest.approx([1, 1e-4, 7])
    assert statistics.observation_std == pytest.approx([1, 1e-3, 1])  # as it is; floored; never varies
    assert statistics.observation_std.dtype == np.float32
    assert (statistics.return_min, statistics.return_max) == (-3, 10)
    assert (statistics.cost_return_max, statistics.episode_length_mean) == (5.5, 2)


def test_fingerprint_is_of_the_content_alone() -> None:
    original = hand_made()
    as_double = hand_made(rewards=original.rewards.astype(np.float64), source="elsewhere", warnings=("one",))
    assert as_double.fingerprint == original.fingerprint
    fortran = hand_made(observations=np.asfortranarray(original.observations))
    assert fortran.fingerprint == original.fingerprint


@pytest.mark.parametrize("field", ["observations", "actions", "rewards", "costs", "next_observations"])
def test_fingerprint_notices_one_changed_value(field: str) -> None:
    original = hand_made()
    changed = np.array(getattr(original, field))
    changed[-1] += 1e-3
    assert hand_made(**{field: changed}).fingerprint != original.fingerprint


def test_fingerprint_tells_terminated_from_truncated() -> None:
    original = hand_made()
    swapped = hand_made(terminated=original.truncated, truncated=original.terminated)
    assert swapped.fingerprint != original.fingerprint


def test_select_takes_whole_episodes_in_the_order_given() -> None:
    chosen = hand_made(warnings=("kept",)).select([2, 0])
    assert chosen.rewards.tolist() == [-1, -2, 1, 2, 3]
    assert chosen.returns.tolist() == [-3, 6]
    assert chosen.warnings == ("kept",)
    everything = hand_made().select(np.arange(3))
    assert everything.fingerprint == hand_made().fingerprint


@pytest.mark.parametrize("indices", [[], [3], [-1]])
def test_select_refuses_episodes_that_are_not_there(indices: list[int]) -> None:
    with pytest.raises(UserError, match="episode"):
        hand_made().select(indices)


def test_within_includes_the_budget_itself() -> None:
    assert hand_made().within(2).returns.tolist() == [6, 10]
    assert hand_made().within(1.9).returns.tolist() == [10]
    with pytest.raises(UserError, match="the cheapest costs 0"):
        hand_made().within(-1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": np.zeros(5)}, "rewards has 5 rows but observations has 6"),
        ({"rewards": np.zeros((6, 1))}, r"rewards has shape \(6, 1\)"),
        ({"actions": np.zeros(6)}, r"actions has shape \(6,\)"),
        ({"next_observations": np.zeros((6, 3))}, "next_observations has 3 columns but observations has 2"),
        ({"terminated": np.zeros(6), "truncated": np.zeros(6)}, "the last row ends no episode"),
    ],
)
def test_wrong_shapes_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        hand_made(**changes)


def test_no_transitions_are_refused() -> None:
    empty: Any = np.zeros((0, 2))
    none: Any = np.zeros(0)
    with pytest.raises(UserError, match="no transitions"):
        Dataset(empty, empty, none, none, empty, none, none)


def test_held_out_episodes_are_of_all_costs_alike_and_always_the_same() -> None:
    costs = np.random.default_rng(0).permutation(40).astype(np.float32)
    zeros = np.zeros((40, 1), np.float32)
    data = Dataset(zeros, zeros, zeros[:, 0], costs, zeros, np.zeros(40, bool), np.ones(40, bool))
    held = data.hold_out(0.25)
    assert len(held) == 10
    assert sorted(costs[held] // 4) == list(range(10))
    np.testing.assert_array_equal(held, data.hold_out(0.25))
    assert len(data.hold_out(0.0)) == 0
    for share in (-0.1, 0.6, float("nan")):
        with pytest.raises(UserError, match=r"--hold-out must be from 0 to 0\.5"):
            data.hold_out(share)
