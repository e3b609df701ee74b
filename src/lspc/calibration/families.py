"""Policies told apart by one parameter, so that all are tried in one program; one alone is a family too."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lspc.algos.base import Policy, SequencePolicy
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

    def start(self, shape: tuple[int, int]) -> Any:
        """What it remembers when (parameters, episodes) begin."""
        return ()

    def step(self, memory: Any, observations: Array, signals: Array, parameters: Array) -> tuple[Array, Any]:
        """Actions, and what it remembers from now on; `signals` are the reward and cost of the last step."""
        return self(observations, parameters), memory


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


class OnePolicy(PolicyFamily):
    """Any policy as it is, whatever the parameter; one that remembers its episode does so here too."""

    policy: Policy
    variant: str = eqx.field(static=True)

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 0.0

    def __call__(self, observations: Array, parameters: Array) -> Array:
        zero_noise = jnp.zeros((*observations.shape[:-1], self.policy.noise_dim))
        return self.policy(observations, zero_noise, self.variant)

    def start(self, shape: tuple[int, int]) -> Any:
        return self.policy.start(shape[0] * shape[1]) if isinstance(self.policy, SequencePolicy) else ()

    def step(self, memory: Any, observations: Array, signals: Array, parameters: Array) -> tuple[Array, Any]:
        if not isinstance(self.policy, SequencePolicy):
            return self(observations, parameters), memory
        seen, told = (jnp.reshape(values, (-1, values.shape[-1])) for values in (observations, signals))
        zero_noise = jnp.zeros((len(seen), self.policy.noise_dim))
        actions, memory = self.policy.step(memory, seen, told[:, 0], told[:, 1], zero_noise, self.variant)
        return actions.reshape(*observations.shape[:-1], -1), jax.tree.map(jnp.asarray, memory)
