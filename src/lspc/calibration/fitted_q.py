"""Fitted Q evaluation: what policies will earn and cost in an episode, from logged data alone.

A whole family of policies is evaluated in one program: the networks are given the policy's parameter (such as
LSPC-O's eps) and how many steps are left, so that nothing is discounted and nothing lies beyond the horizon.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Normaliser, Spec
from lspc.batches import draw_rows
from lspc.calibration import ensemble
from lspc.calibration.families import PolicyFamily
from lspc.data import Dataset
from lspc.nets import MLP, Learner, match_rank, polyak_update

BASIS_SIZE = 11
"""Radial basis functions that a policy's parameter is given as."""


@dataclass(frozen=True)
class Config(ensemble.Config):
    target_rate: float = 0.2
    """Share of the fast network mixed into its slow copy at every update; it falls like the step size."""


class Rows(NamedTuple):
    """Transitions with their place in the episode."""

    observations: Float[Array, "rows observation"]
    actions: Float[Array, "rows action"]
    signals: Float[Array, "rows 2"]
    """Reward and cost."""
    next_observations: Float[Array, "rows observation"]
    ends: Float[Array, " rows"]
    """Whether nothing follows: a terminal state. At the horizon no steps are left, which says the same."""
    steps_left: Float[Array, " rows"]
    """Until the horizon, this one included."""
    weights: Float[Array, "rows members"]
    """How much the row counts for each network."""


def radial_basis(share: Float[Array, " *batch"]) -> Float[Array, "*batch basis"]:
    """A number from 0 to 1 as overlapping radial basis functions: a network can turn sharply from one to the next."""
    share = share[..., None]
    centres = match_rank(jnp.linspace(0.0, 1.0, BASIS_SIZE), share)
    return jnp.exp(-(((share - centres) * (BASIS_SIZE - 1)) ** 2))


class FittedQ(eqx.Module):
    """Return and cost to come for (observation, action, steps left, parameter): a rate per step times the steps left.

    The ensemble is one of these whose arrays have the members as their first axis.
    """

    net: MLP
    normaliser: Normaliser
    units: Float[Array, " 2"]
    """The size of a step's reward and cost that the network calls 1."""
    lowest: Float[Array, " 2"]
    highest: Float[Array, " 2"]
    """The least and the most that a step has brought: no rate can be beyond."""
    low: float = eqx.field(static=True)
    high: float = eqx.field(static=True)
    horizon: int = eqx.field(static=True)

    def rates(self, net: MLP, observations: Array, actions: Array, steps_left: Array, parameters: Array) -> Array:
        parameters = jnp.broadcast_to(parameters, observations.shape[:-1])
        share = (parameters - self.low) / max(self.high - self.low, 1e-6)
        clock = 2.0 * jnp.broadcast_to(steps_left, observations.shape[:-1]) / self.horizon - 1.0
        return net(self.normaliser(observations), actions, radial_basis(share), clock[..., None])

    def __call__(
        self, observations: Array, actions: Array, steps_left: Array, parameters: Array
    ) -> Float[Array, "*batch 2"]:
        """Return and cost to come, within what the data allow."""
        rates = self.rates(self.net, observations, actions, steps_left, parameters)
        units, lowest, highest = (match_rank(x, rates) for x in (self.units, self.lowest, self.highest))
        return jnp.clip(rates * units, lowest, highest) * steps_left[..., None]


class State(eqx.Module):
    learner: Learner[MLP]
    target: FittedQ
    """Holds the slow copy."""


def tabulate(dataset: Dataset, horizon: int, config: Config, seed: int = 0) -> Any:
    starts = np.repeat([episode.start for episode in dataset.episodes], dataset.lengths)
    weights = ensemble.bootstrap_weights(seed, config.members, len(dataset.episodes))
    columns = (
        dataset.observations,
        dataset.actions,
        np.stack([dataset.rewards, dataset.costs], axis=-1),
        dataset.next_observations,
        # A time-out before the horizon ends the record, not the episode: what would have followed still counts.
        dataset.terminated.astype(np.float32),
        (horizon - (np.arange(dataset.transitions) - starts)).astype(np.float32),
        weights.T[ensemble.number_episodes(dataset)],
    )
    return ensemble.tabulate(columns, Rows)


def make_skeleton(spec: Spec, config: Config, low: float, high: float, horizon: int) -> FittedQ:
    """One of the right shape that knows nothing: what stored weights are read into."""
    net = MLP(spec.observation_dim + spec.action_dim + BASIS_SIZE + 1, 2, config.hidden, key=jax.random.key(0))
    nothing = jnp.zeros(2)
    return FittedQ(net, Normaliser.of(spec, active=True), nothing, nothing, nothing, low, high, horizon)


def init(key: PRNGKeyArray, dataset: Dataset, horizon: int, family: PolicyFamily, config: Config) -> State:
    inputs = dataset.observation_dim + dataset.action_dim + BASIS_SIZE + 1
    net = MLP(inputs, 2, config.hidden, key=key, last_scale=0.1)
    rewards, costs = dataset.rewards, dataset.costs
    largest = [max(float(np.abs(signal).max()), 1e-6) for signal in (rewards, costs)]
    target = FittedQ(
        jax.tree.map(jnp.copy, net),
        Normaliser.of(Spec.of(dataset), active=True),
        jnp.asarray(largest),
        # An episode may end before its time, so that a rate over all steps left lies between 0 and a step's reward.
        jnp.asarray([min(0.0, float(rewards.min())), 0.0]),
        jnp.asarray([max(0.0, float(rewards.max())), float(costs.max())]),
        *family.range,
        horizon,
    )
    return State(Learner.of(net), target)


def loss(net: MLP, target: FittedQ, batch: Rows, targets: Array, parameters: Array, weights: Array) -> Array:
    """Squared error of the return to come, in units of the largest reward and cost over the whole horizon."""
    rates = target.rates(net, batch.observations, batch.actions, batch.steps_left, parameters)
    share = batch.steps_left[:, None] / target.horizon
    errors = share * rates - targets / match_rank(target.units * target.horizon, targets)
    return jnp.mean(weights[:, None] * errors**2)


def update(state: State, data: tuple[Any, Array, PolicyFamily], key: PRNGKeyArray, number: Array,
           count: Array, config: Config) -> State:  # fmt: skip
    """One step towards the value of the policy's own action in the next state, then of the slow copy."""
    (table, size, family), target = data, state.target
    rows_key, parameter_key = jax.random.split(key)
    batch = draw_rows(table, rows_key, config.batch_size, size)
    low, high = family.range
    parameters = jax.random.uniform(parameter_key, (config.batch_size,), minval=low, maxval=high)
    next_actions = family(batch.next_observations, parameters)
    following = target(batch.next_observations, next_actions, batch.steps_left - 1.0, parameters)
    targets = batch.signals + (1.0 - batch.ends[:, None]) * following
    weights = batch.weights[:, number]
    gradient = eqx.filter_grad(loss)(state.learner.net, target, batch, targets, parameters, weights)
    # Values travel one step back in time per renewal of the slow copy: quick at first, steady at the end.
    decay = (1.0 - count / config.updates) ** 2 + 0.05
    learner = state.learner.step(gradient, decay * config.learning_rate)
    slow = polyak_update(target.net, learner.net, decay * config.target_rate)
    return State(learner, eqx.tree_at(lambda q: q.net, target, slow))


def fit(
    dataset: Dataset,
    family: PolicyFamily,
    config: Config,
    *,
    seed: int = 0,
    horizon: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> FittedQ:
    """The ensemble for this family: one for each member, stacked along a new first axis."""
    horizon = horizon or int(dataset.lengths.max())
    start = partial(init, dataset=dataset, horizon=horizon, family=family, config=config)
    data = tabulate(dataset, horizon, config, seed), jnp.asarray(dataset.transitions), family
    return ensemble.fit(start, update, data, config, seed=seed, on_progress=on_progress).target


@eqx.filter_jit
def predict_returns(
    members: FittedQ, family: PolicyFamily, observations: Array, parameters: Array
) -> Float[Array, "members parameters states 2"]:
    """Return and cost of whole episodes that begin in these observations, for each member and each parameter."""

    def predict(member: FittedQ, parameter: Array) -> Array:
        steps_left = jnp.full(observations.shape[0], float(member.horizon))
        return member(observations, family(observations, parameter), steps_left, parameter)

    return jax.vmap(lambda member: jax.lax.map(lambda parameter: predict(member, parameter), parameters))(members)
