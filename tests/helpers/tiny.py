"""Small things the tests of the methods share: nets with known weights, a made-up batch, comparing of pytrees."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lspc.algos import lspc
from lspc.algos.base import Batch, Spec
from lspc.nets import MLP

OBSERVATION, ACTION, LATENT = 3, 2, 2
SPEC = Spec(
    observation_dim=OBSERVATION,
    action_dim=ACTION,
    observation_mean=(0.5, -0.5, 0.0),
    observation_std=(1.0, 2.0, 0.5),
    return_min=0.0,
    return_max=50.0,
    largest_reward=3.0,
    largest_cost=1.0,
    longest_episode=20,
    reward_mean=0.5,
    reward_spread=50.0,
    cost_return_max=25.0,
)


@cache
def lspc_state(seed: int = 0, /, **changes: Any) -> lspc.State:
    """LSPC before its first update, with small networks; made once, since nothing changes a state in place."""
    return lspc.init(jax.random.key(seed), SPEC, config(**changes))


update = eqx.filter_jit(lspc.update)
update_critics = eqx.filter_jit(lspc.update_critics)
"""Of LSPC, compiled: for settings that are updated several times."""


def linear(weights: Sequence[Sequence[float]], bias: Sequence[float]) -> MLP:
    """x W + b with the numbers given: no hidden layer."""
    values = jnp.asarray(weights, jnp.float32), jnp.asarray(bias, jnp.float32)
    net = eqx.filter_eval_shape(MLP, *values[0].shape, (), key=jax.random.key(0))  # nothing is drawn
    return eqx.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), net, values)


def net(inputs: int, outputs: int, seed: int = 0) -> MLP:
    return MLP(inputs, outputs, (8, 8), key=jax.random.key(seed))


def batch(size: int = 16, seed: int = 0, **changes: Any) -> Batch:
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {
        "observations": rng.normal(size=(size, OBSERVATION)),
        "actions": rng.uniform(-0.9, 0.9, size=(size, ACTION)),
        "rewards": rng.normal(size=size),
        "costs": rng.integers(0, 2, size=size),
        "next_observations": rng.normal(size=(size, OBSERVATION)),
        "terminated": rng.random(size) < 0.2,
        "truncated": rng.random(size) < 0.2,
    }
    return Batch(**{name: jnp.asarray(value, jnp.float32) for name, value in (arrays | changes).items()})


def config(**changes: Any) -> lspc.Config:
    settings: dict[str, Any] = {"hidden": (8, 8), "latent_dim": LATENT, "batch_size": 16, **changes}
    return lspc.Config(**settings)


def same(a: Any, b: Any) -> bool:
    """Whether every number of two pytrees is equal, bit for bit."""
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def close(a: Any, b: Any, *, rtol: float = 1e-4, atol: float = 1e-6) -> None:
    """Every number of two pytrees is nearly equal: the same sum, compiled in another way."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def all_zero(tree: Any) -> bool:
    return all(not np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)))
