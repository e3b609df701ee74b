"""Implicit Q-learning critics, written once and used twice: for reward and for cost.

Both learn from the data's own actions only. The reward critic trusts the smaller of its twin Qs and values a state
by an upper expectile (what the better actions of the data reach); the cost critic trusts the larger and takes a
lower expectile (the cost that the more careful actions of the data run up).
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.nets import MLP, Learner, polyak_update

Twins = tuple[MLP, MLP]
Observations = Float[Array, "batch observation"]
Actions = Float[Array, "batch action"]
PerTransition = Float[Array, " batch"]
Scalar = Float[Array, ""]


class Critic(eqx.Module):
    """Twin Q networks, their slow copies, and a state value."""

    q: Learner[Twins]
    target_q: Twins
    value: Learner[MLP]


class CriticConfig(NamedTuple):
    is_cost: bool
    expectile: float
    discount: float
    target_rate: float
    learning_rate: float
    as_released: bool = False
    """As the released code has it: V_c and its target Q_c clamped at zero inside V_c's loss (states below zero get no
    gradient), V(s') from before V's own step and not kept within what the data allow, twins' losses averaged."""


class CriticReport(NamedTuple):
    """What the policies need (advantage, value, q: per transition) and what the user sees (metrics)."""

    advantage: PerTransition
    value: PerTransition
    q: PerTransition
    metrics: dict[str, Array]


def init(key: PRNGKeyArray, observation_dim: int, action_dim: int, hidden: tuple[int, ...]) -> Critic:
    first, second, third = jax.random.split(key, 3)
    q = (
        MLP(observation_dim + action_dim, 1, hidden, key=first),
        MLP(observation_dim + action_dim, 1, hidden, key=second),
    )
    slow = jax.tree.map(jnp.copy, q)
    return Critic(Learner.of(q), slow, Learner.of(MLP(observation_dim, 1, hidden, key=third)))


def twin(
    q: Twins,
    observations: Float[Array, "*batch observation"],
    actions: Float[Array, "*batch action"],
    *,
    is_cost: bool,
) -> Float[Array, " *batch"]:
    """The pessimist's choice of the two: the smaller reward, the larger cost."""
    first, second = (net(observations, actions)[..., 0] for net in q)
    return jnp.maximum(first, second) if is_cost else jnp.minimum(first, second)


def expectile_loss(difference: Float[Array, " *batch"], expectile: float) -> Float[Array, " *batch"]:
    """|expectile - 1(u < 0)| u^2, the paper's L^2_xi."""
    return jnp.where(difference < 0, 1.0 - expectile, expectile) * difference**2


def value_loss(
    value: MLP, observations: Observations, q: PerTransition, config: CriticConfig
) -> tuple[Scalar, PerTransition]:
    """Expectile regression of V on Q: u = Q_r - V_r for reward, u = V_c - Q_c for cost."""
    prediction = value(observations)[..., 0]
    fitted = jnp.maximum(prediction, 0.0) if config.is_cost and config.as_released else prediction
    difference = fitted - q if config.is_cost else q - fitted
    return jnp.mean(expectile_loss(difference, config.expectile)), prediction


def q_target(
    value: MLP,
    signal: PerTransition,
    next_observations: Observations,
    ends: PerTransition,
    largest: Scalar,
    config: CriticConfig,
    after_end: PerTransition | float = 0.0,
) -> PerTransition:
    """signal + discount * V(s'); where an episode ends, `after_end` stands for V(s').

    V(s') is kept within what the data allow (a cost to come is never negative): where episodes are cut off in states
    that none starts from, nothing else would stop the values from feeding on themselves.
    """
    following = value(next_observations)[..., 0]
    if config.as_released:
        following = jnp.maximum(following, 0.0) if config.is_cost else following
    else:
        following = jnp.clip(following, 0.0 if config.is_cost else -largest, largest)
    return signal + config.discount * ((1.0 - ends) * following + ends * after_end)


def q_loss(q: Twins, observations: Observations, actions: Actions, target: PerTransition) -> Scalar:
    return sum((jnp.mean((net(observations, actions)[..., 0] - target) ** 2) for net in q), start=jnp.zeros(()))


def step(
    critic: Critic,
    observations: Observations,
    actions: Actions,
    target: Callable[[MLP], Array],
    config: CriticConfig,
) -> tuple[Critic, CriticReport]:
    """One step of V, then of the twin Qs towards `target(V)`, then of their slow copies.

    The report speaks of the V and the slow Qs before the step.
    """
    q = twin(critic.target_q, observations, actions, is_cost=config.is_cost)
    if config.as_released and config.is_cost:
        q = jnp.maximum(q, 0.0)
    (v_loss, predicted), gradient = eqx.filter_value_and_grad(value_loss, has_aux=True)(
        critic.value.net, observations, q, config
    )
    value = critic.value.step(gradient, config.learning_rate)
    # The target is an argument of the loss that is not differentiated: V does not learn from Q's error.
    bootstrapped = target(critic.value.net if config.as_released else value.net)
    td_loss, gradient = eqx.filter_value_and_grad(q_loss)(critic.q.net, observations, actions, bootstrapped)
    if config.as_released:
        td_loss, gradient = jax.tree.map(lambda of_both: of_both / 2, (td_loss, gradient))
    fast = critic.q.step(gradient, config.learning_rate)
    slow = polyak_update(critic.target_q, fast.net, config.target_rate)
    report = CriticReport(q - predicted, predicted, q, {"value_loss": v_loss, "q_loss": td_loss})
    return Critic(fast, slow, value), report


def evaluate(critic: Critic, observations: Observations, actions: Actions, *, is_cost: bool) -> CriticReport:
    """What a critic says of transitions that it does not learn from."""
    q = twin(critic.target_q, observations, actions, is_cost=is_cost)
    value = critic.value.net(observations)[..., 0]
    value = jnp.maximum(value, 0.0) if is_cost else value
    return CriticReport(q - value, value, q, {})


def update(
    critic: Critic,
    observations: Observations,
    actions: Actions,
    signal: PerTransition,
    next_observations: Observations,
    ends: PerTransition,
    largest: Scalar,
    config: CriticConfig,
    after_end: PerTransition | float = 0.0,
) -> tuple[Critic, CriticReport]:
    """One step towards signal + discount * V(s'); no value can mean more than `largest`."""
    critic, report = step(
        critic,
        observations,
        actions,
        lambda value: q_target(value, signal, next_observations, ends, largest, config, after_end),
        config,
    )
    value = jnp.maximum(report.value, 0.0) if config.is_cost else report.value
    return critic, CriticReport(report.q - value, value, report.q, report.metrics)


def describe_values(value: PerTransition, q: PerTransition) -> dict[str, Array]:
    """Metrics; a critic whose values have no spread knows nothing, one whose V_c is 0 everywhere no cost."""
    return {
        "value_mean": jnp.mean(value),
        "value_max": jnp.max(jnp.abs(value)),
        "value_spread": jnp.std(value),
        "q_mean": jnp.mean(q),
    }
