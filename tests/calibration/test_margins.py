"""Margins by hand, and those that episodes driven again ask for."""

import jax.numpy as jnp
import numpy as np
import pytest

from lspc.calibration import margins
from lspc.calibration.closed_loop import Driven
from lspc.calibration.margins import Margin, Replay
from lspc.runs.statistics import Interval


def group(cost: float, predicted: float) -> Replay:
    return Replay(5, cost, predicted, 0.0, 0.0)


def test_the_margin_of_a_cost_by_hand() -> None:
    """In units of 2 a root of 3 instead of 2, beside three that were right: 0.25 on average, and 0.04 in any case."""
    right = [group(8.0, 8.0), group(2.0, 2.0), group(0.0, 0.0)]
    far = [group(128.0, 128.0), group(200.0, 128.0), group(128.0, 200.0), group(128.0, 128.0)]
    found = margins.fit_cost_margin((group(18.0, 8.0), *right, *far), unit=2.0)
    assert (found.share, found.unit, found.spreads) == (0.0, 2.0, 0.25)
    assert [shift for _, shift in found.shifts] == pytest.approx([1.0, 0, 0, 0, 0, 2, -2, 0])
    error = 1.3 * 2 * 0.29 * (2 * 2 + 0.29)
    assert found.around(8.0, 0.0).high == pytest.approx(8.0 + error)
    assert found.around(8.0, 3.0).high == pytest.approx(8.0 + error + 0.25 * 3)
    least = 1.3 * 2 * 0.04 * (2 * 8 + 0.04)  # the groups that are near were right on average
    assert found.around(128.0, 0.0).high == pytest.approx(128.0 + least)
    np.testing.assert_allclose(
        found.error(jnp.asarray([[8.0, 128.0]]), jnp.zeros((1, 2))), [[error, least]], rtol=1e-5
    )


def test_groups_as_near_as_the_fourth_count_too() -> None:
    """Many groups are predicted to cost nothing: all of them speak of a policy that is."""
    groups = (*(group(cost, 0.0) for cost in (0.0, 0.0, 0.0, 0.0, 4.0)), group(99.0, 50.0))
    shift = 2.0 / 5 + 0.04
    assert margins.fit_cost_margin(groups, unit=1.0).around(0.0, 0.0).high == pytest.approx(1.3 * shift**2)


def test_costs_that_were_overrated_ask_for_no_margin() -> None:
    found = margins.fit_cost_margin((group(1.0, 9.0), group(0.0, 4.0)), unit=1.0)
    assert found.around(5.0, 0.0).high == 5.0


def test_a_margin_of_an_older_calibration_keeps_its_two_spreads() -> None:
    assert Margin(share=0.5, unit=1.0).around(9.0, 2.0) == Interval(9.0, 0.0, 18.0)


def test_the_spread_is_of_members_and_of_starts() -> None:
    """By hand: members 1 and 3 on average, variance 2; starts 1, 2 and 3, variance 1 for a mean of three."""
    values = np.array([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]])
    assert margins.measure_spread(values) == pytest.approx(np.sqrt(2 + 1 / 3))
    assert margins.measure_spread(values[:, :1]) == pytest.approx(np.sqrt(2))
    assert margins.measure_spread(np.ones((3, 5))) == 0.0


def driven(predicted: np.ndarray, true: np.ndarray, scale: float = 1.0) -> Driven:
    """Costs of episodes, driven twice, one above the prediction and one below; each earned its cost less 10."""
    twice = np.stack([predicted - 1.0, predicted + 1.0], axis=1)
    return Driven(
        np.arange(len(true)), np.stack([twice - 10, twice], axis=-1), np.stack([true - 10, true], axis=-1),
        np.full(len(true), scale), np.arange(len(true), dtype=float), np.zeros(len(true)),
    )  # fmt: skip


def test_episodes_are_grouped_by_what_was_predicted_of_them() -> None:
    predicted = np.random.default_rng(0).permutation(40).astype(float) + 5
    replays, cost, reward = margins.measure_margins(driven(predicted, predicted + 2.0, scale=2.0), 1.0, members=4)
    assert [replay.episodes for replay in replays] == [4] * margins.GROUPS
    assert [replay.predicted_cost for replay in replays] == [13.0 + 8 * i for i in range(10)]
    assert [replay.cost for replay in replays] == [17.0 + 8 * i for i in range(10)]
    assert cost.shifts[0] == pytest.approx((np.sqrt(13), np.sqrt(17) - np.sqrt(13)))
    assert reward.share > 0
    assert reward.spreads == pytest.approx(2.3534, abs=1e-4)


def test_a_short_record_counts_by_its_steps() -> None:
    """Nine of ten steps cost 1 and 0 was predicted, one of ten the other way round: the rate is 9 in 10, not 5."""
    short = driven(np.array([0.0, 1.0]), np.array([9.0, 0.0]))._replace(scale=np.array([10 / 9, 10.0]))
    found = margins._replay_group(short.predicted.mean(axis=1), short.true, short.scale)
    assert found.cost == pytest.approx(9.0)
    assert found.predicted_cost == pytest.approx(1.0)


def test_the_reach_is_that_of_the_episodes_that_were_left_out() -> None:
    left_out = driven(np.zeros(5), np.zeros(5))
    assert margins.measure_reach(left_out) == 2.0 * margins.REACH
    assert margins.measure_reach(left_out._replace(driven_out=np.full(5, 9.0))) == 9.0 * margins.REACH


def test_the_data_know_of_costs_as_high_as_their_costliest_episodes() -> None:
    """The mean of one in five, of ten at least; a single step's cost is always known."""
    assert margins.measure_shown(np.arange(100.0), 1.0) == pytest.approx(89.5)
    assert margins.measure_shown(np.arange(20.0), 1.0) == pytest.approx(14.5)
    assert margins.measure_shown(np.array([9.0] + [0.0] * 39), 1.0) == 1.0


def doubt(predicted: np.ndarray, true: np.ndarray) -> str:
    """Of models that predict these costs each of four times, `predicted` having a row for each time."""
    values = np.stack([np.zeros_like(predicted), predicted], axis=-1).swapaxes(0, 1)
    episodes = np.arange(len(true))
    none = np.zeros(len(true))
    return margins.find_doubt(
        Driven(episodes, values, np.stack([none, true], axis=-1), np.ones(len(true)), none, none)
    )


def test_models_that_cannot_tell_cheap_episodes_from_costly_ones_are_not_relied_on() -> None:
    """True costs follow the predicted ones, do not, or are foreseen but for their size."""
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(10.0), 10)
    assert doubt(np.tile(true, (4, 1)) + rng.normal(size=(4, 100)), true) == ""
    assert doubt(np.tile(3.0 * true, (4, 1)), true) == ""  # too high, but in order
    assert doubt(np.tile(30.0 * true, (4, 1)), rng.poisson(9.0, 100).astype(float)) == margins.CANNOT_TELL
    assert doubt(np.tile(rng.permutation(true), (4, 1)), true) == margins.CANNOT_TELL
    assert doubt(np.zeros((4, 100)), true) == margins.CANNOT_TELL  # nothing costs anything, they say


def test_where_nothing_costs_there_is_nothing_to_tell() -> None:
    predicted, true = np.zeros((4, 100)), np.zeros(100)
    assert doubt(predicted, true) == ""
    true[: margins.FEWEST_COSTLY - 1] = 5.0
    assert doubt(predicted, true) == ""
    true[: margins.FEWEST_COSTLY] = 5.0
    assert doubt(predicted, true) == margins.CANNOT_TELL


def test_models_that_know_nothing_are_seldom_believed() -> None:
    """Rankings by chance pass in about one case in a hundred."""
    rng = np.random.default_rng(1)
    believed = [doubt(rng.poisson(5.0, (4, 100)).astype(float), rng.poisson(5.0, 100).astype(float)) == ""
                for _ in range(400)]  # fmt: skip
    assert 0 < np.mean(believed) < 0.03
