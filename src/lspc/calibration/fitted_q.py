"""Off-policy evaluation: what policies will earn and cost in an episode, told from logged data alone.

Fitted Q evaluation of a whole family of policies in one program: the networks are told which member of the family
they judge (its knob, such as LSPC-O's eps) and how many steps are left, so that nothing is discounted and nothing
lies beyond the horizon. Several networks, each with its own bootstrap weights for the episodes, show the spread.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Normaliser, Spec
from lspc.algos.lspc import LspcPolicy
from lspc.data import Dataset
from lspc.nets import MLP, Learner, polyak_update

CHUNK = 250
"""Updates per compiled call."""
BUMPS = 11
"""Inputs that tell a network its knob."""


@dataclass(frozen=True)
class Config:
    updates: int = 6_000
    """Gradient updates of each network."""
    members: int = 5
    """Networks in the ensemble."""
    batch_size: int = 256
    """Transitions per update."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    learning_rate: float = 1e-3
    """Adam's step size at the start; it falls to a twentieth."""
    target_rate: float = 0.2
    """Share of the fast network mixed into its slow copy at every update; it falls likewise."""


class Family(eqx.Module):
    """Policies told apart by one number."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """The least and the largest knob."""

    @abstractmethod
    def __call__(self, observations: Float[Array, "*batch observation"], knobs: Float[Array, "*#batch"]) -> Array: ...


class Restricted(Family):
    """LSPC-O at every eps it was trained for."""

    policy: LspcPolicy

    @property
    def range(self) -> tuple[float, float]:
        config = self.policy.config
        return config.restriction_range or (config.restriction, config.restriction)

    def __call__(self, observations: Array, knobs: Array) -> Array:
        zero_noise = jnp.zeros((*observations.shape[:-1], self.policy.noise_dim))
        return self.policy.act(observations, zero_noise, "LSPC-O", knobs)


class Rows(NamedTuple):
    """Transitions with their place in the episode."""

    observations: Array
    actions: Array
    signals: Array
    """(N, 2): reward and cost."""
    next_observations: Array
    ends: Array
    left: Array
    """Steps until the horizon, this one included."""
    episode: Array


def bumps(share: Float[Array, " *batch"]) -> Float[Array, "*batch bumps"]:
    """A number from 0 to 1 as overlapping bumps: a network told this way can turn sharply from knob to knob."""
    centres = jnp.linspace(0.0, 1.0, BUMPS)
    return jnp.exp(-(((share[..., None] - centres) * (BUMPS - 1)) ** 2))


class Judge(eqx.Module):
    """Reward and cost to come for (observation, action, steps left, knob): a rate per step times the steps left."""

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

    def rates(self, net: MLP, observations: Array, actions: Array, left: Array, knobs: Array) -> Array:
        knobs = jnp.broadcast_to(knobs, observations.shape[:-1])
        share = (knobs - self.low) / max(self.high - self.low, 1e-6)
        clock = 2.0 * jnp.broadcast_to(left, observations.shape[:-1]) / self.horizon - 1.0
        return net(self.normaliser(observations), actions, bumps(share), clock[..., None])

    def __call__(self, observations: Array, actions: Array, left: Array, knobs: Array) -> Float[Array, "*batch 2"]:
        """Reward and cost to come, within what the data allow."""
        rates = self.rates(self.net, observations, actions, left, knobs) * self.units
        return jnp.clip(rates, self.lowest, self.highest) * left[..., None]


class State(eqx.Module):
    learner: Learner[MLP]
    judge: Judge
    """Holds the slow copy."""


def rows(dataset: Dataset, horizon: int) -> Rows:
    starts = np.repeat([episode.start for episode in dataset.episodes], dataset.lengths)
    return Rows(
        jnp.asarray(dataset.observations),
        jnp.asarray(dataset.actions),
        jnp.stack([jnp.asarray(dataset.rewards), jnp.asarray(dataset.costs)], axis=-1),
        jnp.asarray(dataset.next_observations),
        jnp.asarray(dataset.terminated | dataset.truncated, jnp.float32),
        jnp.asarray(horizon - (np.arange(dataset.transitions) - starts), jnp.float32),
        jnp.asarray(np.repeat(np.arange(len(dataset.episodes)), dataset.lengths)),
    )


def blank(spec: Spec, config: Config, low: float, high: float, horizon: int) -> Judge:
    """A judge of the right shape that knows nothing."""
    net = MLP(spec.observation_dim + spec.action_dim + BUMPS + 1, 2, config.hidden, key=jax.random.key(0))
    nothing = jnp.zeros(2)
    return Judge(net, Normaliser.of(spec, active=True), nothing, nothing, nothing, low, high, horizon)


def init(key: PRNGKeyArray, dataset: Dataset, horizon: int, family: Family, config: Config) -> State:
    net = MLP(dataset.observation_dim + dataset.action_dim + BUMPS + 1, 2, config.hidden, key=key, last_scale=0.1)
    rewards, costs = dataset.rewards, dataset.costs
    largest = [max(float(np.abs(signal).max()), 1e-6) for signal in (rewards, costs)]
    judge = Judge(
        jax.tree.map(jnp.copy, net),
        Normaliser.of(Spec.of(dataset), active=True),
        jnp.asarray(largest),
        # An episode may end before its time, so that a rate over all steps left lies between 0 and a step's reward.
        jnp.asarray([min(0.0, float(rewards.min())), 0.0]),
        jnp.asarray([max(0.0, float(rewards.max())), float(costs.max())]),
        *family.range,
        horizon,
    )
    return State(Learner.of(net), judge)


def chunks(updates: int) -> Iterator[tuple[int, int]]:
    """Where each compiled call begins, and how many updates it makes."""
    for start in range(0, updates, CHUNK):
        yield start, min(CHUNK, updates - start)


def bootstrap_weights(key: PRNGKeyArray, episodes: Array) -> Array:
    """How much each episode counts for this member of the ensemble: exponential, the Bayesian bootstrap's weights."""
    return jax.vmap(lambda episode: jax.random.exponential(jax.random.fold_in(key, episode)))(episodes)


def loss(net: MLP, judge: Judge, batch: Rows, targets: Array, knobs: Array, weights: Array) -> Array:
    """Squared error of the return to come, in units of the largest reward and cost over the whole horizon."""
    rates = judge.rates(net, batch.observations, batch.actions, batch.left, knobs)
    share = batch.left[:, None] / judge.horizon
    errors = share * rates - targets / (judge.units * judge.horizon)
    return jnp.mean(weights[:, None] * errors**2)


def update(state: State, table: Rows, family: Family, key: PRNGKeyArray, member: PRNGKeyArray, pace: Array,
           config: Config) -> tuple[State, Array]:  # fmt: skip
    """One step towards what the family's own action in the next state promises."""
    choice_key, knob_key = jax.random.split(key)
    chosen = jax.random.randint(choice_key, (config.batch_size,), 0, table.left.shape[0])
    batch = Rows(*(column[chosen] for column in table))
    low, high = family.range
    knobs = jax.random.uniform(knob_key, (config.batch_size,), minval=low, maxval=high)
    judge = state.judge
    promised = family(batch.next_observations, knobs)
    following = judge(batch.next_observations, promised, batch.left - 1.0, knobs)
    targets = batch.signals + (1.0 - batch.ends[:, None]) * following
    weights = bootstrap_weights(member, batch.episode)
    error, gradient = eqx.filter_value_and_grad(loss)(state.learner.net, judge, batch, targets, knobs, weights)
    learner = state.learner.step(gradient, pace * config.learning_rate)
    slow = polyak_update(judge.net, learner.net, pace * config.target_rate)
    return State(learner, eqx.tree_at(lambda j: j.net, judge, slow)), error


@partial(jax.jit, static_argnames=("length", "config"))
def _advance(states: State, table: Rows, family: Family, seed: Array, start: Array, length: int, config: Config
             ) -> tuple[State, Array]:  # fmt: skip
    def one(pair: tuple[State, Array]) -> tuple[State, Array]:
        state, number = pair
        member = jax.random.fold_in(jax.random.key(seed), number)

        def step(state: State, count: Array) -> tuple[State, Array]:
            # News travel one step back in time per renewal of the slow copy: quick at first, steady at the end.
            pace = (1.0 - count / config.updates) ** 2 + 0.05
            key = jax.random.fold_in(jax.random.fold_in(member, 1), count)
            return update(state, table, family, key, jax.random.fold_in(member, 2), pace, config)

        return jax.lax.scan(step, state, start + jnp.arange(length))

    return jax.lax.map(one, (states, jnp.arange(config.members)))


def fit(
    dataset: Dataset,
    family: Family,
    config: Config,
    *,
    seed: int = 0,
    horizon: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Judge:
    """Judges of the family, one for each member of the ensemble, stacked along a new first axis."""
    horizon = horizon or int(dataset.lengths.max())
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), config.members), config.members)
    members = [init(key, dataset, horizon, family, config) for key in keys]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    table = rows(dataset, horizon)
    for start, length in chunks(config.updates):
        states, _ = _advance(states, table, family, jnp.asarray(seed), jnp.asarray(start), length, config)
        jax.block_until_ready(states)
        if on_progress:
            on_progress(start + length)
    return states.judge


@eqx.filter_jit
def judged(
    judges: Judge, family: Family, observations: Array, knobs: Array
) -> Float[Array, "members knobs states 2"]:
    """Reward and cost of whole episodes that begin in these observations, for each member and each knob."""

    def one(judge: Judge, knob: Array) -> Array:
        left = jnp.full(observations.shape[0], float(judge.horizon))
        return judge(observations, family(observations, knob), left, knob)

    return jax.vmap(lambda judge: jax.lax.map(lambda knob: one(judge, knob), knobs))(judges)
