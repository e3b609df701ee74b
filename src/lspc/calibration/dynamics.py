"""Dynamics models learned from the data, to try policies in before they meet the real plant.

Networks predict the next observation, the reward, the cost and the end of an episode. Policies are rolled out in
them from the data's initial observations, with their own actions. Recorded actions of held-out episodes, replayed
stretch by stretch, show how far that can be trusted: what they really earned and cost is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from lspc.algos.base import Normaliser, Spec
from lspc.batches import build_table, draw_rows, to_device
from lspc.calibration import ensemble
from lspc.calibration.families import PolicyFamily
from lspc.data import Dataset, mapped
from lspc.errors import UserError
from lspc.nets import MLP, Learner, match_rank

INITIAL_STATES = 64
"""Initial observations of the data from which policies are rolled out, at most."""


@dataclass(frozen=True)
class Config(ensemble.Config):
    members: int = 4
    """Models in the ensemble."""


class Nets(eqx.Module):
    motion: MLP
    """(observation, action) -> change of the observation."""
    outcome: MLP
    """(observation, action, next observation) -> reward, and the odds of cost and of an end."""


class DynamicsModel(eqx.Module):
    nets: Nets
    normaliser: Normaliser
    change_mean: Float[Array, " observation"]
    change_std: Float[Array, " observation"]
    lowest: Float[Array, " observation"]
    highest: Float[Array, " observation"]
    """The least and the most of each feature in the data: nothing is believed beyond."""
    reward_mean: Float[Array, ""]
    reward_std: Float[Array, ""]
    largest_cost: Float[Array, ""]

    def step(
        self, observations: Float[Array, "*batch observation"], actions: Float[Array, "*batch action"]
    ) -> tuple[Float[Array, "*batch observation"], Float[Array, "*batch 2"], Float[Array, " *batch"]]:
        """Next observations, (reward, cost), and the chance that the episode goes on."""
        seen = self.normaliser(observations)
        change_mean, change_std, lowest, highest = (
            match_rank(feature, observations)
            for feature in (self.change_mean, self.change_std, self.lowest, self.highest)
        )
        change = self.nets.motion(seen, actions) * change_std + change_mean
        following = jnp.clip(observations + change, lowest, highest)
        outcome = self.nets.outcome(seen, actions, self.normaliser(following))
        reward = outcome[..., 0] * self.reward_std + self.reward_mean
        cost = self.largest_cost * jax.nn.sigmoid(outcome[..., 1])
        return following, jnp.stack([reward, cost], axis=-1), 1.0 - jax.nn.sigmoid(outcome[..., 2])


class State(eqx.Module):
    learner: Learner[Nets]
    model: DynamicsModel
    """Its networks are those it began with until training ends."""


class Rows(NamedTuple):
    """Transitions and the number of their episode."""

    observations: Float[Array, "rows observation"]
    actions: Float[Array, "rows action"]
    rewards: Float[Array, " rows"]
    costs: Float[Array, " rows"]
    next_observations: Float[Array, "rows observation"]
    terminated: Float[Array, " rows"]
    episode: Int[Array, " rows"]


def tabulate(dataset: Dataset) -> Any:
    columns = (
        dataset.observations, dataset.actions, dataset.rewards, dataset.costs, dataset.next_observations,
        dataset.terminated.astype(np.float32), ensemble.number_episodes(dataset),
    )  # fmt: skip
    return jax.tree.map(to_device, build_table(columns, Rows))


def init(key: PRNGKeyArray, dataset: Dataset, config: Config) -> State:
    o, a = dataset.observation_dim, dataset.action_dim
    motion_key, outcome_key = jax.random.split(key)
    (change_mean, change_std), (lowest, highest) = dataset.changes, dataset.observation_range
    nets = Nets(
        MLP(o + a, o, config.hidden, key=motion_key, activation=jax.nn.silu),
        MLP(2 * o + a, 3, config.hidden, key=outcome_key, activation=jax.nn.silu),
    )
    model = DynamicsModel(
        nets,
        Normaliser.of(Spec.of(dataset), active=True),
        jnp.asarray(change_mean, jnp.float32),
        jnp.asarray(np.maximum(change_std, 1e-6), jnp.float32),
        jnp.asarray(lowest),
        jnp.asarray(highest),
        jnp.asarray(dataset.rewards.mean()),
        jnp.asarray(max(float(dataset.rewards.std()), 1e-6)),
        jnp.asarray(max(float(dataset.costs.max()), 1e-6)),
    )
    return State(Learner.of(nets), model)


def loss(nets: Nets, model: DynamicsModel, batch: Rows, weights: Float[Array, " rows"]) -> Float[Array, ""]:
    """Squared error of change and reward, cross-entropy of cost and end; all of them of the size of 1."""
    seen = model.normaliser(batch.observations)
    change = nets.motion(seen, batch.actions)
    outcome = nets.outcome(seen, batch.actions, model.normaliser(batch.next_observations))
    moved = batch.next_observations - batch.observations
    wanted = (moved - match_rank(model.change_mean, moved)) / match_rank(model.change_std, moved)
    motion = jnp.mean((change - wanted) ** 2, axis=-1)
    reward = (outcome[:, 0] - (batch.rewards - model.reward_mean) / model.reward_std) ** 2
    share = batch.costs / model.largest_cost
    cost = jax.nn.softplus(outcome[:, 1]) - share * outcome[:, 1]
    end = jax.nn.softplus(outcome[:, 2]) - batch.terminated * outcome[:, 2]
    return jnp.mean(weights * (motion + reward + cost + end))


def update(
    state: State, table: Any, key: PRNGKeyArray, bootstrap_key: PRNGKeyArray, count: Array, config: Config
) -> State:
    """One step of both networks; the step size falls in a straight line."""
    batch = draw_rows(table, key, config.batch_size)
    weights = ensemble.bootstrap_weights(bootstrap_key, batch.episode)
    decay = 1.0 - 0.95 * count.astype(jnp.float32) / config.updates
    gradient = eqx.filter_grad(loss)(state.learner.net, state.model, batch, weights)
    return State(state.learner.step(gradient, decay * config.learning_rate), state.model)


def fit(
    dataset: Dataset, config: Config, *, seed: int = 0, on_progress: Callable[[int], None] | None = None
) -> DynamicsModel:
    """Models of the plant the data come from, one for each member, stacked along a new first axis."""
    start = partial(init, dataset=dataset, config=config)
    states = ensemble.fit(start, update, tabulate(dataset), config, seed=seed, on_progress=on_progress)
    return eqx.tree_at(lambda model: model.nets, states.model, states.learner.net)


@eqx.filter_jit
def _roll_out(models: DynamicsModel, family: PolicyFamily, begin: Array, parameters: Array, horizon: int) -> Array:
    """All parameters at once, one member after the other: (members, parameters, starts, 2)."""

    def roll_out_member(model: DynamicsModel) -> Array:
        def step(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
            seen, alive, total = carry
            following, signals, goes_on = model.step(seen, family(seen, parameters[:, None]))
            return (following, alive * goes_on, total + alive[..., None] * signals), None

        shape = (parameters.shape[0], begin.shape[0])
        start = jnp.broadcast_to(begin, (*shape, begin.shape[1])), jnp.ones(shape), jnp.zeros((*shape, 2))
        return jax.lax.scan(step, start, None, horizon)[0][2]

    return jax.lax.map(roll_out_member, models)


def roll_out(
    models: DynamicsModel, family: PolicyFamily, observations: np.ndarray, parameters: np.ndarray, horizon: int
) -> Float[np.ndarray, "members parameters starts 2"]:
    """Reward and cost of whole episodes under each policy of the family, in each member, from each start."""
    places = np.linspace(0, len(observations) - 1, min(INITIAL_STATES, len(observations))).astype(int)
    begin = jnp.asarray(observations[places])
    return np.asarray(_roll_out(models, family, begin, jnp.asarray(parameters, jnp.float32), horizon), np.float64)


@eqx.filter_jit
def _replay(models: DynamicsModel, begin: Array, actions: Array) -> Array:
    def replay_member(model: DynamicsModel) -> Array:
        def step(carry: tuple[Array, Array, Array], action: Array) -> tuple[tuple[Array, Array, Array], None]:
            seen, alive, total = carry
            following, signals, goes_on = model.step(seen, action)
            return (following, alive * goes_on, total + alive[:, None] * signals), None

        start = begin, jnp.ones(begin.shape[0]), jnp.zeros((begin.shape[0], 2))
        return jax.lax.scan(step, start, actions)[0][2]

    return jax.lax.map(replay_member, models)


def replay(
    models: DynamicsModel, dataset: Dataset, stretch: int
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
    begin = jnp.asarray(mapped.gather(dataset.observations, starts))
    actions = mapped.gather(dataset.actions, rows.ravel()).reshape(*rows.shape, -1)
    actions = jnp.asarray(actions.swapaxes(0, 1))
    return np.asarray(_replay(models, begin, actions), np.float64), true
