"""Do the critics know which action of a state is better, or is what they say about it noise?"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lspc.algos.parts.cvae import decode
from lspc.algos.parts.iql import Twins
from lspc.nets import MLP

ACTIONS = 4
"""Decoded actions in each state of a batch that are looked at."""


def latents(size: int) -> Float[Array, "actions latent"]:
    """The same every time: looking must not use up what training draws."""
    return jnp.asarray(np.random.default_rng(0).normal(size=(ACTIONS, size)), jnp.float32)


def measure_signals(
    decoder: MLP,
    critics: tuple[tuple[MLP, MLP], ...],
    observations: Float[Array, "batch observation"],
    latent_dim: int,
) -> tuple[Array, ...]:
    """Of each pair of twins: how far Q differs between the actions of a state that the decoder knows, in parts of how
    far the twins differ about them. Twins of pure noise give 1."""
    states, seen = len(observations), jnp.repeat(observations, ACTIONS, axis=0)
    actions = decode(decoder, seen, jnp.tile(latents(latent_dim), (states, 1)))

    def measure(twins: Twins) -> Array:
        first, second = (net(seen, actions)[:, 0].reshape(states, ACTIONS) for net in twins)
        spread = jnp.mean(jnp.std((first + second) / 2, axis=1))
        # What a twin adds to every action of a state is no disagreement about the actions.
        disagreement = jnp.mean(jnp.std(first - second, axis=1)) / 2
        return spread / jnp.maximum(disagreement, 1e-9)

    return tuple(measure(twins) for twins in critics)
