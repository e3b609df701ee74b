"""A traced function, replayed by NumPy: the same numbers, and what it cannot replay it says."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.exported import FEED_FORWARD, untrained_policy

from lspc.data import Dataset
from lspc.policy import TrainedPolicy
from lspc.replay import NotReplayable, Replay

X = np.linspace(-2, 2, 6).astype(np.float32)
W = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)), jnp.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.tanh(x @ W) + 1.0,
        lambda x: jax.nn.relu(x) ** 2 / (1.0 + jnp.exp(x)),
        lambda x: jnp.clip(jnp.concatenate([x, x[1:3], jnp.ones(2)]), -1.0, 0.5),
        lambda x: jnp.concatenate(jnp.split(x, 3)[::-1]),
        lambda x: jax.nn.sigmoid(x)[None].reshape(2, 3),
        lambda x: jax.jit(lambda y: -y * jnp.sum(W[:2] ** 2))(x),
        lambda x: jnp.broadcast_to(x[:, None], (6, 2)),
        lambda x: jnp.broadcast_to(x[None], (2, 6)) @ W,
        lambda x: W,
    ],
)
def test_the_same_numbers(function: Callable[[Any], Any]) -> None:
    wanted = np.asarray(function(jnp.asarray(X)))
    replay = Replay(function, np.zeros_like(X))
    found = replay(X)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(replay(X), found)  # nothing is left over from the call before


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (jnp.sort, "sort"),
        (lambda x: jnp.tensordot(W @ W.T, x, (0, 0)), "dot_general"),
        (lambda x: x.astype(int) // 2, "convert_element_type of int32"),
    ],
)
def test_what_numpy_would_do_otherwise_is_named(function: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(NotReplayable, match=told):
        Replay(function, X)


def test_what_does_not_depend_on_the_argument_is_computed_once() -> None:
    constant = Replay(lambda x: x + jnp.sum(jnp.sort(W)), X)  # sort is unknown, but not needed at run time
    np.testing.assert_allclose(constant(X), X + np.sum(W), rtol=1e-5)


@pytest.mark.parametrize("name", FEED_FORWARD)
def test_one_observation_gets_the_compiled_policys_action(name: str, dataset: Dataset) -> None:
    net, _ = untrained_policy(name, dataset)
    for variant in net.variants:
        trained = TrainedPolicy(net, variant, {"spec": {"observation_dim": 7}})
        together = trained.act(dataset.observations[:8])
        alone = [trained.act(observation) for observation in dataset.observations[:8]]
        np.testing.assert_allclose(alone, together, atol=1e-5 if name == "fisor" else 1e-6)
        assert (trained._replay is None) is (name == "fisor")  # its denoising loop stays JAX's
