"""Ensembles of networks, each member with its own bootstrap weights for the episodes; they show the spread.

What the dynamics models and fitted Q evaluation share: settings, the stacked members, and the compiled training loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from lspc import lanes
from lspc.batches import HostRows, Source, build_table, fill_in
from lspc.data import Dataset

CHUNK = 250
"""Updates per compiled call."""

State = TypeVar("State")
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
    first = jax.tree.map(lambda leaf: leaf[0], states)
    source = Source(data, _make_draw(first, update, config, seed), range(config.members), CHUNK)
    states, resident = lanes.replicate((states, source.resident), config.members)
    for start in range(0, config.updates, CHUNK):
        length = min(CHUNK, config.updates - start)
        drawn, numbers = source.ask(start, config.updates), (jnp.asarray(number) for number in (seed, start, length))
        states = _advance(states, resident, drawn, *numbers, update, config)
        jax.block_until_ready(states)
        if on_progress:
            on_progress(start + length)
    return lanes.bring_home(states)


def _make_draw(state: State, update: Update[State], config: Config, seed: int) -> Callable[[Any, Array, Array], Any]:
    """What draws the batch of a member's update: the update itself, of which nothing else is asked."""

    def draw(data: Any, number: Array, count: Array) -> Any:
        return update(state, data, _key(jnp.asarray(seed), number, count), number, count, config)

    return draw


def _key(seed: Array, number: Array, count: Array) -> PRNGKeyArray:
    """Of a member's update."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), 1), count)


@partial(jax.jit, static_argnames=("update", "config"))
def _advance(
    states: State,
    data: Any,
    drawn: Any,
    seed: Array,
    start: Array,
    length: Array,
    update: Update[State],
    config: Config,
) -> State:
    """The next updates of every member, one after the other on each device; `drawn` are rows larger than memory."""

    def advance_members(
        begun: tuple[State, Any], numbers: Array, data: Any, seed: Array, start: Array, length: Array
    ) -> State:
        def advance_member(begun: tuple[tuple[State, Any], Array]) -> State:
            (state, rows), number = begun

            def step(count: Array, state: State) -> State:
                filled = fill_in(data, rows, count - start)
                return update(state, filled, _key(seed, number, count), number, count, config)

            return jax.lax.fori_loop(start, start + length, step, state)

        return jax.lax.map(advance_member, (begun, numbers))

    work = lanes.shard(advance_members, config.members)
    return work((states, drawn), jnp.arange(config.members), data, seed, start, length)


def stack(members: list[State]) -> State:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, dtype=leaves[0].dtype), *members)


def bootstrap_weights(seed: int, members: int, episodes: int) -> np.ndarray:
    """How much each episode counts for each member: exponential, the Bayesian bootstrap's weights."""
    return np.random.default_rng(seed).exponential(size=(members, episodes)).astype(np.float32)


def number_episodes(dataset: Dataset) -> np.ndarray:
    """The number of its episode for every transition."""
    return np.repeat(np.arange(len(dataset.episodes)), dataset.lengths)


def tabulate(columns: Sequence[np.ndarray], build: Callable[..., Any]) -> Any:
    """The table of these columns on the device, filled up; of data larger than memory it stays on the host."""
    table = build_table(columns, build)
    return table if isinstance(table, HostRows) else jax.tree.map(pad, table)


def pad(column: np.ndarray) -> Array:
    """A column on the device, filled up with copies of its first row."""
    rows = -(-len(column) // ROWS) * ROWS
    return jnp.asarray(np.concatenate([column, np.repeat(column[:1], rows - len(column), axis=0)]))
