"""The alarm: by hand, how often it goes off for nothing, and how soon when something has changed."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from helpers.calibrated import HORIZON, made, point

from lspc.calibration.certificate import Certificate
from lspc.calibration.pilot import Claim
from lspc.deploy.alarm import Alarm
from lspc.errors import UserError

LIMIT, BOUND, RATE, RUNS = 10.0, 100.0, 0.05, 400
Draw = Callable[[np.random.Generator, float, tuple[int, ...]], np.ndarray]


def two_point(rng: np.random.Generator, mean: float, shape: tuple[int, ...]) -> np.ndarray:
    return (rng.random(shape) < mean) * 1.0


def beta(rng: np.random.Generator, mean: float, shape: tuple[int, ...]) -> np.ndarray:
    return rng.beta(5 * mean, 5 * (1 - mean), shape)


def heavy_at_the_bound(rng: np.random.Generator, mean: float, shape: tuple[int, ...]) -> np.ndarray:
    rare = rng.random(shape) < mean / 2
    return np.where(rare, 1.0, rng.uniform(0, mean / (1 - mean / 2), shape))


def first_alarm(costs: np.ndarray, rate: float = RATE) -> int | None:
    """The number of episodes after which it went off."""
    alarm = Alarm(LIMIT, BOUND, rate=rate)
    for number, cost in enumerate(costs.tolist(), start=1):
        if alarm.observe(cost) == "alarm":
            return number
    return None


def test_the_money_by_hand() -> None:
    """The first episode has half of the money in six bets, the second a sixth more; the rest waits."""
    alarm, bets = Alarm(LIMIT, BOUND), np.geomspace(0.5, 8.0, 6)
    assert alarm.wealth == 1.0
    alarm.observe(30.0)
    first = np.full(6, 0.5 / 6) * (1 + 0.2 * bets)
    assert alarm.wealth == pytest.approx(first.sum() + 1 / 2)
    alarm.observe(0.0)
    second = (first + 1 / 36) * (1 - 0.1 * bets)
    assert alarm.wealth == pytest.approx(second.sum() + 1 / 3)


def test_money_cannot_be_expected_to_grow_at_the_limit() -> None:
    """Exactly: all sequences of eight all-or-nothing episodes at the limit, each with its chance."""
    expected = 0.0
    for number in range(1 << 8):
        sequence = [(number >> place) & 1 for place in range(8)]
        alarm = Alarm(LIMIT, BOUND, rate=1e-12)
        for each in sequence:
            alarm.observe(BOUND * each)
        expected += math.prod(0.1 if each else 0.9 for each in sequence) * alarm.wealth
    assert expected == pytest.approx(1.0)


@pytest.mark.parametrize("draw", [two_point, beta, heavy_at_the_bound])
def test_false_alarms_are_rare_enough_over_a_whole_life(draw: Draw) -> None:
    """Episodes at the limit exactly, 200 of them, each of which may set it off."""
    costs = BOUND * draw(np.random.default_rng(0), LIMIT / BOUND, (RUNS, 200))
    rate = np.mean([first_alarm(own) is not None for own in costs])
    assert rate <= RATE + 3 * math.sqrt(RATE * (1 - RATE) / RUNS)


@pytest.mark.parametrize(("draw", "episodes"), [(two_point, 60), (beta, 20), (heavy_at_the_bound, 60)])
def test_a_mean_of_three_times_the_limit_is_noticed(draw: Draw, episodes: int) -> None:
    costs = BOUND * draw(np.random.default_rng(1), 0.3, (100, episodes))
    assert np.mean([first_alarm(own) is not None for own in costs]) >= 0.9


def test_a_change_after_a_long_good_time_is_noticed_soon() -> None:
    rng = np.random.default_rng(2)
    good, bad = BOUND * beta(rng, 0.03, (100, 150)), BOUND * beta(rng, 0.3, (100, 40))
    found = [first_alarm(np.concatenate(own)) for own in zip(good, bad, strict=True)]
    assert all(number is None or number > 150 for number in found)
    delays = [(number or math.inf) - 150 for number in found]
    assert np.median(delays) <= 20
    assert np.mean(np.array(delays) <= 40) >= 0.95


def test_once_off_it_stays_off_and_says_why() -> None:
    alarm = Alarm(LIMIT, BOUND)
    while alarm.observe(60.0) == "ok":
        assert (alarm.verdict, alarm.why) == ("ok", "")
    assert "the mean cost is not at most 10 any more" in alarm.why
    assert "cost 60 on average" in alarm.why
    before = alarm.why
    assert [alarm.observe(0.0) for _ in range(50)] == ["alarm"] * 50
    assert (alarm.verdict, alarm.why) == ("alarm", before)


@pytest.mark.parametrize("cost", [100.1, -0.1, math.nan, math.inf])
def test_a_cost_that_cannot_be_is_an_alarm_at_once(cost: float) -> None:
    alarm = Alarm(LIMIT, BOUND)
    assert alarm.observe(cost) == "alarm"
    assert "not between 0 and 100" in alarm.why


def test_a_certificate_sets_the_limit() -> None:
    claim = Claim(10.0, 200.0, "stated", 0.9, "betting")
    certified = Certificate(claim, 0.5, (), (), "here", (), 0, "data", "weights", "0", "lspc pilot")
    alarm = Alarm.of(certified, rate=0.02)
    with pytest.raises(UserError, match="nothing was certified for budget 10"):
        Alarm.of(replace(certified, restriction=None))
    assert (alarm.limit, alarm.bound, alarm.rate) == (10.0, 200.0, 0.02)


@pytest.mark.parametrize(
    ("limit", "bound", "rate"), [(0, 1, 0.1), (2, 1, 0.1), (1, math.inf, 0.1), (1, 2, 0), (1, 2, 1)]
)
def test_what_makes_no_sense_is_refused(limit: float, bound: float, rate: float) -> None:
    with pytest.raises(UserError, match="an alarm needs 0 < limit < bound"):
        Alarm(float(limit), float(bound), rate=float(rate))


def test_the_limit_of_a_prediction() -> None:
    """Budget 12 takes eps 0.5, which costs at most 12; a budget of 20 takes eps 1, at most 18."""
    alarm = Alarm.of_prediction(made(), 20.0)
    assert (alarm.limit, alarm.bound, alarm.rate) == (18.0, HORIZON, 0.01)
    free = made(curve=(point(0.5, 0.0),), episode_costs=(0.0,) * 50)
    assert Alarm.of_prediction(free, 20.0).limit == 1.0  # a costly step in each episode
    assert Alarm.of_prediction(free, 0.5).limit == 0.5
    with pytest.raises(UserError, match="nothing is predicted for budget 5: no eps fits"):
        Alarm.of_prediction(made(), 5.0)
