"""PPO-Lagrangian, the on-policy method that collects data: it is not one of the compared offline methods.

Two critics (reward, cost) and a multiplier that rises while the mean episode cost is above the agent's limit;
the policy climbs the mixed advantage (A_r - multiplier * A_c) / (1 + multiplier).
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.nets import MLP, match_rank


@dataclass(frozen=True)
class Config:
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 7e-4
    discount: float = 0.99
    gae: float = 0.95
    clip: float = 0.2
    epochs: int = 8
    minibatches: int = 8
    entropy: float = 0.0
    initial_log_std: float = -0.5
    multiplier_rate: float = 0.05
    """Step of the multiplier per iteration, on the relative excess of the mean episode cost."""


class Agent(eqx.Module):
    policy: MLP
    log_std: Float[Array, " action"]
    reward_value: MLP
    cost_value: MLP


Optimisers = tuple[optax.OptState, optax.OptState]
"""One for the policy and one for the values: their gradients differ by orders of magnitude."""
Learner = tuple[Agent, Optimisers]


class State(NamedTuple):
    agent: Agent
    optimiser: Optimisers
    multiplier: Array


class Rollout(NamedTuple):
    """One iteration's experience, time first: (steps, simulators, ...)."""

    observations: Array
    actions: Array
    log_probabilities: Array
    rewards: Array
    costs: Array
    next_observations: Array
    terminated: Array
    ended: Array
    """Terminated or truncated: advantages do not flow across."""


def _policy_part(agent: Agent) -> Agent:
    """A filter that is True on the policy's arrays: the rest belongs to the values."""
    nothing = jax.tree.map(lambda _: False, agent)
    everything = jax.tree.map(eqx.is_array, agent)
    return eqx.tree_at(lambda a: (a.policy, a.log_std), nothing, (everything.policy, everything.log_std))


def _optimiser(config: Config) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(0.5), optax.adam(config.learning_rate))


def init(key: PRNGKeyArray, observation_dim: int, action_dim: int, config: Config, multiplier: float) -> State:
    policy_key, reward_key, cost_key = jax.random.split(key, 3)

    def net(outputs: int, key: PRNGKeyArray, last_scale: float = 1.0) -> MLP:
        return MLP(observation_dim, outputs, config.hidden, key=key, activation=jnp.tanh, last_scale=last_scale)

    agent = Agent(
        policy=net(action_dim, policy_key, 0.01),
        log_std=jnp.full((action_dim,), config.initial_log_std),
        reward_value=net(1, reward_key),
        cost_value=net(1, cost_key),
    )
    policy, values = eqx.partition(agent, _policy_part(agent))
    optimiser = _optimiser(config)
    states = (
        optimiser.init(eqx.filter(policy, eqx.is_array)),
        optimiser.init(eqx.filter(values, eqx.is_array)),
    )
    return State(agent, states, jnp.asarray(multiplier))


def gaussian_log_probability(actions: Array, mean: Array, log_std: Array) -> Array:
    z = (actions - mean) / match_rank(jnp.exp(log_std), mean)
    return jnp.sum(-0.5 * z**2 - match_rank(log_std, mean) - 0.5 * jnp.log(2 * jnp.pi), axis=-1)


def generalised_advantage(
    signal: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    ended: Array,
    discount: float,
    gae: float,
) -> Array:
    """Advantage of each step; a timeout bootstraps from the value of the state it reached, a terminal does not."""
    errors = signal + discount * next_values * (1.0 - terminated) - values

    def back(carry: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        error, end = step
        advantage = error + discount * gae * (1.0 - end) * carry
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros_like(errors[0]), (errors, ended), reverse=True)
    return advantages


def update_multiplier(multiplier: Array, episode_cost: Array, limit: float, rate: float) -> Array:
    """Rise while episodes cost more than the limit, fall else; never below zero."""
    excess = (episode_cost - limit) / jnp.maximum(limit, 5.0)
    return jnp.maximum(multiplier + rate * jnp.clip(excess, -2.0, 2.0), 0.0)


class Batch(NamedTuple):
    observations: Array
    actions: Array
    log_probabilities: Array
    advantages: Array
    reward_targets: Array
    cost_targets: Array


def _losses(agent: Agent, batch: Batch, config: Config) -> Array:
    mean = agent.policy(batch.observations)
    log_probability = gaussian_log_probability(batch.actions, mean, agent.log_std)
    ratio = jnp.exp(log_probability - batch.log_probabilities)
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    policy_loss = -jnp.mean(jnp.minimum(ratio * batch.advantages, clipped * batch.advantages))
    reward_loss = jnp.mean((agent.reward_value(batch.observations)[..., 0] - batch.reward_targets) ** 2)
    cost_loss = jnp.mean((agent.cost_value(batch.observations)[..., 0] - batch.cost_targets) ** 2)
    return policy_loss - config.entropy * jnp.sum(agent.log_std) + reward_loss + cost_loss


def _step(learner: Learner, batch: Batch, config: Config) -> Learner:
    agent, (policy_state, value_state) = learner
    gradients = eqx.filter_grad(_losses)(agent, batch, config)
    policy_gradients, value_gradients = eqx.partition(gradients, _policy_part(agent))
    with jax.numpy_dtype_promotion("standard"):  # optax multiplies its whole step count with fractions
        policy_updates, policy_state = _optimiser(config).update(policy_gradients, policy_state)
        value_updates, value_state = _optimiser(config).update(value_gradients, value_state)
    agent = eqx.apply_updates(agent, eqx.combine(policy_updates, value_updates))
    return agent, (policy_state, value_state)


@eqx.filter_jit
def update(state: State, rollout: Rollout, key: PRNGKeyArray, config: Config) -> State:
    """Several epochs of minibatches over one rollout, in one compiled program."""
    agent = state.agent

    def advantage(value: MLP, signal: Array) -> tuple[Array, Array]:
        values, next_values = value(rollout.observations)[..., 0], value(rollout.next_observations)[..., 0]
        advantages = generalised_advantage(
            signal, values, next_values, rollout.terminated, rollout.ended, config.discount, config.gae
        )
        return advantages, advantages + values

    reward_advantages, reward_targets = advantage(agent.reward_value, rollout.rewards)
    cost_advantages, cost_targets = advantage(agent.cost_value, rollout.costs)
    reward_advantages = (reward_advantages - reward_advantages.mean()) / (reward_advantages.std() + 1e-6)
    cost_advantages = (cost_advantages - cost_advantages.mean()) / (cost_advantages.std() + 1e-6)
    advantages = (reward_advantages - state.multiplier * cost_advantages) / (1.0 + state.multiplier)

    batch = Batch(
        rollout.observations,
        rollout.actions,
        rollout.log_probabilities,
        advantages,
        reward_targets,
        cost_targets,
    )
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
    count = flat.advantages.shape[0]
    size = count // config.minibatches

    def step(carry: Learner, rows: Array) -> tuple[Learner, None]:
        return _step(carry, jax.tree.map(lambda x: x[rows], flat), config), None

    def epoch(carry: Learner, key: PRNGKeyArray) -> tuple[Learner, None]:
        order = jax.random.permutation(key, count)[: size * config.minibatches]
        return jax.lax.scan(step, carry, order.reshape(config.minibatches, size))

    learner, _ = jax.lax.scan(epoch, (agent, state.optimiser), jax.random.split(key, config.epochs))
    return State(*learner, state.multiplier)
