"""Ensembles of networks, each member with its own bootstrap weights for the episodes; they show the spread.

What the dynamics models and fitted Q evaluation share: settings, the stacked members, and the compiled training loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from lspc.data import Dataset

CHUNK = 250
"""Updates per compiled call."""

State = TypeVar("State")
Table = TypeVar("Table")
Update = Callable[..., State]
"""(state, data, key of the step, number of the member, number of the step, config) -> state."""
ROWS = 4096
"""Tables are filled up to a multiple of so many rows: logs of about one size then share a compiled program."""


@dataclass(frozen=True)
class Config:
    updates: int = 6_000
    """Gradient updates of each network."""
    members: int = 5
    """Networks in the ensemble."""
    batch_size: int = 256
    """Transitions per update."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    learning_rate: float = 1e-3
    """Adam's step size at the start; it falls to a twentieth."""


def fit(
    init: Callable[[PRNGKeyArray], State],
    update: Update[State],
    data: Any,
    config: Config,
    *,
    seed: int,
    on_progress: Callable[[int], None] | None = None,
) -> State:
    """The trained states of all members, stacked along a new first axis.

    `update` must be a function of a module: one compiled program then serves every call with the same settings.
    """
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), config.members), config.members)
    states = stack([init(key) for key in keys])
    for start in range(0, config.updates, CHUNK):
        length = min(CHUNK, config.updates - start)
        states = _advance(states, data, jnp.asarray(seed), jnp.asarray(start), jnp.asarray(length), update, config)
        jax.block_until_ready(states)
        if on_progress:
            on_progress(start + length)
    return states


@partial(jax.jit, static_argnames=("update", "config"))
def _advance(
    states: State, data: Any, seed: Array, start: Array, length: Array, update: Update[State], config: Config
) -> State:
    """The next updates of every member, one member after the other."""

    def advance_member(numbered: tuple[State, Array]) -> State:
        state, number = numbered
        member = jax.random.fold_in(jax.random.key(seed), number)

        def step(count: Array, state: State) -> State:
            key = jax.random.fold_in(jax.random.fold_in(member, 1), count)
            return update(state, data, key, number, count, config)

        return jax.lax.fori_loop(start, start + length, step, state)

    return jax.lax.map(advance_member, (states, jnp.arange(config.members)))


def stack(members: list[State]) -> State:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, dtype=leaves[0].dtype), *members)


def bootstrap_weights(seed: int, members: int, episodes: int) -> np.ndarray:
    """How much each episode counts for each member: exponential, the Bayesian bootstrap's weights."""
    return np.random.default_rng(seed).exponential(size=(members, episodes)).astype(np.float32)


def number_episodes(dataset: Dataset) -> np.ndarray:
    """The number of its episode for every transition."""
    return np.repeat(np.arange(len(dataset.episodes)), dataset.lengths)


def pad(column: np.ndarray) -> Array:
    """A column on the device, filled up with copies of its first row."""
    rows = -(-len(column) // ROWS) * ROWS
    return jnp.asarray(np.concatenate([column, np.repeat(column[:1], rows - len(column), axis=0)]))


def draw(table: Table, size: int | Array, batch_size: int, key: PRNGKeyArray) -> Table:
    """Rows drawn independently from the first `size` of a table of columns."""
    chosen = jax.random.randint(key, (batch_size,), 0, size)
    return jax.tree.map(lambda column: column[chosen], table)
