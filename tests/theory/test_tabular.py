"""Tabular LSPC: its critics are IQL's fixed points, and it is safe where the data allow it."""

import numpy as np
import pytest

from lspc.theory import examples
from lspc.theory.cmdp import CMDP, Array, action_values, random_cmdps, random_policies, state_values, value
from lspc.theory.tabular import expectile_values, likeliest, lspc, prior_mass, reweighted


def expectile_by_bisection(values: Array, chances: Array, expectile: float) -> Array:
    low, high = values.min(-1), values.max(-1)
    for _ in range(80):
        middle = (low + high) / 2
        above = values > middle[..., None]
        pull = (chances * np.where(above, expectile, 1 - expectile) * (values - middle[..., None])).sum(-1)
        low, high = np.where(pull > 0, middle, low), np.where(pull > 0, high, middle)
    return (low + high) / 2


@pytest.mark.parametrize("expectile", [0.3, 0.5, 0.7, 0.95])
def test_critics_are_the_fixed_point_of_the_expectile_loss(expectile: float) -> None:
    rng = np.random.default_rng(0)
    cmdp = random_cmdps(rng, 20, 4, 3)
    behaviour = random_policies(rng, cmdp)
    v, q = expectile_values(cmdp, behaviour, cmdp.cost, expectile)
    np.testing.assert_allclose(q, action_values(cmdp, v, cmdp.cost))
    np.testing.assert_allclose(v, expectile_by_bisection(q, behaviour, expectile), rtol=1e-7, atol=1e-7)


def test_an_expectile_of_a_half_is_the_behaviours_value_and_others_lie_on_its_sides() -> None:
    rng = np.random.default_rng(1)
    cmdp = random_cmdps(rng, 20, 4, 3)
    behaviour = random_policies(rng, cmdp)
    low, middle, high = (expectile_values(cmdp, behaviour, cmdp.cost, e)[0] for e in (0.3, 0.5, 0.7))
    np.testing.assert_allclose(middle, state_values(cmdp, behaviour, cmdp.cost))
    assert np.all(low <= middle + 1e-9)
    assert np.all(middle <= high + 1e-9)


def test_weighted_regression() -> None:
    policy = np.array([[[0.5, 0.5, 0.0]]])
    np.testing.assert_allclose(reweighted(policy, np.log([[[1.0, 3.0, 50.0]]])), [[[0.25, 0.75, 0]]])
    # A weight that would overflow, and one whose action the data lack.
    np.testing.assert_allclose(reweighted(policy, np.array([[[2000.0, 0.0, 9000.0]]])), [[[1, 0, 0]]])


def test_the_box_keeps_the_likeliest_actions() -> None:
    policy = np.array([[[0.2, 0.5, 0.3, 0.0]]])
    assert likeliest(policy, 0.4).tolist() == [[[False, True, False, False]]]
    assert likeliest(policy, 0.6).tolist() == [[[False, True, True, False]]]
    assert likeliest(policy, 1.0).tolist() == [[[True, True, True, False]]]
    assert prior_mass(0.25) == pytest.approx(0.1974, abs=1e-4)
    assert prior_mass(np.inf) == 1


def test_careful_about_cost_and_hopeful_about_reward_by_hand() -> None:
    """From state 0 to 1, where the data toss a coin between 0 and 1, or to 2, where it is a half for sure; then 0.

    The .3-expectile of the coin is .3, the .7-expectile .7: the coin looks cheaper and richer than the half, each
    time by .2, discounted by a half.
    """
    onwards = np.eye(4)[[[1, 2], [3, 3], [3, 3], [3, 3]]][None]
    paid = np.array([[[0, 0], [0, 1], [0.5, 0.5], [0, 0]]])
    cmdp = CMDP(onwards, paid, paid, np.array([0.5]), np.eye(4)[:1])
    safe, policy = lspc(cmdp, np.full((1, 4, 2), 0.5), restriction=np.inf)
    for learnt in (safe, policy):
        assert learnt[0, 0, 0] / learnt[0, 0, 1] == pytest.approx(np.exp(2 * 0.5 * 0.2))


def test_it_does_only_what_the_data_do() -> None:
    rng = np.random.default_rng(2)
    cmdp = random_cmdps(rng, 30, 5, 4)
    behaviour = np.where(rng.random(cmdp.reward.shape) < 0.4, 0, random_policies(rng, cmdp))
    behaviour[..., 0] += 1e-3
    behaviour /= behaviour.sum(-1, keepdims=True)
    for restriction in (0.25, np.inf):
        safe, policy = lspc(cmdp, behaviour, restriction=restriction)
        for learnt in (safe, policy):
            assert np.all(learnt[behaviour == 0] == 0)
            np.testing.assert_allclose(learnt.sum(-1), 1)


def test_it_is_safe_where_the_data_allow_it() -> None:
    """On the ring road a step costs 1 when running: ten in all for always, five for the data's half."""
    road = examples.road(walks=0.5)
    cost = {
        name: value(road.cmdp, getattr(road, name), road.cmdp.cost)[0] for name in ("behaviour", "safe", "policy")
    }
    assert cost["behaviour"] == pytest.approx(5)
    assert cost["safe"] == pytest.approx(10 / (1 + np.exp(2)))
    assert cost["policy"] == 0


def test_it_finds_the_safe_action_even_when_it_is_rare() -> None:
    # The likelier action of pi_s stays: with lambda = 2 walking outweighs running from a share of 1 / (1 + e^2) on.
    least = 1 / (1 + np.exp(2))
    for walks, cost in ((least + 0.01, 0.0), (least - 0.01, 10.0)):
        road = examples.road(walks=walks)
        assert value(road.cmdp, road.policy, road.cmdp.cost)[0] == pytest.approx(cost)


def test_without_safe_data_or_without_the_box_it_is_not_safe() -> None:
    for road in (examples.road(walks=0.0), examples.road(restriction=np.inf)):
        assert value(road.cmdp, road.policy, road.cmdp.cost)[0] > road.kappa[0]
