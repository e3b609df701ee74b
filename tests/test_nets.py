"""The networks: hand-computed outputs, free leading axes, and what a step of Adam does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lspc.nets import MLP, Learner, Linear, average_recent


def test_linear_is_x_w_plus_b_within_its_bounds() -> None:
    layer = Linear(16, 5, key=jax.random.key(0), scale=0.5)
    x = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    np.testing.assert_allclose(
        layer(jnp.asarray(x)), x @ np.asarray(layer.weight) + np.asarray(layer.bias), rtol=1e-5
    )
    bound = 0.5 / 16**0.5
    for values in (layer.weight, layer.bias):
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.5 * bound
        assert values.min() < 0 < values.max()


def test_mlp_by_hand() -> None:
    net = MLP(2, 1, (2,), key=jax.random.key(0))
    weights = (
        jnp.asarray([[1.0, -1.0], [2.0, 1.0]]),
        jnp.asarray([0.0, 0.5]),
        jnp.asarray([[3.0], [4.0]]),
        jnp.asarray([-1.0]),
    )
    net = eqx.tree_at(
        lambda n: (n.layers[0].weight, n.layers[0].bias, n.layers[1].weight, n.layers[1].bias), net, weights
    )
    # Hidden (1 + 4, -1 + 2 + .5) = (5, 1.5) -> 15 + 6 - 1; and (-3, .5) -> (0, .5) by ReLU -> 2 - 1.
    assert net(jnp.asarray([[1.0, 2.0], [-1.0, -1.0]])).tolist() == [[20.0], [1.0]]


def test_mlp_lays_inputs_side_by_side_and_leaves_leading_axes_free() -> None:
    net = MLP(3, 2, (8, 8), key=jax.random.key(0))
    a, b = jnp.ones((4, 5, 1)), jnp.full((4, 5, 2), -0.5)
    out = net(a, b)
    assert out.shape == (4, 5, 2)
    np.testing.assert_allclose(out, net(jnp.concatenate([a, b], axis=-1)))
    np.testing.assert_allclose(out[1, 2], net(a[1, 2], b[1, 2]), rtol=1e-6)


def test_last_scale_and_activation() -> None:
    small = MLP(4, 2, (8,), key=jax.random.key(0), last_scale=0.01)
    assert np.abs(small.layers[-1].weight).max() <= 0.01 / 8**0.5
    assert np.abs(small.layers[0].weight).max() > 0.1
    bounded = MLP(4, 2, (8,), key=jax.random.key(0), activation=jnp.tanh)
    assert np.abs(bounded(jnp.full(4, 1e6))).max() <= 9 / 8**0.5 + 1e-6  # 8 tanh units of at most 1, and the bias


def test_each_layer_and_each_key_draws_its_own_weights() -> None:
    net, other = (MLP(8, 8, (8,), key=jax.random.key(seed)) for seed in (0, 1))
    assert not np.array_equal(net.layers[0].weight, net.layers[1].weight)
    assert not np.array_equal(net.layers[0].weight, other.layers[0].weight)


def test_first_step_of_adam_moves_every_weight_by_the_learning_rate_downhill() -> None:
    learner = Learner.of(jnp.asarray([1.0, -2.0, 3.0]))
    stepped = learner.step(jnp.asarray([0.5, -100.0, 0.0]), 0.1)
    assert stepped.net.tolist() == pytest.approx([0.9, -1.9, 3.0], abs=1e-5)
    # And the memory matters: with b1 = .9 and b2 = .999, by hand, after the gradients g and then 0.
    again = stepped.step(jnp.zeros(3), 0.1)
    momentum, spread = 0.9 * 0.1 / (1 - 0.9**2), (0.999 * 0.001 / (1 - 0.999**2)) ** 0.5
    assert again.net[0] == pytest.approx(0.9 - 0.1 * momentum / spread, abs=1e-5)


def test_the_average_of_recent_updates_by_hand() -> None:
    """With a share of 2 / (1 + t), update t counts in proportion to t: (1 * 3 + 2 * 6 + 3 * 9) / (1 + 2 + 3) = 7."""
    average = jnp.asarray(100.0)  # where it begins counts for nothing
    for t, value in enumerate((3.0, 6.0, 9.0), 1):
        average = average_recent(average, jnp.asarray(value), jnp.asarray(t), 2.0)
    assert float(average) == pytest.approx(7.0)


def test_the_average_forgets_the_beginning_however_long_training_lasts() -> None:
    for length in (100, 1000):
        average = jnp.asarray(0.0)
        for t in range(1, length + 1):
            average = average_recent(average, jnp.asarray(float(t > length / 2)), jnp.asarray(t), 10.0)
        assert 0.998 < float(average) < 1.0  # the first half is left with (1 / 2)^10


def test_a_learner_counts_its_updates() -> None:
    learner = Learner.of(jnp.ones(3))
    assert int(learner.updates) == 0
    assert int(learner.step(jnp.ones(3), 0.1).step(jnp.ones(3), 0.1).updates) == 2
