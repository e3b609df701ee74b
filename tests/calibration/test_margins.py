"""Margins by hand, and those that replayed held-out stretches ask for."""

import numpy as np
import pytest
from helpers.calibrated import SMALL_DYNAMICS
from helpers.data import small_dataset

from lspc.calibration import dynamics, margins
from lspc.calibration.pipeline import split
from lspc.runs.statistics import Interval


def test_the_margin_by_hand() -> None:
    """Errors of 2, 4 and 3 of (8 + 2), (8 + 2) and (6 + 2); four models: Student's quantile is 2.353."""
    found = margins.fit_margin([(10.0, 8.0), (4.0, 8.0), (3.0, 6.0)], unit=2.0, members=4)
    assert (found.share, found.unit, found.spreads) == pytest.approx((0.4, 2.0, 2.3534), abs=1e-4)
    around = found.around(18.0, 1.0)
    assert (around.mean, around.low, around.high) == pytest.approx((18.0, 7.6466, 28.3534), abs=1e-4)
    negative = found.around(-18.0, 1.0)
    assert (negative.mean, negative.low, negative.high) == pytest.approx((-18.0, -28.3534, -7.6466), abs=1e-4)


def test_what_is_known_exactly_has_the_spread_alone_as_its_margin() -> None:
    found = margins.fit_margin([(10.0, 10.0)], unit=1.0, members=1_000_000)
    assert found.share == 0.0
    assert found.around(10.0, 3.0).high == pytest.approx(10 + 3 * 1.6449, abs=1e-3)


def test_a_margin_of_an_older_calibration_keeps_its_two_spreads() -> None:
    assert margins.Margin(share=0.5, unit=1.0).around(9.0, 2.0) == Interval(9.0, 0.0, 18.0)


def test_the_spread_is_of_members_and_of_starts() -> None:
    """By hand: members 1 and 3 on average, variance 2; starts 1, 2 and 3, variance 1 for a mean of three."""
    values = np.array([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]])
    assert margins.measure_spread(values) == pytest.approx(np.sqrt(2 + 1 / 3))
    assert margins.measure_spread(values[:, :1]) == pytest.approx(np.sqrt(2))
    assert margins.measure_spread(np.ones((3, 5))) == 0.0


def test_replayed_stretches_are_grouped_by_what_was_predicted() -> None:
    """Costs and rewards are scaled from a stretch to the whole horizon; nothing is lost on the way."""
    data = small_dataset(episodes=60)
    learned, held_out = split(data, 0)
    models = dynamics.fit(learned, SMALL_DYNAMICS)
    replays, cost, reward = margins.measure_margins(models, held_out, horizon=50)
    predicted, true = dynamics.replay(models, held_out, margins.STRETCH)
    assert sum(replay.stretches for replay in replays) == len(true) == 24
    assert [replay.predicted_cost for replay in replays] == sorted(replay.predicted_cost for replay in replays)
    for place, name in ((0, "reward"), (1, "cost")):
        for values, field in ((true, name), (predicted.mean(0), f"predicted_{name}")):
            weighed = sum(replay.stretches * getattr(replay, field) for replay in replays) / len(true)
            assert weighed == pytest.approx(50 / margins.STRETCH * values[:, place].mean())
    assert (cost.unit, reward.unit > 0) == (1.0, True)
    # The worst group's error whole, however much the models disagree.
    worst = max(abs(replay.cost - replay.predicted_cost) / (replay.predicted_cost + 1) for replay in replays)
    assert cost.share == pytest.approx(worst)
    assert cost.spreads == pytest.approx(6.3138, abs=1e-4)  # two models


def test_data_of_short_episodes_are_replayed_in_short_stretches() -> None:
    learned, held_out = split(small_dataset(episodes=40, steps=6), 0)
    replays, *_ = margins.measure_margins(dynamics.fit(learned, SMALL_DYNAMICS), held_out, horizon=6)
    assert sum(replay.stretches for replay in replays) == 8
    assert np.mean([replay.cost for replay in replays]) == pytest.approx(held_out.cost_returns.mean(), abs=1.0)
