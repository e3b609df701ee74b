"""What every method shares: the batch it learns from, the facts about the data it may use, the policy it leaves.

A method is a module with `Config`, `init(key, spec, config) -> state`, `update(state, batch, key) -> (state,
metrics)` and `policy(state) -> Policy`; all pure. The registry beside this file lists them.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lspc.data import Dataset

Metrics = dict[str, Array]


class Batch(NamedTuple):
    """Transitions, as the data have them: observations and rewards raw, flags as 0.0 or 1.0."""

    observations: Float[Array, "batch observation"]
    actions: Float[Array, "batch action"]
    rewards: Float[Array, " batch"]
    costs: Float[Array, " batch"]
    next_observations: Float[Array, "batch observation"]
    terminated: Float[Array, " batch"]
    truncated: Float[Array, " batch"]


@dataclass(frozen=True)
class Spec:
    """The facts about a dataset that a method may build on; plain numbers, so that they travel with the policy."""

    observation_dim: int
    action_dim: int
    observation_mean: tuple[float, ...]
    observation_std: tuple[float, ...]
    return_min: float
    return_max: float
    episode_length: float

    @staticmethod
    def of(dataset: Dataset) -> "Spec":
        statistics = dataset.statistics
        return Spec(
            observation_dim=dataset.observation_dim,
            action_dim=dataset.action_dim,
            observation_mean=tuple(statistics.observation_mean.tolist()),
            observation_std=tuple(statistics.observation_std.tolist()),
            return_min=float(statistics.return_min),
            return_max=float(statistics.return_max),
            episode_length=float(np.mean(dataset.lengths)),
        )


class Normaliser(eqx.Module):
    """Observations to zero mean and unit spread, or left as they are."""

    mean: Float[Array, " observation"]
    std: Float[Array, " observation"]

    @staticmethod
    def of(spec: Spec, *, active: bool) -> "Normaliser":
        if not active:
            return Normaliser(jnp.zeros(spec.observation_dim), jnp.ones(spec.observation_dim))
        return Normaliser(jnp.asarray(spec.observation_mean), jnp.asarray(spec.observation_std))

    def __call__(self, observations: Array) -> Array:
        return (observations - self.mean) / self.std


class Policy(eqx.Module):
    """A trained policy: a pure function of observations and of standard normal noise; no noise is deterministic."""

    variants: ClassVar[tuple[str, ...]]
    """The policies inside, the one to deploy first."""

    @property
    @abstractmethod
    def noise_dim(self) -> int: ...

    @abstractmethod
    def __call__(
        self, observations: Float[Array, "*batch observation"], noise: Float[Array, "*batch noise"], variant: str
    ) -> Float[Array, "*batch action"]: ...
