"""Which recorded episodes an eps admits: those that cost little enough for it, the rewarding ones first.

Weights of single transitions compare the actions of one state. They say nothing about which states a policy ends up
in: where cost is a matter of manner, such as a speed that is held, everyone's next action looks harmless, and only
leaving the costly episodes out teaches to hold another speed. The smaller eps is, the more an episode is also charged
with what its states usually cost: those that come close to what costs are left out even if it did not happen to them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from lspc.algos import base
from lspc.algos.base import Batch, Spec
from lspc.algos.parts.stretches import Stretches, divide
from lspc.batches import gather_rows, row_count
from lspc.data import Dataset

LEVELS = 16
"""Steps from the smallest eps to the largest."""
POWER = 3
"""The cube gives the smaller half of the range to budgets that are small beside what the data cost."""
COSTLY = 0.95
"""The costliest twentieth of the episodes does not count, so that one disaster does not set the scale."""
CAREFUL = 0.5
"""Place in the range of eps from which on reward is sought in full and only what did happen is charged."""
SHORTEST = 0.5
"""Of an episode that an ending must be: nobody knows what would have followed a shorter one."""
WAY_BACK = 4
"""Stretches before a cheap ending that belong to it."""
CHEAPEST, NEARLY_FREE = 0.1, 0.02
"""Careful are the cheapest tenth of the episodes, and all that cost at most this share of a costly one."""
FEWEST = 10
"""Episodes that are careful in any case."""


class Admission(NamedTuple):
    """For each level of eps and, as one more level, for LSPC-S, which no eps can make more careful."""

    cumulative: Float[Array, "levels episodes"]
    """The chance of drawing a transition of one of the first episodes."""
    starts: Int[Array, "levels episodes"]
    """The row with which the admitted part of each episode begins."""
    lengths: Int[Array, "levels episodes"]
    """Steps from there to its end."""
    manner: Float[Array, ""]
    """Correlation of the costs of an episode's two halves: 0 where cost is a matter of moments, 1 of manner."""


def admit(dataset: Dataset, share: float) -> Admission:
    """At a place u from 0 to 1 in the range of eps, episodes of at most u^3 of the costliest one's cost, and endings
    that cost no more than that for their length; of these mostly the `share` with the highest return.

    At eps 0 all of them alike, and each charged with what its states usually cost: nothing tempts there.
    """
    stretches = divide(dataset)
    costly = float(np.quantile(dataset.cost_returns, COSTLY))
    levels: list[tuple[NDArray[Any], ...]] = []
    for place in (np.arange(LEVELS) + 0.5) / LEVELS:
        care = max(0.0, 1.0 - place / CAREFUL)
        charges = stretches.costs + care * stretches.usual
        totals = np.bincount(stretches.owners, charges)
        cap = max(place**POWER * costly, careful_cap(totals, costly))
        endings = find_endings(stretches, charges, cap)
        counts = prefer_rewarding(endings.returns, endings.admitted, share + care * (1.0 - share)) * endings.lengths
        levels.append((np.cumsum(counts / counts.sum()), endings.starts, endings.lengths))
    levels.append(admit_careful(stretches, costly))
    cumulative, starts, lengths = (np.stack(column) for column in zip(*levels, strict=True))
    return Admission(
        jnp.asarray(cumulative.astype(np.float32)),
        jnp.asarray(starts.astype(np.int32)),
        jnp.asarray(lengths.astype(np.int32)),
        jnp.float32(measure_manner(dataset)),
    )


def careful_cap(totals: NDArray[Any], costly: float) -> float:
    """What a careful episode is charged at most, where `totals` are the charges of all."""
    few = np.sort(totals)[min(FEWEST, len(totals)) - 1]
    return float(max(few, np.quantile(totals, CHEAPEST), NEARLY_FREE * costly))


def admit_careful(stretches: Stretches, costly: float) -> tuple[NDArray[Any], ...]:
    """The cheapest, charged in full with what their states usually cost, whatever they return."""
    charges = stretches.costs + stretches.usual
    cap = careful_cap(np.bincount(stretches.owners, charges), costly)
    endings = find_endings(stretches, charges, cap)
    counts = endings.admitted * endings.lengths
    return np.cumsum(counts / counts.sum()), endings.starts, endings.lengths


class Endings(NamedTuple):
    """Of each episode the longest part up to its end that is cheap enough, all of it if possible."""

    admitted: NDArray[np.bool_]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    returns: NDArray[np.float64]
    """Of an episode that is all like this part."""


def find_endings(stretches: Stretches, charges: NDArray[np.float64], cap: float) -> Endings:
    """Endings that cost at most the share of `cap` that they are of their episode, and are half of it or more.

    The steps before such an ending belong to it: they show how one gets back from where it costs.
    """
    owners, remaining = stretches.owners, stretches.remaining
    first = np.searchsorted(owners, np.arange(owners[-1] + 1))
    ahead, gained = (_to_come(values, owners, first) for values in (charges, stretches.rewards))
    share = remaining / remaining[first][owners]
    cheap = (ahead <= cap * share * (1.0 + 1e-9)) & (share >= SHORTEST)
    begins = np.full(len(first), len(owners))
    np.minimum.at(begins, owners[cheap], np.flatnonzero(cheap))
    admitted = begins < len(owners)
    begins = np.where(admitted, begins, first)
    whole = begins == first
    shown = np.where(whole, first, np.maximum(begins - WAY_BACK, first))
    return Endings(admitted, stretches.rows[shown], remaining[shown], gained[begins] / share[begins])


def _to_come(values: NDArray[np.float64], owners: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sum of each stretch's value and those after it in its episode."""
    before = np.cumsum(values) - values
    return np.bincount(owners, values)[owners] - (before - before[first][owners])


class RecordedBatch(NamedTuple):
    """Transitions of all episodes, for the critics and the CVAE, and as many of admitted ones, for the encoder."""

    transitions: Batch
    admitted: Batch
    careful: Batch
    """Of careful episodes: what the CVAE is shown at latent zero, where LSPC-S acts."""
    places: Float[Array, " batch"]
    """In the range of eps, from 0 to 1, that at which each of the admitted was drawn."""
    manner: Float[Array, ""]


def flatness(batch: RecordedBatch) -> Float[Array, " batch"]:
    """How little the critics' word about single actions counts: not at all at eps 0, or where cost is manner."""
    return 1.0 - (1.0 - batch.manner) * jnp.minimum(1.0, batch.places / CAREFUL)


class Record(NamedTuple):
    """What is drawn from: the transitions, and which of them are admitted."""

    rows: Any
    admission: Admission


def table(dataset: Dataset, share: float) -> Record:
    return Record(base.table(dataset, None), admit(dataset, share))


def draw(record: Record, key: PRNGKeyArray, spec: Spec, config: Any) -> RecordedBatch:
    """For the critics, what they would learn from without a record. For the encoder, a place in the range of eps, one
    of the episodes that it admits, and one of that episode's transitions; for latent zero, the same of careful ones.
    """
    size, keys = config.batch_size, jax.random.split(jax.random.fold_in(key, 1), 3)
    uniform = jax.random.randint(key, (size,), 0, row_count(record.rows))
    places, chances, shares = jax.vmap(lambda each: jax.random.uniform(each, (size,)))(keys)
    chosen = choose_rows(record.admission, (places * LEVELS).astype(jnp.int32), chances, shares)
    count = int(config.zero_share * size)
    chances, shares = jax.random.uniform(jax.random.fold_in(key, 2), (2, count))
    careful = choose_rows(record.admission, jnp.full(count, LEVELS), chances, shares)
    drawn = base.unpack(gather_rows(record.rows, jnp.concatenate([uniform, chosen, careful])), spec)

    def cut(part: slice) -> Batch:
        return Batch(*(column[part] for column in drawn))

    return RecordedBatch(
        cut(slice(size)), cut(slice(size, 2 * size)), cut(slice(2 * size, None)), places, record.admission.manner
    )


def choose_rows(
    admission: Admission,
    levels: Int[Array, " batch"],
    chances: Float[Array, " batch"],
    shares: Float[Array, " batch"],
) -> Int[Array, " batch"]:
    """An episode of each level and one of its steps, both by chance."""
    episodes = find_episodes(admission.cumulative, levels, chances)
    lengths = admission.lengths[levels, episodes]
    within = shares * lengths.astype(jnp.float32)
    return admission.starts[levels, episodes] + jnp.minimum(within.astype(jnp.int32), lengths - 1)


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
