"""Behaviour cloning: squared error to the data's actions. With a budget it is BC-Safe: only episodes within it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Batch, Metrics, Normaliser, Policy, Spec
from lspc.data import Dataset
from lspc.nets import MLP, Learner
from lspc.tasks import Task


@dataclass(frozen=True)
class Config:
    steps: int = 100_000
    """Gradient updates."""
    batch_size: int = 512
    """Transitions per update."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    normalise_observations: bool = True
    """Give the network observations of zero mean and unit spread."""
    budget: float | None = None
    """Learn only from episodes whose cost is at most this (BC-Safe); none: from all of them (BC)."""


PRESETS: dict[str, dict[str, Any]] = {"default": {}, "cpu": {"steps": 10_000, "batch_size": 256}}


class BcPolicy(Policy):
    variants: ClassVar[tuple[str, ...]] = ("BC",)

    net: MLP
    normaliser: Normaliser

    @property
    def noise_dim(self) -> int:
        return 1  # the policy is deterministic; an array without columns would help nobody

    def __call__(self, observations: Array, noise: Array, variant: str) -> Array:
        return jnp.tanh(self.net(self.normaliser(observations)))


class State(eqx.Module):
    learner: Learner[MLP]
    normaliser: Normaliser
    config: Config = eqx.field(static=True)


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    return {}


def prepare(dataset: Dataset, config: Config) -> Dataset:
    return dataset if config.budget is None else dataset.within(config.budget)


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    net = MLP(spec.observation_dim, spec.action_dim, config.hidden, key=key)
    return State(Learner.of(net), Normaliser.of(spec, active=config.normalise_observations), config)


def cloning_loss(
    net: MLP, observations: Float[Array, "batch observation"], actions: Float[Array, "batch action"]
) -> Float[Array, ""]:
    return jnp.mean(jnp.sum((jnp.tanh(net(observations)) - actions) ** 2, axis=-1))


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    observations = state.normaliser(batch.observations)
    loss, gradient = eqx.filter_value_and_grad(cloning_loss)(state.learner.net, observations, batch.actions)
    learner = state.learner.step(gradient, state.config.learning_rate)
    return State(learner, state.normaliser, state.config), {"policy/loss": loss}


def policy(state: State) -> BcPolicy:
    return BcPolicy(state.learner.net, state.normaliser)


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    return {}
