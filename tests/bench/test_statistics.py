"""Statistics against cases worked out by hand."""

import numpy as np
import pytest

from lspc.bench.statistics import DRAWS, Stratum, beats, drawn_means, figures, interquartile_mean, tail
from lspc.evaluation import bootstrap


def stratum(reward: object, cost: object, name: str = "a") -> Stratum:
    """From nested lists of (threshold, seed, episode)."""
    return Stratum(name, np.array(reward, float), np.array(cost, float))


def runs(*pairs: tuple[float, float], name: str = "a") -> Stratum:
    """One episode per training seed: (reward, cost)."""
    return stratum([[[r] for r, _ in pairs]], [[[c] for _, c in pairs]], name)


def test_the_draws_are_those_of_lspc_evaluate() -> None:
    groups = list(np.random.default_rng(0).normal(size=(3, 20)))
    low, high = np.percentile(drawn_means(groups, DRAWS, 0).mean(axis=1), [2.5, 97.5])
    assert (low, high) == (bootstrap(groups).low, bootstrap(groups).high)


def test_figures_by_hand() -> None:
    """Two thresholds, two seeds, two episodes."""
    found = figures([stratum([[[0.1, 0.3], [0.5, 0.7]]] * 2, [[[0, 2], [4, 6]], [[0, 1], [2, 3]]])])
    assert (found.seeds, found.episodes) == (2, 2)
    assert found.reward.mean == pytest.approx(0.4)
    assert found.cost.mean == pytest.approx((3 + 1.5) / 2)
    assert found.over_budget == pytest.approx((3 + 2) / 8)  # a cost of exactly 1 is within the budget
    assert found.tail_cost == pytest.approx((6 + 3) / 2)
    assert not found.safe
    assert found.reward.low < found.reward.mean < found.reward.high


def test_tasks_count_alike_in_an_average() -> None:
    one, other = runs((1.0, 0.0), (1.0, 0.0), name="a"), runs((0.0, 1.5), (0.0, 1.5), name="b")
    found = figures([one, other])
    assert (found.reward.mean, found.reward.low, found.reward.high) == (0.5, 0.5, 0.5)
    assert found.cost.mean == 0.75
    assert found.safe


def test_an_average_draws_within_each_task() -> None:
    """Tasks that differ widen no interval; seeds that differ do, less so on two tasks than on one."""
    spread = [runs((0.0, 0.0), (1.0, 0.0), name=name) for name in "ab"]
    alone, both = figures(spread[:1]).reward, figures(spread).reward
    assert (alone.low, alone.high) == (0.0, 1.0)
    many = [runs(*[(float(x), 0.0) for x in range(10)], name=str(i)) for i in range(4)]
    one, four = figures(many[:1]).reward, figures(many).reward
    assert four.high - four.low == pytest.approx((one.high - one.low) / 2, rel=0.15)
    assert both.mean == 0.5


def test_thresholds_served_by_one_policy_are_drawn_together() -> None:
    costs = np.random.default_rng(0).uniform(0, 10, size=(3, 20))
    reward = np.zeros((3, 20))
    at_ten = figures([stratum([reward], [costs / 10])]).cost
    at_all = figures([stratum([reward] * 3, [costs / 10, costs / 20, costs / 40])]).cost
    ratio = (1 / 10 + 1 / 20 + 1 / 40) / 3 * 10
    assert (at_all.low, at_all.high) == pytest.approx((at_ten.low * ratio, at_ten.high * ratio))


def test_the_draws_follow_from_the_name_alone() -> None:
    values = np.random.default_rng(0).normal(size=(1, 3, 20))
    assert figures([Stratum("a", values, values)]) == figures([Stratum("a", values, values)])
    assert figures([Stratum("a", values, values)]) != figures([Stratum("b", values, values)])


def test_the_interquartile_mean_by_hand() -> None:
    assert interquartile_mean(np.array([100.0, 1, 2, 3, 4, -50, 5, 0])) == pytest.approx((1 + 2 + 3 + 4) / 4)
    assert interquartile_mean(np.array([9.0, 1, 2])) == 4  # a quarter of three is no whole run
    found = figures([runs(*[(x, x) for x in (0.0, 1.0)], name="a"), runs((2.0, 2.0), (60.0, 60.0), name="b")])
    assert found.reward_iqm.mean == 1.5
    assert found.cost_iqm.mean == 1.5
    assert found.reward.mean == 15.75


def test_the_tail_is_the_costliest_tenth() -> None:
    assert tail(np.arange(20.0)) == 18.5
    assert tail(np.arange(21.0)) == pytest.approx((20 + 19 + 18) / 3)
    assert tail(np.array([3.0, 1.0])) == 3


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
