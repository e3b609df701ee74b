"""Small plants whose answers are known: policies, random episodes logged there, and the truth by playing."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lspc.calibration.families import PolicyFamily
from lspc.data import Dataset

HORIZON = 12
Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]
"""(states, actions) -> next states, rewards, costs, whether the episode ends here."""


class Constant(PolicyFamily):
    """Always does what its parameter says."""

    def __call__(self, observations: Array, parameters: Array) -> Array:
        return jnp.broadcast_to(parameters, observations.shape[:-1])[..., None]

    @property
    def range(self) -> tuple[float, float]:
        return -0.9, 0.9


class Pulling(PolicyFamily):
    """A network of one weight: pulls the state towards zero, or pushes it away, as strongly as its parameter says."""

    weight: Array

    def __call__(self, observations: Array, parameters: Array) -> Array:
        return self.weight * jnp.broadcast_to(parameters, observations.shape[:-1])[..., None] * observations

    @property
    def range(self) -> tuple[float, float]:
        return -1.0, 1.0


def drifting(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """The state follows the actions; both cost and reward depend on both."""
    following = 0.3 * states + 0.7 * actions
    return following, 1.0 - 0.5 * actions - states, 0.25 * (2.0 + actions + states), np.zeros(len(states), bool)


def risky(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """Every step costs 1; an action above 0.5 ends the episode."""
    return np.zeros_like(states), np.ones_like(states), np.ones_like(states), actions > 0.5


def straying(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """A step costs the square of where it leads."""
    following = 0.5 * (states + actions)
    return following, -following, following**2, np.zeros(len(states), bool)


def logged(step: Step, episodes: int = 300, seed: int = 0) -> Dataset:
    """Episodes of random actions from random states."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {}
    for _ in range(episodes):
        state = rng.uniform(-1, 1, 1)
        for count in range(HORIZON):
            action = rng.uniform(-1, 1, 1)
            following, reward, cost, ends = step(state, action)
            row = {
                "observations": state, "actions": action, "rewards": reward[0], "costs": cost[0],
                "next_observations": following, "terminated": ends[0], "truncated": count == HORIZON - 1,
            }  # fmt: skip
            for name, value in row.items():
                rows.setdefault(name, []).append(value)
            state = following
            if ends[0]:
                break
    arrays: dict[str, Any] = {name: np.array(values) for name, values in rows.items()}
    return Dataset(**arrays)


def truth(step: Step, family: PolicyFamily, parameter: float, states: np.ndarray, steps: int = HORIZON) -> np.ndarray:
    """Mean reward and cost of episodes from these states, by playing them."""
    total, going = np.zeros((len(states), 2)), np.ones(len(states), bool)
    for _ in range(steps):
        actions = np.asarray(family(jnp.asarray(states)[:, None], jnp.asarray(parameter)))[:, 0]
        states, rewards, costs, ends = step(states, actions)
        total += going[:, None] * np.stack([rewards, costs], axis=1)
        going &= ~ends
    return total.mean(axis=0)
