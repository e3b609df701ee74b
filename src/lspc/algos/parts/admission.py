"""Which recorded episodes an eps admits: those that cost little enough for it, the rewarding ones first.

Weights of single transitions compare the actions of one state. They say nothing about which states a policy ends up
in: where cost is a matter of manner, such as a speed that is held, everyone's next action looks harmless, and only
leaving the costly episodes out teaches to hold another speed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from lspc.algos import base
from lspc.algos.base import Batch, Spec
from lspc.batches import gather_rows, row_count
from lspc.data import Dataset

LEVELS = 16
"""Steps from the smallest eps to the largest."""
POWER = 3
"""The cube gives the smaller half of the range to budgets that are small beside what the data cost."""
COSTLY = 0.95
"""The costliest twentieth of the episodes does not count, so that one disaster does not set the scale."""
FEWEST = 10
"""Episodes, or 3 % of them, that even the smallest eps admits: the cheapest."""


class Admission(NamedTuple):
    cumulative: Float[Array, "levels episodes"]
    """At each level of eps, the chance of drawing a transition of one of the first episodes."""
    manner: Float[Array, ""]
    """Correlation of the costs of an episode's two halves: 0 where cost is a matter of moments, 1 of manner."""


def admit(dataset: Dataset, share: float) -> Admission:
    """At a place u from 0 to 1 in the range of eps, episodes of at most u^3 of the costliest one's cost; of these
    mostly the `share` with the highest return.
    """
    costs, returns, lengths = dataset.cost_returns, dataset.returns, dataset.lengths
    places = (np.arange(LEVELS) + 0.5) / LEVELS
    fewest = min(max(FEWEST, int(np.ceil(0.03 * len(costs)))), len(costs))
    caps = np.maximum(places**POWER * np.quantile(costs, COSTLY), np.sort(costs)[fewest - 1])
    counts = np.stack([prefer_rewarding(returns, costs <= cap, share) * lengths for cap in caps])
    cumulative = np.cumsum(counts / counts.sum(axis=1, keepdims=True), axis=1).astype(np.float32)
    return Admission(jnp.asarray(cumulative), jnp.float32(measure_manner(dataset)))


class RecordedBatch(NamedTuple):
    """Transitions of all episodes, for the critics, and as many of admitted ones, for the encoder."""

    transitions: Batch
    admitted: Batch
    places: Float[Array, " batch"]
    """In the range of eps, from 0 to 1, that at which each of the admitted was drawn."""
    manner: Float[Array, ""]


class Record(NamedTuple):
    """What is drawn from: the transitions, where each episode's begin and how many they are, and who is admitted."""

    rows: Any
    starts: Int[Array, " episodes"]
    lengths: Int[Array, " episodes"]
    admission: Admission


def table(dataset: Dataset, share: float) -> Record:
    starts = np.cumsum(dataset.lengths) - dataset.lengths
    return Record(
        rows=base.table(dataset, None),
        starts=jnp.asarray(starts.astype(np.int32)),
        lengths=jnp.asarray(dataset.lengths.astype(np.int32)),
        admission=admit(dataset, share),
    )


def draw(record: Record, key: PRNGKeyArray, spec: Spec, config: Any) -> RecordedBatch:
    """For the critics, what they would learn from without a record. For the encoder, a place in the range of eps, one
    of the episodes that it admits, and one of that episode's transitions.
    """
    size, keys = config.batch_size, jax.random.split(jax.random.fold_in(key, 1), 3)
    everywhere = jax.random.randint(key, (size,), 0, row_count(record.rows))
    places, chances, shares = jax.vmap(lambda each: jax.random.uniform(each, (size,)))(keys)
    levels = (places * LEVELS).astype(jnp.int32)
    episodes = find_episodes(record.admission.cumulative, levels, chances)
    lengths = record.lengths[episodes]
    within = shares * lengths.astype(jnp.float32)
    chosen = record.starts[episodes] + jnp.minimum(within.astype(jnp.int32), lengths - 1)
    both = base.unpack(gather_rows(record.rows, jnp.concatenate([everywhere, chosen])), spec)
    transitions, admitted = (Batch(*(column[half] for column in both)) for half in (slice(size), slice(size, None)))
    return RecordedBatch(transitions, admitted, places, record.admission.manner)


def find_episodes(
    cumulative: Float[Array, "levels episodes"], levels: Int[Array, " batch"], chances: Float[Array, " batch"]
) -> Int[Array, " batch"]:
    """The first episode at which the cumulative chance of a level reaches `chances`, or the last one.

    By bisection: `jnp.searchsorted` would copy a whole level for each transition, and a log may hold many episodes.
    """
    last = cumulative.shape[1] - 1
    low, high = jnp.zeros_like(levels), jnp.full_like(levels, last)
    for _ in range(last.bit_length()):
        middle = (low + high) // 2
        is_later = (cumulative[levels, middle] < chances) & (low < high)
        low, high = jnp.where(is_later, middle + 1, low), jnp.where(is_later, high, middle)
    return low


def restriction_for(costs: NDArray[np.floating], budget: float, restriction_range: tuple[float, float]) -> float:
    """The eps that admits the episodes within a budget, and no costlier ones."""
    low, high = restriction_range
    costly = float(np.quantile(costs, COSTLY))
    place = 1.0 if costly <= budget else (max(budget, 0.0) / costly) ** (1 / POWER)
    return low + (high - low) * place


def prefer_rewarding(returns: NDArray[np.floating], admitted: NDArray[np.bool_], share: float) -> NDArray[np.float64]:
    """exp(t * rank of the return) for the admitted, 0 for the rest; t leaves the effective share, or eight."""
    count = int(admitted.sum())
    rank = np.zeros(len(returns))
    rank[admitted] = np.argsort(np.argsort(returns[admitted], kind="stable")) / max(count - 1, 1)
    wanted = max(share, min(1.0, 8 / count))
    low, high = 0.0, 200.0
    for _ in range(40):  # the effective share falls as t rises
        middle = (low + high) / 2
        weights = admitted * np.exp(middle * (rank - 1))
        enough = weights.sum() ** 2 / (weights**2).sum() > wanted * count
        low, high = (middle, high) if enough else (low, middle)
    return np.where(admitted, np.exp(low * (rank - 1)), 0.0)


def measure_manner(dataset: Dataset) -> float:
    """From 0 to 1: how well the cost of an episode's first half tells that of its second half, by rank."""
    halves = np.array(
        [
            (dataset.costs[rows].mean(), dataset.costs[later].mean())
            for rows, later in (_split(rows) for rows in dataset.episodes if rows.stop - rows.start > 1)
        ]
    ).reshape(-1, 2)
    if len(halves) < FEWEST or np.any(np.ptp(halves, axis=0) == 0):
        return 0.0
    early, late = (_rank(column) for column in halves.T)
    return float(np.clip(np.corrcoef(early, late)[0, 1], 0.0, 1.0))


def _split(rows: slice) -> tuple[slice, slice]:
    middle = (rows.start + rows.stop) // 2
    return slice(rows.start, middle), slice(middle, rows.stop)


def _rank(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Ranks, the mean one for those that are equal: most episodes may cost nothing."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]
