"""Episodes in stretches, with what each stretch cost and what its states usually lead to.

A car that skirts a hazard and never touches it costs as little as one that stays away, but whoever imitates it will
touch the hazard sooner or later, as other episodes did that came as close. So cost over the next steps is learned as
a function of the state, and each episode is judged by what was learned from the others.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from lspc.data import Dataset, mapped
from lspc.nets import MLP, Learner, average_recent

STRETCHES = 50
"""Of each episode, of equal length: a log may hold far more steps than are needed here."""
LOOK_AHEAD = 5
"""Stretches over which cost is foreseen."""
MOST_STATES = 50_000
"""That are looked at, some of each episode: in data larger than memory each is a read of its own."""
HALVES = 2
"""Each half of the episodes is judged by the other half."""
BATCH, HIDDEN, LEARNING_RATE = 256, (64, 64), 2e-3
EPOCHS, FEWEST_UPDATES, MOST_UPDATES = 20, 100, 1_000


class Stretches(NamedTuple):
    owners: NDArray[np.int64]
    """The episode of each."""
    rows: NDArray[np.int64]
    """Its first step."""
    remaining: NDArray[np.int64]
    """Steps from there to the end of the episode."""
    costs: NDArray[np.float64]
    rewards: NDArray[np.float64]
    usual: NDArray[np.float64]
    """What stretches that begin in such a state usually cost."""


def divide(dataset: Dataset) -> Stretches:
    lengths = np.asarray(dataset.lengths)
    counts, ends = np.minimum(lengths, STRETCHES), np.cumsum(lengths)
    owners = np.repeat(np.arange(len(lengths)), counts)
    place = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = (ends - lengths)[owners] + place * lengths[owners] // counts[owners]
    costs, rewards = (np.add.reduceat(values, rows, dtype=np.float64) for values in (dataset.costs, dataset.rewards))
    steps = np.diff(np.append(rows, ends[-1]))
    rates = sum_ahead(costs, owners) / sum_ahead(steps.astype(np.float64), owners)
    looked = place % -(-len(rows) // MOST_STATES) == 0
    observations = mapped.gather(dataset.observations, rows[looked])
    foreseen = foresee(observations, rates[looked], owners[looked])
    usual = foreseen[np.cumsum(looked) - 1] * steps
    if usual.any():  # a network's mean is off by a little; all stretches together are known to cost what they cost
        usual *= costs.sum() / usual.sum()
    return Stretches(owners, rows, ends[owners] - rows, costs, rewards, usual)


def sum_ahead(values: NDArray[Any], owners: NDArray[np.int64]) -> NDArray[Any]:
    """The sum of each stretch and the next ones of its episode, LOOK_AHEAD in all."""
    total = values.copy()
    for step in range(1, LOOK_AHEAD):
        total[:-step] += np.where(owners[step:] == owners[:-step], values[step:], 0.0)
    return total


def foresee(
    observations: NDArray[Any], targets: NDArray[np.float64], owners: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The target of each state as learned from the other half of the episodes, and never below 0."""
    spread, half = float(targets.std()), np.random.default_rng(0).permutation(owners[-1] + 1) % HALVES
    foreseen = np.zeros(len(targets))
    if spread == 0.0 or len(half) < HALVES:
        return foreseen
    deviation = observations.std(axis=0)
    observations = (observations - observations.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    observations, scaled = observations.astype(np.float32), (targets / spread).astype(np.float32)
    for judged in range(HALVES):
        learned = half[owners] != judged
        net = fit(observations[learned], scaled[learned], judged)
        foreseen[~learned] = np.maximum(apply(net, observations[~learned])[:, 0], 0.0)
    return foreseen * spread


def fit(observations: NDArray[np.float32], targets: NDArray[np.float32], seed: int) -> MLP:
    """A small network that foresees the targets."""
    count = len(targets)
    size = 1 << (count - 1).bit_length()  # padded to a power of two: few sizes, few programs to compile
    padding, updates = size - count, min(max(EPOCHS * size // BATCH, FEWEST_UPDATES), MOST_UPDATES)
    padded = (
        jnp.asarray(np.pad(column, [(0, padding)] + [(0, 0)] * (column.ndim - 1)))
        for column in (observations, targets)
    )
    return _fit(*padded, jnp.int32(count), jax.random.key(seed), updates)


def apply(net: MLP, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """By numpy: JAX would compile a program for every number of states."""
    for layer in net.layers[:-1]:
        x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    return x @ np.asarray(net.layers[-1].weight) + np.asarray(net.layers[-1].bias)


@partial(jax.jit, static_argnames="updates")
def _fit(
    observations: Float[Array, "states observation"],
    targets: Float[Array, " states"],
    count: Array,
    key: PRNGKeyArray,
    updates: int,
) -> MLP:
    init_key, batch_key = jax.random.split(key)
    learner = Learner.of(MLP(observations.shape[1], 1, HIDDEN, key=init_key))

    def loss(net: MLP, rows: Array) -> Array:
        return jnp.mean((net(observations[rows])[:, 0] - targets[rows]) ** 2)

    def step(carry: tuple[Learner[MLP], MLP], key: PRNGKeyArray) -> tuple[tuple[Learner[MLP], MLP], None]:
        learner, average = carry
        rows = jax.random.randint(key, (BATCH,), 0, count)
        learner = learner.step(jax.grad(loss)(learner.net, rows), LEARNING_RATE)
        return (learner, average_recent(average, learner.net, learner.updates, 5.0)), None

    (_, average), _ = jax.lax.scan(step, (learner, learner.net), jax.random.split(batch_key, updates))
    return average
