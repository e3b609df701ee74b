"""Twin Qs of BCQ, BEAR and CPQ: values by hand, the end of an episode, and which parameters a step changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from lspc.algos.parts import iql, qlearning

# Q1 = s + 2 a, Q2 = -s + 1.
TWINS = tiny.linear([[1.0], [2.0]], [0.0]), tiny.linear([[-1.0], [0.0]], [1.0])
FAR = jnp.asarray(-1e6), jnp.asarray(1e6)


def critic() -> qlearning.Critic:
    return qlearning.init(jax.random.key(0), tiny.OBSERVATION, tiny.ACTION, (8, 8))


def test_the_mixture_of_the_twins_by_hand() -> None:
    observations, actions = jnp.asarray([[1.0], [2.0]]), jnp.asarray([[0.5], [-0.5]])  # Q1 = 2, 1; Q2 = 0, -1
    assert qlearning.combine_twins(TWINS, observations, actions).tolist() == [0, -1]
    np.testing.assert_allclose(qlearning.combine_twins(TWINS, observations, actions, 0.75), [0.5, -0.5], rtol=1e-6)


def test_the_highest_candidate_counts() -> None:
    many = qlearning.repeat(jnp.asarray([[1.0], [-1.0]]), 3)
    assert many.shape == (3, 2, 1)
    candidates = jnp.asarray([[[-1.0], [1.0]], [[0.0], [0.5]], [[-0.7], [-1.0]]])
    # Row 1: Q1 = -1, 1, -0.4, Q2 = 0; the mixtures are -0.75, 0.25, -0.3. Row 2: Q1 = 1, 0, -3 and Q2 = 2.
    np.testing.assert_allclose(qlearning.highest_q(TWINS, many, candidates, 0.75), [0.25, 1.25], rtol=1e-5)


def test_targets_by_hand_and_nothing_after_the_end() -> None:
    signal, following, ends = jnp.asarray([1.0, 1.0, 1.0]), jnp.asarray([2.0, 50.0, -3.0]), jnp.asarray([0.0, 0, 0])
    np.testing.assert_allclose(
        qlearning.bellman_target(signal, following, ends, 0.9, FAR), [2.8, 46, -1.7], rtol=1e-6
    )
    cost = jnp.asarray(0.0), jnp.asarray(10.0)  # a cost to come is neither negative nor more than the data allow
    np.testing.assert_allclose(qlearning.bellman_target(signal, following, ends, 0.9, cost), [2.8, 10, 1], rtol=1e-6)
    assert qlearning.bellman_target(signal, following, jnp.ones(3), 0.9, cost).tolist() == [1, 1, 1]


def test_limits_are_what_the_largest_step_repeated_for_ever_would_bring() -> None:
    limits = qlearning.limits(tiny.SPEC, 0.9, 0.1)  # rewards up to 3, costs up to 1
    np.testing.assert_allclose(np.asarray(limits.reward), [-3, 3], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(limits.cost), [0, 10], rtol=1e-5)
    bounds = qlearning.metric_bounds(tiny.SPEC, qlearning.Config(discount=0.9, reward_scale=0.1))
    assert bounds == pytest.approx({"reward/q_max": 30, "cost/q_max": 100})


def test_a_step_follows_the_gradient_and_the_slow_copies_lag_behind() -> None:
    old, batch = critic(), tiny.batch()
    assert tiny.same(old.target_q, old.q.net)
    target = jnp.linspace(-1, 1, 16)
    new, metrics = qlearning.update(old, batch.observations, batch.actions, target, 1e-2, 0.1)
    loss, gradient = eqx.filter_value_and_grad(iql.q_loss)(old.q.net, batch.observations, batch.actions, target)
    tiny.close(new.q, old.q.step(gradient, 1e-2))
    tiny.close(new.target_q, jax.tree.map(lambda s, f: 0.9 * s + 0.1 * f, old.q.net, new.q.net), atol=1e-6)
    q = qlearning.combine_twins(old.q.net, batch.observations, batch.actions)
    assert metrics["q_loss"] == pytest.approx(float(loss))
    assert metrics["q_max"] == pytest.approx(float(jnp.abs(q).max()))
