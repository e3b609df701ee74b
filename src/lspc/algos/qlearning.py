"""Twin Qs that look ahead through a policy's own actions: the critics of BCQ, BEAR and CPQ.

Unlike IQL's they ask for the value of actions that the data may not hold; what keeps those actions near the data
is each method's own idea.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos import iql
from lspc.algos.base import Metrics, Spec
from lspc.algos.iql import Twins
from lspc.nets import MLP, Learner, Net

Interval = tuple[Array, Array]


class Critic(eqx.Module):
    q: Learner[Twins]
    target_q: Twins
    """The slow copies."""


class Limits(eqx.Module):
    """What the data allow values to be: no step brings more than the largest of the data, and no cost is negative."""

    reward: Interval
    cost: Interval


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


def metric_bounds(spec: Spec, discount: float, reward_scale: float) -> dict[str, float]:
    """Ten times what the data allow."""
    reward, cost = largest_values(spec, discount, reward_scale)
    return {"reward/q_max": 10 * max(reward, 0.1), "cost/q_max": 10 * max(cost, 0.1)}


def mixed(q: Twins, observations: Array, actions: Array, smaller_share: float = 1.0) -> Float[Array, " *batch"]:
    """The smaller of the twins, or a mixture with the larger (lambda min + (1 - lambda) max)."""
    first, second = (net(observations, actions)[..., 0] for net in q)
    return smaller_share * jnp.minimum(first, second) + (1.0 - smaller_share) * jnp.maximum(first, second)


def repeated(observations: Float[Array, "batch o"], count: int) -> Float[Array, "count batch o"]:
    """The same observations for each of several candidate actions."""
    return jnp.broadcast_to(observations, (count, *observations.shape))


def highest(
    q: Twins, observations: Float[Array, "n batch o"], candidates: Float[Array, "n batch a"], smaller_share: float
) -> Float[Array, " batch"]:
    """The mixture's value of the candidate that has the highest."""
    return jnp.max(mixed(q, observations, candidates, smaller_share), axis=0)


def bellman_target(signal: Array, following: Array, ends: Array, discount: float, allowed: Interval) -> Array:
    """signal + discount * Q(s', a'), with nothing after the end and nothing that the data do not allow."""
    return signal + discount * (1.0 - ends) * jnp.clip(following, *allowed)


def step(critic: Critic, slope: Twins, learning_rate: float, target_rate: float) -> Critic:
    fast = critic.q.step(slope, learning_rate)
    return Critic(fast, follow(critic.target_q, fast.net, target_rate))


def follow(slow: Net, fast: Net, target_rate: float) -> Net:
    """Polyak: the slow copy takes over a share of the fast one."""
    return jax.tree.map(lambda old, new: old + target_rate * (new - old), slow, fast)


def update(
    critic: Critic, observations: Array, actions: Array, target: Array, learning_rate: float, target_rate: float
) -> tuple[Critic, Metrics]:
    """One step of the twins towards the target, then of their slow copies."""
    loss, slope = eqx.filter_value_and_grad(iql.q_loss)(critic.q.net, observations, actions, target)
    q = mixed(critic.q.net, observations, actions)
    metrics = {"q_loss": loss, "q_mean": jnp.mean(q), "q_max": jnp.max(jnp.abs(q))}
    return step(critic, slope, learning_rate, target_rate), metrics
