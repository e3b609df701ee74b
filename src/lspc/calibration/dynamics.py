"""A model of the world learned from the data, to try policies in before they meet the real one.

Networks predict the next observation, the reward, the cost and the end of an episode. Policies are rolled out in
them from the data's beginnings, with their own actions. Recorded actions of held-out episodes, replayed stretch by
stretch, show how far that can be trusted: what they really earned and cost is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Normaliser, Spec
from lspc.calibration.fitted_q import Family, bootstrap_weights, chunks
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.nets import MLP, Learner

BEGINNINGS = 64
"""First observations of the data from which policies are rolled out, at most."""


@dataclass(frozen=True)
class Config:
    updates: int = 6_000
    """Gradient updates of each network."""
    members: int = 4
    """Models in the ensemble."""
    batch_size: int = 256
    """Transitions per update."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    learning_rate: float = 1e-3
    """Adam's step size at the start; it falls to a twentieth."""


class Nets(eqx.Module):
    motion: MLP
    """(observation, action) -> change of the observation."""
    outcome: MLP
    """(observation, action, next observation) -> reward, and the odds of cost and of an end."""


class World(eqx.Module):
    nets: Nets
    normaliser: Normaliser
    change_mean: Array
    change_std: Array
    lowest: Array
    highest: Array
    """The least and the most of each feature in the data: nothing is believed beyond."""
    reward_mean: Array
    reward_std: Array
    largest_cost: Array

    def parts(self, nets: Nets, observations: Array, actions: Array, following: Array) -> tuple[Array, Array]:
        """Predicted change (in its own units) and outcome, for observations and what really followed."""
        seen = self.normaliser(observations)
        return nets.motion(seen, actions), nets.outcome(seen, actions, self.normaliser(following))

    def step(self, observations: Array, actions: Array) -> tuple[Array, Float[Array, "*batch 2"], Array]:
        """Next observations, (reward, cost), and the chance that the episode goes on."""
        seen = self.normaliser(observations)
        change = self.nets.motion(seen, actions) * self.change_std + self.change_mean
        following = jnp.clip(observations + change, self.lowest, self.highest)
        outcome = self.nets.outcome(seen, actions, self.normaliser(following))
        reward = outcome[..., 0] * self.reward_std + self.reward_mean
        cost = self.largest_cost * jax.nn.sigmoid(outcome[..., 1])
        return following, jnp.stack([reward, cost], axis=-1), 1.0 - jax.nn.sigmoid(outcome[..., 2])


def loss(nets: Nets, world: World, batch: tuple[Array, ...], weights: Array) -> Array:
    """Squared error of change and reward, cross-entropy of cost and end; all of them of the size of 1."""
    observations, actions, rewards, costs, following, ends = batch
    change, outcome = world.parts(nets, observations, actions, following)
    wanted = (following - observations - world.change_mean) / world.change_std
    motion = jnp.mean((change - wanted) ** 2, axis=-1)
    reward = (outcome[:, 0] - (rewards - world.reward_mean) / world.reward_std) ** 2
    share = costs / world.largest_cost
    cost = jax.nn.softplus(outcome[:, 1]) - share * outcome[:, 1]
    end = jax.nn.softplus(outcome[:, 2]) - ends * outcome[:, 2]
    return jnp.mean(weights * (motion + reward + cost + end))


def init(key: PRNGKeyArray, dataset: Dataset, config: Config) -> World:
    o, a = dataset.observation_dim, dataset.action_dim
    motion_key, outcome_key = jax.random.split(key)
    changes = dataset.next_observations - dataset.observations
    return World(
        Nets(
            MLP(o + a, o, config.hidden, key=motion_key, activation=jax.nn.silu),
            MLP(2 * o + a, 3, config.hidden, key=outcome_key, activation=jax.nn.silu),
        ),
        Normaliser.of(Spec.of(dataset), active=True),
        jnp.asarray(changes.mean(0)),
        jnp.asarray(np.maximum(changes.std(0), 1e-6)),
        jnp.asarray(dataset.observations.min(0)),
        jnp.asarray(dataset.observations.max(0)),
        jnp.asarray(dataset.rewards.mean()),
        jnp.asarray(max(float(dataset.rewards.std()), 1e-6)),
        jnp.asarray(max(float(dataset.costs.max()), 1e-6)),
    )


@partial(jax.jit, static_argnames=("length", "config"))
def _advance(
    learners: Learner[Nets],
    worlds: World,
    table: tuple[Array, ...],
    episode: Array,
    seed: Array,
    start: Array,
    length: int,
    config: Config,
) -> Learner[Nets]:
    def one(given: tuple[Learner[Nets], World, Array]) -> Learner[Nets]:
        learner, world, number = given
        member = jax.random.fold_in(jax.random.key(seed), number)

        def step(learner: Learner[Nets], count: Array) -> tuple[Learner[Nets], None]:
            key = jax.random.fold_in(jax.random.fold_in(member, 1), count)
            chosen = jax.random.randint(key, (config.batch_size,), 0, episode.shape[0])
            batch = tuple(column[chosen] for column in table)
            weights = bootstrap_weights(jax.random.fold_in(member, 2), episode[chosen])
            pace = 1.0 - 0.95 * count / config.updates
            gradient = eqx.filter_grad(loss)(learner.net, world, batch, weights)
            return learner.step(gradient, pace * config.learning_rate), None

        return jax.lax.scan(step, learner, start + jnp.arange(length))[0]

    return jax.lax.map(one, (learners, worlds, jnp.arange(config.members)))


def fit(
    dataset: Dataset, config: Config, *, seed: int = 0, on_progress: Callable[[int], None] | None = None
) -> World:
    """Models of the world the data come from, one for each member, stacked along a new first axis."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 4), config.members)
    members = [init(key, dataset, config) for key in keys]
    worlds = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    learners = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[Learner.of(world.nets) for world in members])
    columns = (
        dataset.observations, dataset.actions, dataset.rewards, dataset.costs, dataset.next_observations,
        dataset.terminated.astype(np.float32),
    )  # fmt: skip
    table = tuple(jnp.asarray(column) for column in columns)
    episode = jnp.asarray(np.repeat(np.arange(len(dataset.episodes)), dataset.lengths))
    for start, length in chunks(config.updates):
        learners = _advance(learners, worlds, table, episode, jnp.asarray(seed), jnp.asarray(start), length, config)
        jax.block_until_ready(learners)
        if on_progress:
            on_progress(start + length)
    return eqx.tree_at(lambda worlds: worlds.nets, worlds, learners.net)


@eqx.filter_jit
def _roll(worlds: World, family: Family, begin: Array, knobs: Array, horizon: int) -> Array:
    """All knobs at once, one member after the other: (members, knobs, 2)."""

    def one(world: World) -> Array:
        def step(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
            seen, alive, total = carry
            following, signals, goes_on = world.step(seen, family(seen, knobs[:, None]))
            return (following, alive * goes_on, total + alive[..., None] * signals), None

        shape = (knobs.shape[0], begin.shape[0])
        start = jnp.broadcast_to(begin, (*shape, begin.shape[1])), jnp.ones(shape), jnp.zeros((*shape, 2))
        return jax.lax.scan(step, start, None, horizon)[0][2].mean(axis=1)

    return jax.lax.map(one, worlds)


def rolled_out(
    worlds: World, family: Family, observations: np.ndarray, knobs: np.ndarray, horizon: int
) -> Float[np.ndarray, "members knobs 2"]:
    """Mean reward and cost of whole episodes under each policy of the family, in each member's world."""
    places = np.linspace(0, len(observations) - 1, min(BEGINNINGS, len(observations))).astype(int)
    begin = jnp.asarray(observations[places])
    return np.asarray(_roll(worlds, family, begin, jnp.asarray(knobs, jnp.float32), horizon), np.float64)


@eqx.filter_jit
def _replay(worlds: World, begin: Array, actions: Array) -> Array:
    def one(world: World) -> Array:
        def step(carry: tuple[Array, Array, Array], action: Array) -> tuple[tuple[Array, Array, Array], None]:
            seen, alive, total = carry
            following, signals, goes_on = world.step(seen, action)
            return (following, alive * goes_on, total + alive[:, None] * signals), None

        start = begin, jnp.ones(begin.shape[0]), jnp.zeros((begin.shape[0], 2))
        return jax.lax.scan(step, start, actions)[0][2]

    return jax.lax.map(one, worlds)


def replayed(
    worlds: World, dataset: Dataset, stretch: int
) -> tuple[Float[np.ndarray, "members stretches 2"], Float[np.ndarray, "stretches 2"]]:
    """What recorded actions earn and cost in the models, and what they really did.

    Every stretch begins in a recorded state: a policy reacts to what it sees, so its errors do not pile up over an
    episode as those of actions that are replayed blindly would.
    """
    long = [e for e in dataset.episodes if e.stop - e.start >= stretch]
    # The last stretch reaches the episode's end, where something may have gone wrong.
    parts = [np.union1d(np.arange(e.start, e.stop - stretch + 1, stretch), [e.stop - stretch]) for e in long]
    starts = np.concatenate([np.empty(0, np.int64), *parts])
    if len(starts) == 0:
        raise UserError(f"{dataset.source}: no held-out episode has {stretch} steps")
    rows = starts[:, None] + np.arange(stretch)
    true = np.stack([dataset.rewards[rows].sum(1), dataset.costs[rows].sum(1)], axis=-1).astype(np.float64)
    begin, actions = jnp.asarray(dataset.observations[starts]), jnp.asarray(dataset.actions[rows].swapaxes(0, 1))
    return np.asarray(_replay(worlds, begin, actions), np.float64), true
