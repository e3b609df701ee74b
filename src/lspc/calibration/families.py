"""Families of policies told apart by one parameter, so that all of them are evaluated in one program."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lspc.algos.lspc import LspcPolicy


class PolicyFamily(eqx.Module):
    """A policy with a parameter: called with observations and one parameter for all, or one for each."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """The least and the largest parameter."""

    @abstractmethod
    def __call__(
        self, observations: Float[Array, "*batch observation"], parameters: Float[Array, "*#batch"]
    ) -> Array: ...


class LspcFamily(PolicyFamily):
    """LSPC-O at every eps it was trained for."""

    policy: LspcPolicy

    @property
    def range(self) -> tuple[float, float]:
        config = self.policy.config
        return config.restriction_range or (config.restriction, config.restriction)

    def __call__(self, observations: Array, parameters: Array) -> Array:
        zero_noise = jnp.zeros((*observations.shape[:-1], self.policy.noise_dim))
        return self.policy.act(observations, zero_noise, "LSPC-O", parameters)
