"""The budget and its controller, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lspc.algos.parts import lagrangian

GAINS = (0.1, 0.003, 0.001)


def test_the_budget_of_an_episode_as_a_discounted_sum() -> None:
    assert lagrangian.discounted_budget(10.0, 0.99, 200) == pytest.approx(10 * (1 - 0.99**200) / 0.01 / 200)
    assert lagrangian.discounted_budget(6.0, 0.5, 3) == pytest.approx(2 + 1 + 0.5)
    assert lagrangian.discounted_budget(6.0, 1.0, 3) == pytest.approx(6)


def test_the_multiplier_by_hand() -> None:
    pid, found = lagrangian.init(), []
    for excess in (2.0, 3.0, -10.0, 1.0):
        pid, multiplier = lagrangian.control(pid, jnp.asarray(excess), GAINS)
        found.append(float(multiplier))
    expected = [
        0.1 * 2 + 0.003 * 2 + 0.001 * 2,
        0.1 * 3 + 0.003 * 5 + 0.001 * 1,
        0.0,  # the sum is gone, but does not become a debt
        0.1 * 1 + 0.003 * 1 + 0.001 * 11,
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_multiplier_rises_as_long_as_the_cost_is_over_budget() -> None:
    pid, before = lagrangian.init(), -1.0
    for _ in range(5):
        pid, multiplier = lagrangian.control(pid, jnp.asarray(0.5), (0.0, 0.003, 0.0))
        assert multiplier > before
        before = float(multiplier)


def test_the_loss_prices_cost_but_not_its_own_multiplier() -> None:
    reward, cost, budget = jnp.asarray([1.0, 3.0]), jnp.asarray([4.0, 8.0]), jnp.asarray(5.0)
    loss, (pid, metrics) = lagrangian.lagrangian_loss(reward, cost, lagrangian.init(), budget, GAINS)
    multiplier = 0.104  # an excess of 1, seen for the first time
    assert metrics["multiplier"] == pytest.approx(multiplier)
    assert loss == pytest.approx(-2 + multiplier * 1)
    assert pid.integral == 1.0
    gradients = jax.grad(
        lambda pair: lagrangian.lagrangian_loss(pair[0], pair[1], lagrangian.init(), budget, GAINS)[0]
    )((reward, cost))
    np.testing.assert_allclose(gradients[0], [-0.5, -0.5])
    np.testing.assert_allclose(gradients[1], [multiplier / 2] * 2, rtol=1e-6)
