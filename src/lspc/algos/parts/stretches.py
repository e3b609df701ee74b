"""Episodes in stretches, with what each stretch cost and what its states usually lead to.

A car that skirts a hazard and never touches it costs as little as one that stays away, but whoever imitates it will
touch the hazard sooner or later, as other episodes did that came as close. So cost over the next steps is learned as
a function of the state, and each episode is judged by what was learned from the others.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from lspc.data import Dataset
from lspc.nets import MLP, Learner, average_recent

STRETCHES = 50
"""Of each episode, of equal length: a log may hold far more steps than are needed here."""
LOOK_AHEAD = 0.1
"""Share of an episode over which cost is foreseen."""
HALVES = 2
"""Each half of the episodes is judged by the other half."""
UPDATES, BATCH, HIDDEN, LEARNING_RATE = 1_000, 256, (64, 64), 2e-3


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
    until = np.append(rows[1:], ends[-1])
    window = max(1, round(LOOK_AHEAD * float(lengths.mean())))
    ahead = np.minimum(rows + window, ends[owners])
    costs, rewards = (_sums(values) for values in (dataset.costs, dataset.rewards))
    rates = foresee(dataset.observations[rows], (costs[ahead] - costs[rows]) / window, owners)
    usual = rates * (until - rows)
    # Windows are cut short at an episode's end; all together are known to cost what they cost.
    usual *= costs[-1] / max(usual.sum(), np.finfo(float).tiny)
    return Stretches(
        owners, rows, ends[owners] - rows, costs[until] - costs[rows], rewards[until] - rewards[rows], usual
    )


def _sums(values: NDArray[Any]) -> NDArray[np.float64]:
    """Of all before each row, and of all."""
    return np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])


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
    observations, targets = observations.astype(np.float32), (targets / spread).astype(np.float32)
    for judged in range(HALVES):
        learned = half[owners] != judged
        net = fit(observations[learned], targets[learned], judged)
        foreseen[~learned] = np.maximum(apply(net, observations[~learned])[:, 0], 0.0)
    return foreseen * spread


def fit(observations: NDArray[np.float32], targets: NDArray[np.float32], seed: int) -> MLP:
    """A small network that foresees the targets."""
    count = len(targets)
    padding = (1 << (count - 1).bit_length()) - count  # to a power of two: few sizes, few programs to compile
    padded = (
        jnp.asarray(np.pad(column, [(0, padding)] + [(0, 0)] * (column.ndim - 1)))
        for column in (observations, targets)
    )
    return _fit(*padded, jnp.int32(count), jax.random.key(seed))


def apply(net: MLP, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """By numpy: JAX would compile a program for every number of states."""
    for layer in net.layers[:-1]:
        x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    return x @ np.asarray(net.layers[-1].weight) + np.asarray(net.layers[-1].bias)


@jax.jit
def _fit(
    observations: Float[Array, "states observation"],
    targets: Float[Array, " states"],
    count: Array,
    key: PRNGKeyArray,
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

    (_, average), _ = jax.lax.scan(step, (learner, learner.net), jax.random.split(batch_key, UPDATES))
    return average
