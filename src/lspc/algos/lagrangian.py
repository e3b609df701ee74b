"""A cost budget for methods that learn discounted values: what it is worth to them, and what enforces it.

The multiplier is set by a PID controller (Stooke et al., 2020): it answers to the excess of cost over the budget
(P), to the excess that has piled up (I), and to a growing excess (D).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lspc.algos.base import Metrics

Gains = tuple[float, ...]
"""Of the excess, its sum and its growth."""


def discounted_budget(budget: float, discount: float, steps: int) -> float:
    """The discounted cost of an episode whose `steps` share the budget equally."""
    return budget / steps * sum(discount**step for step in range(steps))


class Pid(eqx.Module):
    excess: Array
    """The last one seen."""
    pile: Array
    """All of them added up, never below zero."""


def init() -> Pid:
    return Pid(jnp.zeros(()), jnp.zeros(()))


def control(pid: Pid, excess: Array, gains: Gains) -> tuple[Pid, Array]:
    """The controller's next memory and the multiplier, which is never negative."""
    proportional, integral, derivative = gains
    pile = jax.nn.relu(pid.pile + excess)
    growth = jax.nn.relu(excess - pid.excess)
    return Pid(excess, pile), proportional * jax.nn.relu(excess) + integral * pile + derivative * growth


def lagrangian_loss(
    reward: Array, cost: Array, pid: Pid, budget: Array, gains: Gains
) -> tuple[Array, tuple[Pid, Metrics]]:
    """-Q_r + multiplier (Q_c - budget), averaged over the batch; the multiplier is no function of the actor."""
    excess = jnp.mean(cost) - budget
    pid, multiplier = control(pid, jax.lax.stop_gradient(excess), gains)
    return -jnp.mean(reward) + multiplier * excess, (pid, {"multiplier": multiplier, "excess": excess})
