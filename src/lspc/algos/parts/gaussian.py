"""Networks that describe a normal distribution by its mean and log-spread, and actions squashed from one by tanh."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lspc.algos.base import Normaliser, Policy
from lspc.nets import MLP

EDGE = 0.999
"""Actions are pulled inside this before tanh is undone: at 1 it would be infinite."""


def moments(
    parameters: Float[Array, "*batch twice"], smallest: float, largest: float
) -> tuple[Float[Array, "*batch twice//2"], Float[Array, "*batch twice//2"]]:
    """Mean and log-spread, the latter kept within bounds."""
    mean, log_std = jnp.split(parameters, 2, axis=-1)
    return mean, jnp.clip(log_std, smallest, largest)


def sample_before_tanh(
    actor: MLP, observations: Float[Array, "*batch observation"], noise: Float[Array, "*batch action"]
) -> Float[Array, "*batch action"]:
    """An actor's action before tanh."""
    mean, log_std = moments(actor(observations), -5.0, 2.0)
    return mean + jnp.exp(log_std) * noise


def sample(
    actor: MLP, observations: Float[Array, "*batch observation"], noise: Float[Array, "*batch action"]
) -> Float[Array, "*batch action"]:
    return jnp.tanh(sample_before_tanh(actor, observations, noise))


def log_likelihood(
    actor: MLP, observations: Float[Array, "*batch observation"], actions: Float[Array, "*batch action"]
) -> Float[Array, " *batch"]:
    """log pi(a | s) of tanh-squashed normal actions."""
    mean, log_std = moments(actor(observations), -5.0, 2.0)
    actions = jnp.clip(actions, -EDGE, EDGE)
    z = (jnp.arctanh(actions) - mean) / jnp.exp(log_std)
    normal = -0.5 * z**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    return jnp.sum(normal - jnp.log(1 - actions**2), axis=-1)


class GaussianPolicy(Policy):
    """Squashed normal actions; methods that learn such an actor only add their name."""

    actor: MLP
    normaliser: Normaliser

    @property
    def noise_dim(self) -> int:
        return self.actor.layers[-1].bias.shape[-1] // 2

    def __call__(self, observations: Array, noise: Array, variant: str) -> Array:
        return sample(self.actor, self.normaliser(observations), noise)
