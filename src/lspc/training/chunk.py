"""A chunk of updates as one compiled program: every seed in it, and every setting of a sweep.

Every random draw is a function of (seed, step), so it does not matter where one chunk ends and the next begins.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from lspc import lanes
from lspc.algos import base
from lspc.algos.base import Method, Metrics, Spec
from lspc.batches import Source, fill_in

CHUNK = 250
"""Most updates in one call: seconds of work, so that Ctrl-C and the progress display feel alive."""


def init_states(method: "Method | SweepMethod", spec: Spec, config: Any, seeds: Sequence[int]) -> Any:
    """One state per seed, stacked along a new first axis."""
    states = [method.init(jax.random.fold_in(jax.random.key(seed), 0), spec, config) for seed in seeds]
    leaves = _stack([jax.tree.leaves(state) for state in states])
    return jax.tree.unflatten(jax.tree.structure(states[0]), leaves)


@jax.jit  # leaf by leaf it would be several programs for each shape
def _stack(states: list[list[Array]]) -> list[Array]:
    # With a type said, none is "weak": what a chunk returns never is, and would be compiled for once more.
    return [jnp.stack(leaves, dtype=leaves[0].dtype) for leaves in zip(*states, strict=True)]


def make_source(method: "Method | SweepMethod", table: Any, spec: Spec, config: Any, seeds: Sequence[int]) -> Source:
    """What the loop asks for batches where the table is larger than memory; it draws what a chunk itself would."""
    draw = getattr(method, "draw", base.draw)

    def draw_one(table: Any, seed: Array, step: Array) -> Any:
        return draw(table, split_key(seed_key(seed), step)[0], spec, config)

    return Source(table, draw_one, seeds, CHUNK)


def seed_key(seed: Array) -> PRNGKeyArray:
    return jax.random.fold_in(jax.random.key(seed), 1)


def split_key(key: PRNGKeyArray, step: Array) -> Array:
    """The keys of an update's draw and of the update itself."""
    return jax.random.split(jax.random.fold_in(key, step))


@lru_cache(maxsize=8)
def make_chunk(method: "Method | SweepMethod", spec: Spec, config: Any) -> Callable[..., tuple[Any, Any]]:
    """A compiled function that takes every seed `length` updates further and returns each metric's mean per seed,
    and what the method's `probe` finds after the last update, on its batch.

    It is remembered, and one program serves every length up to CHUNK: runs of the same shape compile once. `drawn`
    are each seed's rows, where the table leaves them to a `Source`.
    """
    draw = getattr(method, "draw", base.draw)
    probe = getattr(method, "probe", lambda state, batch: {})

    @partial(jax.jit, inline=True)  # traced once, although its shapes are asked for before its numbers
    def update(state: Any, keys: Array, table: Any) -> tuple[Any, Any]:
        return method.update(state, draw(table, keys[0], spec, config), keys[1])

    def run_seed(state: Any, seed: Array, drawn: Any, table: Any, start: Array, length: Array) -> tuple[Any, Any]:
        # All of them at once: a CPU takes as long for the keys of one update.
        keys = jax.vmap(partial(split_key, seed_key(seed)))(start + jnp.arange(CHUNK))

        def go_on(i: Array, past: tuple[Any, Any]) -> tuple[Any, Any]:
            state, metrics = update(past[0], keys[i], fill_in(table, drawn, i))
            return state, jax.tree.map(lambda values, new: values.at[i].set(new), past[1], metrics)

        _, scalars = jax.eval_shape(update, state, keys[0], fill_in(table, drawn, length))
        unwritten = jax.tree.map(lambda scalar: jnp.zeros(CHUNK, scalar.dtype), scalars)
        state, metrics = jax.lax.fori_loop(0, length, go_on, (state, unwritten))
        means = jax.tree.map(lambda values: jnp.sum(values) * (1.0 / length.astype(values.dtype)), metrics)
        last = draw(fill_in(table, drawn, length - 1), keys[length - 1, 0], spec, config)
        return state, _merge(means, probe(state, last))

    def run_seeds(begun: tuple[Any, Any], seeds: Array, table: Any, start: Array, length: Array) -> tuple[Any, Any]:
        def run(begun: tuple[Any, Any], seed: Array) -> tuple[Any, Any]:
            state, drawn = begun
            return run_seed(state, seed, drawn, table, start, length)

        if seeds.size == 1:  # no loop around the loop: a third less to compile
            alone = jax.tree.map(lambda leaf: leaf[0], (begun, seeds))
            return jax.tree.map(lambda leaf: leaf[None], run(*alone))
        # One seed after the other keeps a CPU's caches warm; an accelerator has room for all of them at once.
        if jax.default_backend() == "cpu":
            return jax.lax.map(lambda pair: run(*pair), (begun, seeds))
        return jax.vmap(run)(begun, seeds)

    def chunk(
        states: Any, seeds: Array, table: Any, start: Array, length: Array, drawn: Any = None
    ) -> tuple[Any, Any]:
        return lanes.shard(run_seeds, seeds.size)((states, drawn), seeds, table, start, length)

    return jax.jit(chunk, donate_argnums=0)


def _merge(metrics: Any, more: Any) -> Any:
    """Metrics of one method, or those of several settings in a tuple."""
    if isinstance(metrics, tuple):
        return tuple(_merge(*both) for both in zip(metrics, more, strict=True))
    return {**metrics, **more}


class SweepMethod(NamedTuple):
    """Several settings of one method as a method of its own: its config, state and metrics are tuples of theirs."""

    method: Any

    def init(self, key: Any, spec: Spec, configs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.method.init(key, spec, config) for config in configs)

    def draw(self, table: Any, key: Any, spec: Spec, configs: tuple[Any, ...]) -> Any:
        return getattr(self.method, "draw", base.draw)(table, key, spec, configs[0])

    def probe(self, states: tuple[Any, ...], batch: Any) -> tuple[Metrics, ...]:
        probe = getattr(self.method, "probe", lambda state, batch: {})
        return tuple(probe(state, batch) for state in states)

    def update(self, states: tuple[Any, ...], batch: Any, key: Any) -> tuple[tuple[Any, ...], tuple[Metrics, ...]]:
        if len(states) == 1:
            state, metrics = self.method.update(states[0], batch, key)
            return (state,), (metrics,)
        return self.method.update_sweep(states, batch, key)
