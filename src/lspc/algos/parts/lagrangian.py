"""A cost budget for methods that learn discounted values: what it is worth to them, and what enforces it.

The multiplier is set by a PID controller (Stooke et al., 2020): it answers to the excess of cost over the budget
(P), to the excess that has piled up (I), and to a growing excess (D).
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lspc.algos.base import Metrics
from lspc.data import Dataset
from lspc.tasks import Task

Gains = tuple[float, ...]
"""Of the excess, its sum and its growth."""


@dataclass(frozen=True)
class Config:
    """What every method with such a budget can be told."""

    steps: int = 100_000
    """Gradient updates."""
    batch_size: int = 512
    """Transitions per update."""
    budget: float = 10.0
    """Cost that an episode may run up."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and value networks."""
    learning_rate: float = 1e-3
    """Adam's step size, for all parts."""
    discount: float = 0.99
    """Weight of the next step's value, for reward and cost alike."""
    reward_scale: float = 0.1
    """Rewards are multiplied by this."""
    normalise_observations: bool = True
    """Give the networks observations of zero mean and unit spread."""


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    """The task's smallest budget and, on MetaDrive, the number of updates that DSRL's authors give them all there."""
    steps = {"steps": 200_000} if preset == "default" and task.suite == "metadrive" else {}
    return {"budget": float(min(task.thresholds)), **steps}


def prepare(dataset: Dataset, config: Config) -> Dataset:
    """They learn from all data, within the budget or not."""
    return dataset


def discounted_budget(budget: float, discount: float, steps: int) -> float:
    """The discounted cost of an episode whose `steps` share the budget equally."""
    return budget / steps * sum(discount**step for step in range(steps))


class Pid(eqx.Module):
    excess: Array
    """The last one seen."""
    integral: Array
    """All of them added up, never below zero."""


def init() -> Pid:
    return Pid(jnp.zeros(()), jnp.zeros(()))


def control(pid: Pid, excess: Array, gains: Gains) -> tuple[Pid, Array]:
    """The controller's next memory and the multiplier, which is never negative."""
    proportional_gain, integral_gain, derivative_gain = gains
    integral = jax.nn.relu(pid.integral + excess)
    growth = jax.nn.relu(excess - pid.excess)
    multiplier = proportional_gain * jax.nn.relu(excess) + integral_gain * integral + derivative_gain * growth
    return Pid(excess, integral), multiplier


def lagrangian_loss(
    reward: Array, cost: Array, pid: Pid, budget: Array, gains: Gains
) -> tuple[Array, tuple[Pid, Metrics]]:
    """-Q_r + multiplier (Q_c - budget), averaged over the batch; the multiplier is no function of the actor."""
    excess = jnp.mean(cost) - budget
    pid, multiplier = control(pid, jax.lax.stop_gradient(excess), gains)
    return -jnp.mean(reward) + multiplier * excess, (pid, {"multiplier": multiplier, "excess": excess})
