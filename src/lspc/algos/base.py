"""What every method shares: the batch it learns from, the facts about the data it may use, the policy it leaves.

A method is a module of pure functions, written down here as the protocol `Method`; the registry is `lspc.algos`.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.batches import build_table, draw_rows
from lspc.data import Bounds, Dataset
from lspc.nets import match_rank
from lspc.tasks import Task

Metrics = dict[str, Array]
"""Scalars by name, namespaced by the part they speak of: `cost/value_mean`."""


def flatten_metrics(parts: Mapping[str, Metrics]) -> Metrics:
    """Metrics by part -> metrics named `part/name`."""
    return {f"{part}/{name}": value for part, metrics in parts.items() for name, value in metrics.items()}


class Batch(NamedTuple):
    """Transitions as the data have them: observations and rewards raw, actions in [-1, 1], flags as 0.0 or 1.0."""

    observations: Float[Array, "batch observation"]
    actions: Float[Array, "batch action"]
    rewards: Float[Array, " batch"]
    costs: Float[Array, " batch"]
    next_observations: Float[Array, "batch observation"]
    terminated: Float[Array, " batch"]
    truncated: Float[Array, " batch"]

    @property
    def ends(self) -> Float[Array, " batch"]:
        """1 where the episode ends, by a terminal state or by a time-out."""
        return jnp.maximum(self.terminated, self.truncated)


@dataclass(frozen=True)
class Spec:
    """The facts about a dataset that a method may build on; plain numbers, so that they travel with the policy."""

    observation_dim: int
    action_dim: int
    observation_mean: tuple[float, ...]
    observation_std: tuple[float, ...]
    return_min: float
    return_max: float
    largest_reward: float
    """Largest absolute reward of a step."""
    largest_cost: float
    """Largest cost of a step."""
    longest_episode: int
    """Steps of the longest episode."""
    reward_mean: float = 0.0
    """Mean reward of a step."""
    reward_spread: float = 0.0
    """From the lowest mean reward of an episode to the highest, times the steps of the longest episode."""
    cost_return_max: float = 0.0
    """Cost of the costliest episode."""
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    """Between what actions lie in the plant's units; none is [-1, 1], where methods learn whatever these are."""

    @property
    def action_bounds(self) -> Bounds:
        return Bounds(self.action_low, self.action_high).for_actions(self.action_dim, "spec")

    @staticmethod
    def of(dataset: Dataset) -> "Spec":
        statistics = dataset.statistics
        return Spec(
            observation_dim=dataset.observation_dim,
            action_dim=dataset.action_dim,
            observation_mean=tuple(statistics.observation_mean.tolist()),
            observation_std=tuple(statistics.observation_std.tolist()),
            return_min=statistics.return_min,
            return_max=statistics.return_max,
            largest_reward=float(abs(dataset.rewards).max()),
            largest_cost=float(dataset.costs.max()),
            longest_episode=int(dataset.lengths.max()),
            reward_mean=float(dataset.rewards.mean(dtype=np.float64)),
            reward_spread=float(np.ptp(dataset.returns / dataset.lengths) * dataset.lengths.max()),
            cost_return_max=statistics.cost_return_max,
            action_low=dataset.action_bounds.low,
            action_high=dataset.action_bounds.high,
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

    def __call__(self, observations: Float[Array, "*batch observation"]) -> Float[Array, "*batch observation"]:
        return (observations - match_rank(self.mean, observations)) / match_rank(self.std, observations)

    def apply_to(self, batch: Batch) -> Batch:
        return batch._replace(observations=self(batch.observations), next_observations=self(batch.next_observations))


class Policy(eqx.Module):
    """A trained policy: a pure function of observations and standard normal noise; zero noise is deterministic."""

    variants: ClassVar[tuple[str, ...]]
    """The policies inside, the one to deploy first."""

    @property
    @abstractmethod
    def noise_dim(self) -> int: ...

    @abstractmethod
    def __call__(
        self,
        observations: Float[Array, "*batch observation"],
        noise: Float[Array, "*batch noise"],
        variant: str,
    ) -> Float[Array, "*batch action"]: ...


class SequencePolicy(Policy):
    """A policy that remembers its episode. Called like any other, it acts as at an episode's first step."""

    @abstractmethod
    def start(self, size: int) -> Any:
        """The memory of `size` episodes that have not begun: arrays with that leading axis."""

    @abstractmethod
    def step(
        self, memory: Any, observations: Array, rewards: Array, costs: Array, noise: Array, variant: str
    ) -> tuple[Array, Any]:
        """The next actions and memories; `rewards` and `costs` are what the last actions brought (at first 0)."""

    def __call__(self, observations: Array, noise: Array, variant: str) -> Array:
        lead = observations.shape[:-1]
        flat, nothing = observations.reshape(-1, observations.shape[-1]), jnp.zeros(math.prod(lead))
        noise = noise.reshape(-1, noise.shape[-1])
        actions, _ = self.step(self.start(len(flat)), flat, nothing, nothing, noise, variant)
        return actions.reshape(*lead, -1)


def table(dataset: Dataset, config: Any, *more: np.ndarray) -> Any:
    """What lies on the device: all fields side by side, and `more` columns, so that a draw gathers one block.

    Of data larger than memory it stays on the host, which gathers the blocks.
    """
    return build_table([*(getattr(dataset, name) for name in Batch._fields), *more], _side_by_side)


def _side_by_side(*columns: np.ndarray) -> Float[np.ndarray, "transitions columns"]:
    return np.concatenate([np.asarray(column, np.float32).reshape(len(column), -1) for column in columns], axis=1)


def draw(rows: Any, key: PRNGKeyArray, spec: Spec, config: Any) -> Batch:
    """Transitions drawn independently, each as likely as the others."""
    return unpack(draw_rows(rows, key, config.batch_size), spec)


def unpack(rows: Float[Array, "batch columns"], spec: Spec) -> Batch:
    widths = (spec.observation_dim, spec.action_dim, 1, 1, spec.observation_dim, 1, 1)
    parts = jnp.split(rows, np.cumsum(widths)[:-1], axis=1)
    return Batch(*(part if part.shape[1] > 1 or name.endswith(("observations", "actions")) else part[:, 0]
                   for name, part in zip(Batch._fields, parts, strict=True)))  # fmt: skip


@runtime_checkable
class Method(Protocol):
    """What a method's module holds.

    One that learns from something else than single transitions also has its own `table` and `draw`, in place of
    those of this module; its `update` then takes what its `draw` returns. Metrics that are too dear for every
    update are those of `probe(state, batch)`, if it has one: it is called once after some hundred updates.
    """

    Config: type[Any]
    """A frozen dataclass of plain values with at least `steps` and `batch_size`; a docstring under each field."""
    PRESETS: Mapping[str, Mapping[str, Any]]
    """Named settings over the defaults; every method has `default` (nothing) and `cpu` (minutes on two cores)."""

    def task_settings(self, task: Task, preset: str) -> dict[str, Any]:
        """What a task changes in a preset."""
        ...

    def prepare(self, dataset: Dataset, config: Any) -> Dataset:
        """The part of the data the method learns from."""
        ...

    def init(self, key: PRNGKeyArray, spec: Spec, config: Any) -> Any: ...

    def update(self, state: Any, batch: Any, key: PRNGKeyArray) -> tuple[Any, Metrics]: ...

    def policy(self, state: Any) -> Policy: ...

    def metric_bounds(self, spec: Spec, config: Any) -> dict[str, float]:
        """Metrics whose absolute value above the bound means that training has diverged."""
        ...
