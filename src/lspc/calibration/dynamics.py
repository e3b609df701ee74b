"""Models of the plant that know its noise, to try policies in before they meet the real plant.

Networks predict the next observation, how far it is off, the reward, the cost and the end of an episode. A step is
drawn at random: the error of a recorded step that the network has not learned from, scaled to what is expected here,
is added to what is predicted. Each network leaves some episodes out, which show how far it can be trusted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from lspc import lanes
from lspc.algos.base import Normaliser, Spec
from lspc.batches import draw_rows
from lspc.calibration import ensemble
from lspc.calibration.families import PolicyFamily
from lspc.data import Dataset
from lspc.nets import MLP, Learner, match_rank

INITIAL_STATES = 64
"""Initial observations of the data from which policies are rolled out, at most."""
RESIDUALS = 4096
"""Errors of recorded steps that noise is drawn from."""
SMALLEST_LOG_STD, LARGEST_LOG_STD = -7.0, 1.5
"""Of a change, in units of its spread over the data."""


@dataclass(frozen=True)
class Config(ensemble.Config):
    members: int = 4
    """Models in the ensemble."""


class Nets(eqx.Module):
    motion: MLP
    """(observation, action) -> change of the observation, and the logarithm of how far that is off."""
    outcome: MLP
    """(observation, action, next observation) -> reward, and the odds of cost and of an end."""


class Noise(NamedTuple):
    """What chance brings at one step."""

    residuals: Float[Array, "*batch observation"]
    """Errors of the change in units of what is expected of them."""
    luck: Float[Array, "*batch 2"]
    """Between 0 and 1: below the chance of a cost, or of an end, it happens."""


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
    all_or_nothing: Float[Array, ""]
    """1 where a step of the data costs either nothing or the most, so that costs are drawn; else 0."""
    residuals: Float[Array, "residuals observation"]

    def step(
        self,
        observations: Float[Array, "*batch observation"],
        actions: Float[Array, "*batch action"],
        noise: Noise | None = None,
    ) -> tuple[Float[Array, "*batch observation"], Float[Array, "*batch 2"], Float[Array, " *batch"]]:
        """Next observations, (reward, cost), and whether the episode goes on; what is expected if without noise."""
        return self.arrive(observations, actions, self.move(observations, actions, noise), noise)

    def move(self, observations: Array, actions: Array, noise: Noise | None) -> Float[Array, "*batch observation"]:
        """Where a step leads, be it beyond anything in the data."""
        change, log_std = split_motion(self.nets.motion(self.normaliser(observations), actions))
        if noise is not None:
            change = change + jnp.exp(log_std) * noise.residuals
        return observations + change * match_rank(self.change_std, change) + match_rank(self.change_mean, change)

    def arrive(
        self, observations: Array, actions: Array, following: Array, noise: Noise | None
    ) -> tuple[Array, Array, Array]:
        """What a step that leads there brings; nothing is believed beyond the range of the data."""
        following = jnp.clip(following, match_rank(self.lowest, following), match_rank(self.highest, following))
        outcome = self.nets.outcome(self.normaliser(observations), actions, self.normaliser(following))
        reward = outcome[..., 0] * self.reward_std + self.reward_mean
        share, ends = jax.nn.sigmoid(outcome[..., 1]), jax.nn.sigmoid(outcome[..., 2])
        if noise is not None:
            drawn = (noise.luck < jnp.stack([share, ends], axis=-1)).astype(share.dtype)
            share, ends = jnp.where(self.all_or_nothing > 0, drawn[..., 0], share), drawn[..., 1]
        return following, jnp.stack([reward, self.largest_cost * share], axis=-1), 1.0 - ends

    def stray(self, following: Float[Array, "*batch observation"]) -> Float[Array, " *batch"]:
        """How far beyond the range of the data a step leads, in units of the feature that is farthest out."""
        believed = jnp.clip(following, match_rank(self.lowest, following), match_rank(self.highest, following))
        return (jnp.abs(following - believed) / match_rank(self.normaliser.std, following)).max(-1)


def split_motion(told: Float[Array, "*batch twice"]) -> tuple[Array, Array]:
    """The change and the logarithm of its standard deviation, kept within reason without ever losing its gradient."""
    change, log_std = jnp.split(told, 2, axis=-1)
    log_std = LARGEST_LOG_STD - jax.nn.softplus(LARGEST_LOG_STD - log_std)
    return change, SMALLEST_LOG_STD + jax.nn.softplus(log_std - SMALLEST_LOG_STD)


class State(eqx.Module):
    learner: Learner[Nets]
    model: DynamicsModel
    """Its networks are those it began with until training ends."""


class Rows(NamedTuple):
    """Transitions, and how much each counts for each member."""

    observations: Float[Array, "rows observation"]
    actions: Float[Array, "rows action"]
    rewards: Float[Array, " rows"]
    costs: Float[Array, " rows"]
    next_observations: Float[Array, "rows observation"]
    terminated: Float[Array, " rows"]
    weights: Float[Array, "rows members"]


def tabulate(dataset: Dataset, weights: Float[np.ndarray, "members episodes"]) -> Any:
    columns = (
        dataset.observations, dataset.actions, dataset.rewards, dataset.costs, dataset.next_observations,
        dataset.terminated.astype(np.float32), weights.T[ensemble.number_episodes(dataset)],
    )  # fmt: skip
    return ensemble.tabulate(columns, Rows)


def init(key: PRNGKeyArray, dataset: Dataset, config: Config) -> State:
    o, a = dataset.observation_dim, dataset.action_dim
    motion_key, outcome_key = jax.random.split(key)
    (change_mean, change_std), (lowest, highest) = dataset.changes, dataset.observation_range
    nets = Nets(
        MLP(o + a, 2 * o, config.hidden, key=motion_key, activation=jax.nn.silu),
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
        jnp.asarray(float(np.isin(dataset.costs, (0.0, dataset.costs.max())).all())),
        jnp.zeros((RESIDUALS, o)),
    )
    return State(Learner.of(nets), model)


def loss(nets: Nets, model: DynamicsModel, batch: Rows, weights: Float[Array, " rows"]) -> Float[Array, ""]:
    """Squared error of change and reward, cross-entropy of cost and end; all of them of the size of 1.

    How far changes are off is learned beside it by likelihood, without a say in what the change is.
    """
    seen = model.normaliser(batch.observations)
    change, log_std = split_motion(nets.motion(seen, batch.actions))
    outcome = nets.outcome(seen, batch.actions, model.normaliser(batch.next_observations))
    moved = batch.next_observations - batch.observations
    wanted = (moved - match_rank(model.change_mean, moved)) / match_rank(model.change_std, moved)
    errors = (change - wanted) ** 2
    unlikelihood = log_std + 0.5 * jax.lax.stop_gradient(errors) * jnp.exp(-2.0 * log_std)
    motion = jnp.mean(errors + 0.1 * unlikelihood, axis=-1)
    reward = (outcome[:, 0] - (batch.rewards - model.reward_mean) / model.reward_std) ** 2
    share = batch.costs / model.largest_cost
    cost = jax.nn.softplus(outcome[:, 1]) - share * outcome[:, 1]
    end = jax.nn.softplus(outcome[:, 2]) - batch.terminated * outcome[:, 2]
    return jnp.mean(weights * (motion + reward + cost + end))


def update(
    state: State, data: tuple[Any, Array], key: PRNGKeyArray, number: Array, count: Array, config: Config
) -> State:
    """One step of both networks; the step size falls in a straight line."""
    table, size = data
    batch = draw_rows(table, key, config.batch_size, size)
    decay = 1.0 - 0.95 * count.astype(jnp.float32) / config.updates
    gradient = eqx.filter_grad(loss)(state.learner.net, state.model, batch, batch.weights[:, number])
    return State(state.learner.step(gradient, decay * config.learning_rate), state.model)


def fit(
    dataset: Dataset,
    config: Config,
    unseen: Bool[np.ndarray, "members episodes"] | None = None,
    *,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> DynamicsModel:
    """Models of the plant the data come from, one for each member, stacked along a new first axis.

    `unseen` says which episodes a member must not learn from; their errors are the noise it draws (without any, those
    of all episodes are).
    """
    weights = ensemble.bootstrap_weights(seed, config.members, len(dataset.episodes))
    if unseen is not None:
        weights = np.where(unseen, np.float32(0), weights)
    start = partial(init, dataset=dataset, config=config)
    data = tabulate(dataset, weights), jnp.asarray(dataset.transitions)
    states = ensemble.fit(start, update, data, config, seed=seed, on_progress=on_progress)
    models = eqx.tree_at(lambda model: model.nets, states.model, states.learner.net)
    seen = np.ones((config.members, len(dataset.episodes)), bool) if unseen is None else ~unseen
    own = ensemble.number_episodes(dataset)
    low, high = (jnp.asarray(np.stack([end(dataset.observations[each[own]], axis=0) for each in seen]))
                 for end in (np.min, np.max))  # fmt: skip
    known = low, high, _gather_residuals(models, dataset, seen if unseen is None else unseen, seed)
    return eqx.tree_at(lambda model: (model.lowest, model.highest, model.residuals), models, known)


def _gather_residuals(
    models: DynamicsModel, dataset: Dataset, episodes: Bool[np.ndarray, "members episodes"], seed: int
) -> Float[Array, "members residuals observation"]:
    """Errors of changes recorded in these episodes, each feature's in units of what its network expects there."""
    rng, own = np.random.default_rng(seed), ensemble.number_episodes(dataset)
    chosen = np.stack([rng.choice(np.flatnonzero(each[own]), RESIDUALS) for each in episodes])
    moved = dataset.next_observations - dataset.observations
    columns = (jnp.asarray(column[chosen]) for column in (dataset.observations, dataset.actions, moved))
    return _measure_residuals(models, *columns)


@eqx.filter_jit
def _measure_residuals(models: DynamicsModel, observations: Array, actions: Array, moved: Array) -> Array:
    def measure(model: DynamicsModel, observations: Array, actions: Array, moved: Array) -> Array:
        change, log_std = split_motion(model.nets.motion(model.normaliser(observations), actions))
        wanted = (moved - match_rank(model.change_mean, moved)) / match_rank(model.change_std, moved)
        return (wanted - change) * jnp.exp(-log_std)

    return jax.lax.map(lambda each: measure(*each), (models, observations, actions, moved))


class Chance(NamedTuple):
    """What noise is made of, for every step and place: the same for all policies, so that they can be compared."""

    places: Int[Array, "steps batch"]
    """In the table of residuals."""
    luck: Float[Array, "steps batch 2"]

    @staticmethod
    def draw(rng: np.random.Generator, steps: int, size: int) -> "Chance":
        return Chance(
            jnp.asarray(rng.integers(RESIDUALS, size=(steps, size), dtype=np.int32)),
            jnp.asarray(rng.random((steps, size, 2), np.float32)),
        )

    def at(self, model: DynamicsModel) -> Noise:
        """One step's, which has lost its first axis in a scan."""
        return Noise(model.residuals[self.places], self.luck)


class Rolled(NamedTuple):
    """Whole episodes in each member, under each policy."""

    values: Float[np.ndarray, "members parameters starts 2"]
    """Reward and cost."""
    strayed: Float[np.ndarray, " parameters"]
    """How far their steps lead beyond the range of the data, on average."""


@eqx.filter_jit
def _roll_out(
    models: DynamicsModel, family: PolicyFamily, begin: Array, parameters: Array, chance: Chance
) -> tuple[Array, Array]:
    """All parameters at once, one member after the other: (members, parameters, starts, 2), (members, parameters)."""
    shape = (parameters.shape[0], begin.shape[0])

    def roll_out_member(
        model: DynamicsModel, family: PolicyFamily, begin: Array, parameters: Array, chance: Chance
    ) -> tuple[Array, Array]:
        def step(carry: tuple[Any, ...], chance: Chance) -> tuple[tuple[Any, ...], None]:
            seen, alive, total, last, memory, (strayed, counted) = carry
            noise = jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, x.shape[-1])), chance.at(model))
            actions, memory = family.step(memory, seen, last, parameters[:, None])
            following = model.move(seen, actions, noise)
            strayed = strayed + (alive * model.stray(following)).sum(1)
            following, signals, goes_on = model.arrive(seen, actions, following, noise)
            total, counted = total + alive[..., None] * signals, counted + alive.sum(1)
            return (following, alive * goes_on, total, signals, memory, (strayed, counted)), None

        nothing, none = jnp.zeros((*shape, 2)), jnp.zeros(shape[0])
        start = jnp.broadcast_to(begin, (*shape, begin.shape[1])), jnp.ones(shape), nothing, nothing
        carry = jax.lax.scan(step, (*start, family.start(shape), (none, none)), chance)[0]
        return carry[2], carry[-1][0] / carry[-1][1]

    def roll_out_members(models: DynamicsModel, numbers: Array, *shared: Any) -> tuple[Array, Array]:
        return jax.lax.map(lambda model: roll_out_member(model, *shared), models)

    members = len(models.largest_cost)
    return lanes.shard(roll_out_members, members)(models, jnp.arange(members), family, begin, parameters, chance)


def roll_out(
    models: DynamicsModel,
    family: PolicyFamily,
    observations: np.ndarray,
    parameters: np.ndarray,
    horizon: int,
    *,
    seed: int = 0,
) -> Rolled:
    """Reward and cost of whole episodes under each policy of the family, in each member, from each start."""
    rng = np.random.default_rng(seed)
    places = np.linspace(0, len(observations) - 1, INITIAL_STATES).astype(int)
    begin = jnp.asarray(observations[places])
    chance = Chance.draw(rng, horizon, INITIAL_STATES)
    given = models, family, begin, jnp.asarray(parameters, jnp.float32), chance
    values, strayed = _roll_out(*lanes.replicate(given, len(models.largest_cost)))
    return Rolled(np.asarray(values, np.float64), np.asarray(strayed, np.float64).mean(0))
