"""The critics: every loss against numbers worked by hand, every direction, and which parameters a step changes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from jaxtyping import Array

from lspc.algos.parts import iql
from lspc.nets import Learner

REWARD = iql.CriticConfig(is_cost=False, expectile=0.7, discount=0.9, target_rate=0.1, learning_rate=1e-2)
COST = REWARD._replace(is_cost=True)
VALUE = tiny.linear([[2.0], [-1.0]], [0.5])
STATES = jnp.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 4.0]])
"""Valued 2.5, -0.5 and -1.5 by VALUE."""


FAR = jnp.asarray(1e6)
"""A bound on values that is never met."""


def critic(seed: int = 0) -> iql.Critic:
    return iql.init(jax.random.key(seed), tiny.OBSERVATION, tiny.ACTION, (8, 8))


update = eqx.filter_jit(iql.update)


def step(critic: iql.Critic, config: iql.CriticConfig, **changes: Any) -> tuple[iql.Critic, iql.CriticReport]:
    batch = tiny.batch(**changes)
    signal = batch.costs if config.is_cost else batch.rewards
    return update(
        critic, batch.observations, batch.actions, signal, batch.next_observations, batch.terminated, FAR, config
    )


def test_expectile_loss_weighs_the_signs() -> None:
    loss = iql.expectile_loss(jnp.asarray([-2.0, 2.0, 0.0]), 0.7)
    np.testing.assert_allclose(loss, [0.3 * 4, 0.7 * 4, 0], rtol=1e-6)
    np.testing.assert_allclose(iql.expectile_loss(jnp.asarray([-3.0, 3.0]), 0.5), [4.5, 4.5])


def test_value_loss_of_reward_by_hand() -> None:
    q = jnp.asarray([3.5, -2.5, -1.5])  # u = Q - V = 1, -2, 0
    loss, prediction = iql.value_loss(VALUE, STATES, q, REWARD)
    assert loss == pytest.approx((0.7 * 1 + 0.3 * 4 + 0) / 3, rel=1e-6)
    assert prediction.tolist() == [2.5, -0.5, -1.5]


def test_value_loss_of_cost_by_hand() -> None:
    q = jnp.asarray([3.5, -2.5, -1.5])  # u = V - Q = -1, 2, 0: the other way round
    loss, prediction = iql.value_loss(VALUE, STATES, q, COST)
    assert loss == pytest.approx((0.3 * 1 + 0.7 * 4 + 0) / 3, rel=1e-6)
    assert prediction.tolist() == [2.5, -0.5, -1.5]
    clamped, prediction = iql.value_loss(VALUE, STATES, q, COST._replace(as_released=True))
    assert clamped == pytest.approx((0.3 * 1 + 0.7 * 2.5**2 + 0.7 * 1.5**2) / 3, rel=1e-6)
    assert prediction.tolist() == [2.5, -0.5, -1.5]


def test_q_target_by_hand() -> None:
    signal, ends = jnp.asarray([1.0, 1.0, 1.0]), jnp.asarray([0.0, 0.0, 0.0])
    reward = iql.q_target(VALUE, signal, STATES, ends, FAR, REWARD)
    np.testing.assert_allclose(reward, [1 + 0.9 * 2.5, 1 - 0.9 * 0.5, 1 - 0.9 * 1.5], rtol=1e-6)
    cost = iql.q_target(VALUE, signal, STATES, ends, FAR, COST)  # a cost to come is never below zero
    np.testing.assert_allclose(cost, [1 + 0.9 * 2.5, 1, 1], rtol=1e-6)


def test_values_to_come_stay_within_what_the_data_allow() -> None:
    signal, ends, largest = jnp.zeros(3), jnp.zeros(3), jnp.asarray(1.0)  # V is 2.5, -0.5, -1.5
    np.testing.assert_allclose(iql.q_target(VALUE, signal, STATES, ends, largest, REWARD), [0.9, -0.45, -0.9])
    np.testing.assert_allclose(iql.q_target(VALUE, signal, STATES, ends, largest, COST), [0.9, 0.0, 0.0])


@pytest.mark.parametrize("config", [REWARD, COST])
def test_nothing_follows_a_terminal_state(config: iql.CriticConfig) -> None:
    target = iql.q_target(VALUE, jnp.asarray([1.0, 2.0, 3.0]), STATES, jnp.ones(3), FAR, config)
    assert target.tolist() == [1, 2, 3]


def test_q_loss_by_hand() -> None:
    # Observation (1 column) and action (1 column) side by side: Q1 = s + 2a, Q2 = -s + 1.
    twins = tiny.linear([[1.0], [2.0]], [0.0]), tiny.linear([[-1.0], [0.0]], [1.0])
    observations, actions = jnp.asarray([[1.0], [2.0]]), jnp.asarray([[0.5], [-0.5]])
    # Q1 = 2, 1; Q2 = 0, -1; targets 1, 3. A mean over the batch, a sum over the twins.
    loss = iql.q_loss(twins, observations, actions, jnp.asarray([1.0, 3.0]))
    assert loss == pytest.approx((1 + 4) / 2 + (1 + 16) / 2)


def test_twin_takes_the_smaller_reward_and_the_larger_cost() -> None:
    twins = tiny.linear([[1.0], [2.0]], [0.0]), tiny.linear([[-1.0], [0.0]], [1.0])
    observations, actions = jnp.asarray([[1.0], [2.0], [-1.0]]), jnp.asarray([[0.5], [-0.5], [0.0]])
    assert iql.twin(twins, observations, actions, is_cost=False).tolist() == [0, -1, -1]  # Q1 = 2, 1, -1
    assert iql.twin(twins, observations, actions, is_cost=True).tolist() == [2, 1, 2]  # Q2 = 0, -1, 2


@pytest.mark.parametrize(("config", "sign"), [(REWARD, 1), (COST, -1)])
def test_expectile_points_up_for_reward_and_down_for_cost(config: iql.CriticConfig, sign: int) -> None:
    """One state whose Q is 0 or 1, equally often: the 0.7-expectile is 0.7, the 0.3-expectile 0.3."""
    observations, q = jnp.ones((2, 1)), jnp.asarray([0.0, 1.0])
    value = tiny.linear([[0.0]], [0.5])
    gradient = eqx.filter_jit(eqx.filter_grad(lambda net: iql.value_loss(net, observations, q, config)[0]))
    for _ in range(200):
        value = jax.tree.map(lambda weight, change: weight - 0.3 * change, value, gradient(value))
    assert value(jnp.ones(1))[0] == pytest.approx(0.5 + 0.2 * sign, abs=1e-3)


def test_clamping_the_value_in_its_loss_leaves_a_negative_state_stuck() -> None:
    value, observations, q = tiny.linear([[0.0]], [-2.0]), jnp.ones((4, 1)), jnp.full(4, 5.0)

    def gradient(config: iql.CriticConfig) -> Array:
        return eqx.filter_grad(lambda net: iql.value_loss(net, observations, q, config)[0])(value).layers[0].bias

    assert gradient(COST._replace(as_released=True)).tolist() == [0.0]
    assert gradient(COST)[0] == pytest.approx(2 * 0.3 * -7.0)
    # And through whole updates: the released code's habit never moves, ours climbs to the cost that is there.
    stuck = free = eqx.tree_at(lambda c: c.value, critic(), Learner.of(tiny.linear([[0.0]] * 3, [-2.0])))
    for _ in range(5):
        stuck, _ = step(stuck, COST._replace(as_released=True))
        free, _ = step(free, COST)
    assert stuck.value.net.layers[0].bias.tolist() == [-2.0]
    assert free.value.net.layers[0].bias[0] > -2.0


@pytest.mark.parametrize("config", [REWARD, COST])
def test_slow_copies_start_equal_and_move_by_exactly_the_target_rate(config: iql.CriticConfig) -> None:
    old = critic()
    assert tiny.same(old.target_q, old.q.net)
    for _ in range(2):
        new, _ = step(old, config)
        expected = jax.tree.map(lambda slow, fast: slow + 0.1 * (fast - slow), old.target_q, new.q.net)
        tiny.close(new.target_q, expected, rtol=1e-6, atol=1e-7)
        assert not tiny.same(new.target_q, old.target_q)
        assert not tiny.same(new.target_q, new.q.net)
        old = new


def test_value_learns_from_the_slow_copies_and_q_from_the_new_value() -> None:
    old = critic()
    other = eqx.tree_at(lambda c: c.q, old, critic(1).q)  # other fast Qs, same slow ones
    (a, a_report), (b, b_report) = step(old, COST), step(other, COST)
    assert tiny.same(a.value, b.value)
    assert tiny.same(a_report.advantage, b_report.advantage)
    slower = eqx.tree_at(lambda c: c.target_q, old, critic(1).q.net)  # other slow Qs: V differs, and Q through it
    c, _ = step(slower, COST)
    assert not tiny.same(c.value, a.value)
    batch = tiny.batch()
    target = iql.q_target(c.value.net, batch.costs, batch.next_observations, batch.terminated, FAR, COST)
    gradient = eqx.filter_grad(iql.q_loss)(old.q.net, batch.observations, batch.actions, target)
    # Adam's memory too: its first step is nearly the gradient's sign, which a wrong target could share.
    tiny.close(c.q, old.q.step(gradient, COST.learning_rate), rtol=1e-3)


def test_neither_loss_reaches_the_other_network() -> None:
    """The Bellman error, of whatever size, leaves V alone: Q learns from V, never V from the error of Q."""
    old = critic()
    a, b = step(old, REWARD)[0], step(old, REWARD, rewards=tiny.batch().rewards + 100.0)[0]
    assert tiny.same(a.value, b.value)
    assert not tiny.same(a.value, old.value)
    assert not tiny.same(a.q, b.q)


def test_report_speaks_of_the_slow_q_and_the_value_before_the_step() -> None:
    batch, old = tiny.batch(), critic()
    old = eqx.tree_at(lambda c: c.value.net.layers[-1].bias, old, jnp.asarray([-0.15]))  # some values below zero
    for config in (REWARD, COST):
        _, report = step(old, config)
        q = iql.twin(old.target_q, batch.observations, batch.actions, is_cost=config.is_cost)
        value = old.value.net(batch.observations)[:, 0]
        if config.is_cost:
            assert value.min() < 0 < value.max()
            value = jnp.maximum(value, 0.0)
        np.testing.assert_allclose(report.q, q, rtol=1e-6)
        np.testing.assert_allclose(report.value, value, rtol=1e-6)
        np.testing.assert_allclose(report.advantage, q - value, rtol=1e-5, atol=1e-6)


def test_values_are_described_by_size_and_spread() -> None:
    told = iql.describe_values(jnp.asarray([-3.0, 1.0]), jnp.asarray([2.0, 4.0]))
    assert {name: float(number) for name, number in told.items()} == {
        "value_mean": -1.0,
        "value_max": 3.0,
        "value_spread": 2.0,
        "q_mean": 3.0,
    }


def test_a_chain_is_valued_right() -> None:
    """Two states: s0 -> s1 costs 1, s1 -> end costs 2. Q(s0) = 1 + .9 * 2, Q(s1) = 2."""
    states, actions = jnp.eye(2), jnp.zeros((2, 1))
    costs, following, ends = jnp.asarray([1.0, 2.0]), jnp.eye(2)[::-1], jnp.asarray([0.0, 1.0])
    config = COST._replace(target_rate=0.5, learning_rate=2e-2)

    @eqx.filter_jit
    def run(critic: iql.Critic) -> iql.Critic:
        def one(critic: iql.Critic, _: None) -> tuple[iql.Critic, None]:
            return iql.update(critic, states, actions, costs, following, ends, FAR, config)[0], None

        return jax.lax.scan(one, critic, None, length=600)[0]

    learned = run(iql.init(jax.random.key(0), 2, 1, (8,)))
    np.testing.assert_allclose(iql.twin(learned.q.net, states, actions, is_cost=True), [2.8, 2.0], atol=0.05)
    np.testing.assert_allclose(learned.value.net(states)[:, 0], [2.8, 2.0], atol=0.05)
