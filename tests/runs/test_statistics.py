"""Statistics against cases worked out by hand."""

import numpy as np
import pytest

from lspc.runs.statistics import Stratum, beats, bootstrap, compute_figures, interquartile_mean, tail_mean


def stratum(reward: object, cost: object, name: str = "a") -> Stratum:
    """From nested lists of (threshold, seed, episode)."""
    return Stratum(name, np.array(reward, float), np.array(cost, float))


def runs(*pairs: tuple[float, float], name: str = "a") -> Stratum:
    """One episode per training seed: (reward, cost)."""
    return stratum([[[r] for r, _ in pairs]], [[[c] for _, c in pairs]], name)


def test_bootstrap_of_one_group_is_the_textbooks() -> None:
    values = np.random.default_rng(0).normal(3, 2, size=100)
    interval = bootstrap([values])
    half = 1.96 * values.std() / 10
    assert interval.mean == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.06)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.06)
    assert bootstrap([values]) == interval


def test_bootstrap_draws_seeds_before_episodes() -> None:
    """Seeds that disagree widen the interval although their episodes do not vary at all."""
    interval = bootstrap([np.zeros(50), np.ones(50)])
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.0, 1.0)
    constant = bootstrap([np.full(5, 2.0), np.full(9, 2.0)])
    assert (constant.mean, constant.low, constant.high) == (2.0, 2.0, 2.0)


def test_the_draws_never_change() -> None:
    """Published intervals can be computed again from their records."""
    found = bootstrap([np.arange(20.0), 3.0 * np.arange(20.0), 10.0 + np.arange(20.0)])
    assert (found.mean, found.low, found.high) == pytest.approx(
        (19.166666666666668, 9.883333333333335, 28.804999999999975), abs=1e-12
    )


def test_figures_by_hand() -> None:
    """Two thresholds, two seeds, two episodes."""
    found = compute_figures([stratum([[[0.1, 0.3], [0.5, 0.7]]] * 2, [[[0, 2], [4, 6]], [[0, 1], [2, 3]]])])
    assert (found.seeds, found.episodes) == (2, 2)
    assert found.reward.mean == pytest.approx(0.4)
    assert found.cost.mean == pytest.approx((3 + 1.5) / 2)
    assert found.over_budget == pytest.approx((3 + 2) / 8)  # a cost of exactly 1 is within the budget
    assert found.tail_cost == pytest.approx((6 + 3) / 2)
    assert not found.safe
    assert found.reward.low < found.reward.mean < found.reward.high


def test_tasks_count_alike_in_an_average() -> None:
    one, other = runs((1.0, 0.0), (1.0, 0.0), name="a"), runs((0.0, 1.5), (0.0, 1.5), name="b")
    found = compute_figures([one, other])
    assert (found.reward.mean, found.reward.low, found.reward.high) == (0.5, 0.5, 0.5)
    assert found.cost.mean == 0.75
    assert found.safe


def test_an_average_draws_within_each_task() -> None:
    """Tasks that differ widen no interval; seeds that differ do, less so on two tasks than on one."""
    spread = [runs((0.0, 0.0), (1.0, 0.0), name=name) for name in "ab"]
    alone, both = compute_figures(spread[:1]).reward, compute_figures(spread).reward
    assert (alone.low, alone.high) == (0.0, 1.0)
    many = [runs(*[(float(x), 0.0) for x in range(10)], name=str(i)) for i in range(4)]
    one, four = compute_figures(many[:1]).reward, compute_figures(many).reward
    assert four.high - four.low == pytest.approx((one.high - one.low) / 2, rel=0.15)
    assert both.mean == 0.5


def test_thresholds_served_by_one_policy_are_drawn_together() -> None:
    costs = np.random.default_rng(0).uniform(0, 10, size=(3, 20))
    reward = np.zeros((3, 20))
    at_ten = compute_figures([stratum([reward], [costs / 10])]).cost
    at_all = compute_figures([stratum([reward] * 3, [costs / 10, costs / 20, costs / 40])]).cost
    ratio = (1 / 10 + 1 / 20 + 1 / 40) / 3 * 10
    assert (at_all.low, at_all.high) == pytest.approx((at_ten.low * ratio, at_ten.high * ratio))


def test_the_draws_follow_from_the_name_alone() -> None:
    values = np.random.default_rng(0).normal(size=(1, 3, 20))
    assert compute_figures([Stratum("a", values, values)]) == compute_figures([Stratum("a", values, values)])
    assert compute_figures([Stratum("a", values, values)]) != compute_figures([Stratum("b", values, values)])


def test_the_interquartile_mean_by_hand() -> None:
    assert interquartile_mean(np.array([100.0, 1, 2, 3, 4, -50, 5, 0])) == pytest.approx((1 + 2 + 3 + 4) / 4)
    assert interquartile_mean(np.array([9.0, 1, 2])) == 4  # a quarter of three is no whole run
    found = compute_figures([runs(*[(x, x) for x in (0.0, 1.0)], name="a"), runs((2.0, 2.0), (60.0, 60.0), name="b")])
    assert found.reward_iqm.mean == 1.5
    assert found.cost_iqm.mean == 1.5
    assert found.reward.mean == 15.75


def test_the_tail_is_the_costliest_tenth() -> None:
    assert tail_mean(np.arange(20.0)) == 18.5
    assert tail_mean(np.arange(21.0)) == pytest.approx((20 + 19 + 18) / 3)
    assert tail_mean(np.array([3.0, 1.0])) == 3


def test_who_beats_whom_is_decided_by_safety_first() -> None:
    safe, rich, wild = runs((0.1, 0.5), (0.1, 0.6)), runs((0.9, 0.9), (0.9, 0.9)), runs((9.0, 2.0), (9.0, 3.0))
    wilder = runs((99.0, 2.5), (99.0, 2.5))
    assert beats([rich], [safe]).mean == 1
    assert beats([safe], [wild]).mean == 1
    assert beats([wild], [wilder]).mean == 0.5  # cost 2 beats 2.5, cost 3 does not
    assert beats([safe], [safe]).mean == 0.5
    mixed = runs((0.1, 0.5), (0.1, 2.0))
    assert beats([safe], [mixed]).mean == pytest.approx(0.75)  # two ties, two wins
    assert beats([mixed], [safe]).mean == pytest.approx(0.25)
    assert beats([safe, rich], [wild, safe]).mean == 1
    chance = beats([mixed], [safe])
    assert 0 <= chance.low <= chance.mean <= chance.high <= 1
