"""Twin Qs that look ahead through a policy's own actions: the critics of BCQ, BEAR and CPQ.

Unlike IQL's they ask for the value of actions that the data may not hold; what keeps those actions near the data
is each method's own idea.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from lspc.algos.base import Batch, Metrics, Normaliser, Spec
from lspc.algos.parts import cvae, iql, lagrangian
from lspc.algos.parts.iql import Twins
from lspc.nets import MLP, Learner, polyak_update

Interval = tuple[Float[Array, ""], Float[Array, ""]]


@dataclass(frozen=True)
class Config(lagrangian.Config):
    """What BCQ, BEAR and CPQ can be told alike."""

    cvae_hidden: tuple[int, ...] = (400, 400)
    """Widths of the hidden layers of the CVAE."""
    kl_weight: float = 0.5
    """Weight of the CVAE's divergence from the standard normal."""
    target_rate: float = 0.005
    """Share of the fast networks mixed into their slow copies at every update."""


class Critic(eqx.Module):
    q: Learner[Twins]
    target_q: Twins
    """The slow copies."""


class Limits(eqx.Module):
    """What the data allow values to be: no step brings more than the largest of the data, and no cost is negative."""

    reward: Interval
    cost: Interval


class State(eqx.Module):
    """What BCQ, BEAR and CPQ have alike; each adds its actor and what keeps that within bounds."""

    reward: Critic
    cost: Critic
    cvae: Learner[cvae.Cvae]
    normaliser: Normaliser
    limits: Limits
    budget: Float[Array, ""]
    """Discounted."""


def init(key: PRNGKeyArray, observation_dim: int, action_dim: int, hidden: tuple[int, ...]) -> Critic:
    first, second = (MLP(observation_dim + action_dim, 1, hidden, key=k) for k in jax.random.split(key))
    return Critic(Learner.of((first, second)), jax.tree.map(jnp.copy, (first, second)))


def largest_values(spec: Spec, discount: float, reward_scale: float) -> tuple[float, float]:
    """The values of the largest reward and of the largest cost, if every step brought them."""
    horizon = 1.0 / (1.0 - discount)
    return horizon * spec.largest_reward * reward_scale, horizon * spec.largest_cost


def limits(spec: Spec, discount: float, reward_scale: float) -> Limits:
    reward, cost = largest_values(spec, discount, reward_scale)
    return Limits((jnp.float32(-reward), jnp.float32(reward)), (jnp.zeros(()), jnp.float32(cost)))


def init_parts(keys: Key[Array, "4"], spec: Spec, config: Config) -> dict[str, Any]:
    """The fields of `State`."""
    o, a = spec.observation_dim, spec.action_dim
    return {
        "reward": init(keys[0], o, a, config.hidden),
        "cost": init(keys[1], o, a, config.hidden),
        "cvae": Learner.of(cvae.init((keys[2], keys[3]), o, a, 2 * a, config.cvae_hidden)),
        "normaliser": Normaliser.of(spec, active=config.normalise_observations),
        "limits": limits(spec, config.discount, config.reward_scale),
        "budget": jnp.float32(lagrangian.discounted_budget(config.budget, config.discount, spec.longest_episode)),
    }


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    """Ten times what the data allow."""
    reward, cost = largest_values(spec, config.discount, config.reward_scale)
    return {"reward/q_max": 10 * max(reward, 0.1), "cost/q_max": 10 * max(cost, 0.1)}


def combine_twins(
    q: Twins,
    observations: Float[Array, "*batch observation"],
    actions: Float[Array, "*batch action"],
    smaller_share: float = 1.0,
) -> Float[Array, " *batch"]:
    """The smaller of the twins, or a mixture with the larger (lambda min + (1 - lambda) max)."""
    first, second = (net(observations, actions)[..., 0] for net in q)
    return smaller_share * jnp.minimum(first, second) + (1.0 - smaller_share) * jnp.maximum(first, second)


def repeat(observations: Float[Array, "batch o"], count: int) -> Float[Array, "count batch o"]:
    """The same observations for each of several candidate actions."""
    return jnp.broadcast_to(observations, (count, *observations.shape))


def highest_q(
    q: Twins, observations: Float[Array, "n batch o"], candidates: Float[Array, "n batch a"], smaller_share: float
) -> Float[Array, " batch"]:
    """The mixture's value of the candidate that has the highest."""
    return jnp.max(combine_twins(q, observations, candidates, smaller_share), axis=0)


def bellman_target(
    signal: Float[Array, " batch"],
    following: Float[Array, " batch"],
    ends: Float[Array, " batch"],
    discount: float,
    allowed: Interval,
) -> Float[Array, " batch"]:
    """signal + discount * Q(s', a'), with nothing after the end and nothing that the data do not allow."""
    return signal + discount * (1.0 - ends) * jnp.clip(following, *allowed)


def step(critic: Critic, gradient: Twins, learning_rate: float, target_rate: float) -> Critic:
    fast = critic.q.step(gradient, learning_rate)
    return Critic(fast, polyak_update(critic.target_q, fast.net, target_rate))


def update(
    critic: Critic,
    observations: Float[Array, "batch observation"],
    actions: Float[Array, "batch action"],
    target: Float[Array, " batch"],
    learning_rate: float,
    target_rate: float,
) -> tuple[Critic, Metrics]:
    """One step of the twins towards the target, then of their slow copies."""
    loss, gradient = eqx.filter_value_and_grad(iql.q_loss)(critic.q.net, observations, actions, target)
    q = combine_twins(critic.q.net, observations, actions)
    metrics = {"q_loss": loss, "q_mean": jnp.mean(q), "q_max": jnp.max(jnp.abs(q))}
    return step(critic, gradient, learning_rate, target_rate), metrics


def update_both(
    state: State, batch: Batch, following: Float[Array, "n batch o"], candidates: Float[Array, "n batch a"],
    smaller_share: float, config: Config,
) -> tuple[Critic, Critic, dict[str, Metrics]]:  # fmt: skip
    """One step of Q_r and of Q_c towards the highest of the candidates in the next state (BCQ and BEAR)."""

    def learn(critic: Critic, signal: Array, allowed: Interval) -> tuple[Critic, Metrics]:
        value = highest_q(critic.target_q, following, candidates, smaller_share)
        target = bellman_target(signal, value, batch.ends, config.discount, allowed)
        return update(critic, batch.observations, batch.actions, target, config.learning_rate, config.target_rate)

    reward, reward_metrics = learn(state.reward, config.reward_scale * batch.rewards, state.limits.reward)
    cost, cost_metrics = learn(state.cost, batch.costs, state.limits.cost)
    return reward, cost, {"reward": reward_metrics, "cost": cost_metrics}
