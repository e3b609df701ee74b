"""Recorded episodes driven again in the dynamics models, closed loop from their first step to their last.

What they really earned and cost is known, so this shows how far the models can be trusted. Recorded actions alone
would let small errors pile up, as no policy does: it reacts to what it sees. So to each recorded action is added what
the recorded behaviour would have done about the difference between the state it saw and the state the model is in.
How behaviours react is learned from how their actions vary with the state within an episode, which is the reaction
itself; between episodes it would be mixed with who was driving.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lspc import lanes
from lspc.algos.base import Normaliser, Spec
from lspc.calibration import ensemble
from lspc.calibration.dynamics import Chance, DynamicsModel
from lspc.data import Dataset
from lspc.nets import match_rank

FEATURES = 96
"""Random features of a state that a reaction is a linear function of."""
ROWS = 20_000
"""Recorded steps that reactions are learned from, about."""
MOST = 48
"""Episodes that each member drives again, at most."""
REPEATS = 4
"""Times that each is driven, with other noise."""


class Reaction(eqx.Module):
    """How recorded actions change with the state."""

    normaliser: Normaliser
    directions: Float[Array, "observation features"]
    offsets: Float[Array, " features"]
    weights: Float[Array, "inputs action"]

    def __call__(self, observations: Float[Array, "*batch observation"]) -> Float[Array, "*batch action"]:
        seen = jnp.clip(self.normaliser(observations), -5.0, 5.0)
        features = seen @ self.directions
        features = jnp.tanh(features + match_rank(self.offsets, features))
        return jnp.concatenate([seen, features], axis=-1) @ self.weights


def learn_reaction(dataset: Dataset, seed: int = 0) -> Reaction:
    """Ridge regression of actions on features of the state, both less their means over the episode."""
    rng = np.random.default_rng(seed)
    size = dataset.observation_dim
    directions = (rng.normal(size=(size, FEATURES)) * 1.5 / np.sqrt(size)).astype(np.float32)
    blank = Reaction(
        Normaliser.of(Spec.of(dataset), active=True), jnp.asarray(directions),
        jnp.asarray(rng.normal(size=FEATURES), jnp.float32), jnp.eye(size + FEATURES),
    )  # fmt: skip
    wanted = rng.permutation(len(dataset.episodes))
    wanted = wanted[: np.searchsorted(np.cumsum(dataset.lengths[wanted]), ROWS) + 1]
    rows = np.concatenate([np.arange(dataset.episodes[i].start, dataset.episodes[i].stop) for i in wanted])
    own = np.repeat(np.arange(len(wanted)), dataset.lengths[wanted])
    features = np.asarray(_apply(blank, ensemble.pad(dataset.observations[rows])), np.float64)[: len(rows)]
    inputs, actions = _centre(features, own), _centre(dataset.actions[rows].astype(np.float64), own)
    ridge = 1e-3 * len(rows) * np.eye(inputs.shape[1])
    weights = np.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ actions)
    return eqx.tree_at(lambda reaction: reaction.weights, blank, jnp.asarray(weights, jnp.float32))


@eqx.filter_jit
def _apply(reaction: Reaction, observations: Array) -> Array:
    return reaction(observations)


def _centre(values: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Less the mean of their episode."""
    totals = np.zeros((own.max() + 1, values.shape[1]))
    np.add.at(totals, own, values)
    return values - (totals / np.bincount(own)[:, None])[own]


class Driven(NamedTuple):
    """Episodes that were driven again by members that had not seen them."""

    episodes: np.ndarray
    """Their numbers."""
    predicted: Float[np.ndarray, "episodes repeats 2"]
    """Reward and cost in the model, each time."""
    true: Float[np.ndarray, "episodes 2"]
    scale: Float[np.ndarray, " episodes"]
    """Of a whole episode's length to the recorded one: above 1 where the record was cut."""
    strayed: Float[np.ndarray, " episodes"]
    """How far its recorded steps lead beyond the range of what the member has learned from, on average."""
    driven_out: Float[np.ndarray, " episodes"]
    """The same of its steps in the model: a poor one strays with whoever drives."""


def drive_again(
    models: DynamicsModel,
    dataset: Dataset,
    unseen: Bool[np.ndarray, "members episodes"],
    horizon: int,
    *,
    seed: int = 0,
) -> Driven:
    """Each member drives some of the episodes that it has not seen."""
    rng = np.random.default_rng(seed)
    most = min(MOST, int(unseen.sum(1).min()))
    chosen = np.stack([np.sort(rng.permutation(np.flatnonzero(own))[:most]) for own in unseen])
    starts = np.array([episode.start for episode in dataset.episodes])[chosen]
    lengths = dataset.lengths[chosen]
    # After the last recorded step a behaviour does as it did there.
    rows = (starts[..., None] + np.minimum(np.arange(horizon), lengths[..., None] - 1)).swapaxes(1, 2)
    ended = dataset.terminated[starts + lengths - 1]
    counted = np.where(ended, horizon, np.minimum(lengths, horizon))
    chance = Chance.draw(rng, horizon, REPEATS * most)
    given = (
        models, jnp.asarray(dataset.observations[rows]), jnp.asarray(dataset.actions[rows]), jnp.asarray(counted),
        learn_reaction(dataset, seed), chance,
    )  # fmt: skip
    predicted, driven_out = _drive(*lanes.replicate(given, len(unseen)))
    whole = np.asarray(predicted, np.float64).reshape(len(unseen), REPEATS, most, 2).swapaxes(1, 2)
    true = np.stack([dataset.returns, dataset.cost_returns], axis=-1)[chosen]
    inside = (np.arange(horizon)[:, None] < lengths[:, None, :]).astype(np.float64)
    each = jax.vmap(DynamicsModel.stray)(models, jnp.asarray(dataset.next_observations[rows]))
    strayed = (np.asarray(each) * inside).sum(1) / inside.sum(1)
    driven_out = np.asarray(driven_out, np.float64).reshape(len(unseen), REPEATS, most).mean(axis=1)
    flat = lambda values: values.reshape(-1, *values.shape[2:])  # noqa: E731
    scale = (horizon / counted).ravel()
    return Driven(chosen.ravel(), flat(whole), flat(true), scale, strayed.ravel(), driven_out.ravel())


@eqx.filter_jit
def _drive(
    models: DynamicsModel, observations: Array, actions: Array, counted: Array, reaction: Reaction, chance: Chance
) -> tuple[Array, Array]:
    """(members, repeats x episodes, 2), and how far each strayed; recorded are (members, steps, episodes, ...)."""

    def drive_member(
        given: tuple[DynamicsModel, Array, Array, Array], reaction: Reaction, chance: Chance
    ) -> tuple[Array, Array]:
        model, observations, actions, counted = given
        meant = actions - reaction(observations)
        counted = jnp.tile(counted, REPEATS)

        def step(carry: tuple[Array, ...], now: tuple[Array, Chance]) -> tuple[tuple[Array, ...], None]:
            seen, alive, total, strayed, steps, count = carry
            action = jnp.clip(jnp.tile(now[0], (REPEATS, 1)) + reaction(seen), -1.0, 1.0)
            alive, noise = alive * (count < counted).astype(alive.dtype), now[1].at(model)
            following = model.move(seen, action, noise)
            strayed, steps = strayed + alive * model.stray(following), steps + alive
            following, signals, goes_on = model.arrive(seen, action, following, noise)
            return (following, alive * goes_on, total + alive[:, None] * signals, strayed, steps, count + 1), None

        begin = jnp.tile(observations[0], (REPEATS, 1))
        none = jnp.zeros(len(begin))
        start = begin, jnp.ones(len(begin)), jnp.zeros((len(begin), 2)), none, none, jnp.asarray(0)
        _, _, total, strayed, steps, _ = jax.lax.scan(step, start, (meant, chance))[0]
        return total, strayed / jnp.maximum(steps, 1.0)

    def drive_members(given: tuple[Any, ...], numbers: Array, *shared: Any) -> tuple[Array, Array]:
        return jax.lax.map(lambda each: drive_member(each, *shared), given)

    members, given = len(counted), (models, observations, actions, counted)
    return lanes.shard(drive_members, members)(given, jnp.arange(members), reaction, chance)
