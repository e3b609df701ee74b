"""CPQ: constraints-penalised Q-learning (Xu et al., 2022).

Actions that a CVAE of the data does not know are made to look costly, and what costs more than the budget is worth
nothing: the reward backup and the actor are masked by Q_c <= budget. Where nothing is affordable the actor seeks
the least cost.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Batch, Metrics, Spec, flatten_metrics
from lspc.algos.parts import cvae, gaussian, iql, lagrangian, qlearning
from lspc.algos.parts.iql import Twins
from lspc.nets import MLP, Learner


@dataclass(frozen=True)
class Config(qlearning.Config):
    learning_rate: float = 1e-3
    """Adam's step size, for critics and CVAE, and the step of alpha."""
    actor_learning_rate: float = 1e-4
    """Adam's step size for the actor."""
    candidates: int = 10
    """Actions drawn from the actor in each state, to look for unknown ones."""
    known_share: float = 0.75
    """Share of those actions, the ones with the least divergence, that count as known from the data."""
    unknown_cost: float = 1.5
    """Unknown actions are to cost at least so many budgets."""
    max_alpha: float = 1.0
    """Largest multiplier of that demand."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {
        "steps": 8_000,
        "batch_size": 256,
        "cvae_hidden": (256, 256),
        "actor_learning_rate": 3e-4,
        "target_rate": 0.02,
        "candidates": 5,
    },
}


class State(qlearning.State):
    actor: Learner[MLP]
    """pi: state -> mean and log-spread of the action before tanh."""
    alpha: Float[Array, ""]
    """Multiplier of "unknown actions cost enough"."""
    config: Config = eqx.field(static=True)


task_settings, prepare, metric_bounds = lagrangian.task_settings, lagrangian.prepare, qlearning.metric_bounds


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    keys = jax.random.split(key, 5)
    actor = MLP(spec.observation_dim, 2 * spec.action_dim, config.hidden, key=keys[4])
    parts = qlearning.init_parts(keys[:4], spec, config)
    return State(**parts, actor=Learner.of(actor), alpha=jnp.zeros(()), config=config)


def mask_unaffordable(value: Array, cost: Array, budget: Array) -> Array:
    """1(Q_c <= l) Q_r: what costs too much is worth nothing."""
    return jnp.where(cost <= budget, value, 0.0)


def flag_unknown(encoder: MLP, observations: Array, actions: Array, known_share: float) -> Array:
    """1 where the CVAE's divergence is among the largest, else 0: the samples of the paper's nu."""
    kl = cvae.divergence(*cvae.encode(encoder, observations, actions), "mean")
    return (kl >= jnp.quantile(kl, known_share)).astype(jnp.float32)


def cost_loss(
    q: Twins, observations: Array, actions: Array, target: Array, many: Array, drawn: Array, flags: Array,
    alpha: Array, least: Array,
) -> tuple[Array, tuple[Array, Array]]:  # fmt: skip
    """The Bellman error, minus alpha (E_nu[Q_c] - least): unknown actions are pushed up to that cost."""
    bellman_error = iql.q_loss(q, observations, actions, target)
    unknown_cost = jnp.sum(flags * qlearning.combine_twins(q, many, drawn)) / jnp.maximum(jnp.sum(flags), 1.0)
    return bellman_error - alpha * (unknown_cost - least), (bellman_error, unknown_cost)


def actor_loss(
    actor: MLP, reward: Twins, cost: Twins, budget: Array, observations: Array, noise: Array
) -> tuple[Array, Array]:
    """-E[1(Q_c <= l) Q_r - 1(Q_c > l) (Q_c - l)] of the actor's actions, and the share of them that can be afforded.

    The second term is ours: without it the actor has no gradient, and stays, wherever all it does costs too much.
    """
    actions = gaussian.sample(actor, observations, noise)
    q_r, q_c = (qlearning.combine_twins(q, observations, actions) for q in (reward, cost))
    return -jnp.mean(jnp.where(q_c <= budget, q_r, budget - q_c)), jnp.mean(q_c <= budget)


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of the CVAE, of Q_r, of Q_c, of alpha, of the actor; the critics' slow copies follow."""
    config, actor = state.config, state.actor.net
    batch = state.normaliser.apply_to(batch)
    observations, following, ends = batch.observations, batch.next_observations, batch.ends
    cvae_key, next_key, draw_key, actor_key = jax.random.split(key, 4)

    model, cvae_metrics = cvae.update(
        state.cvae, observations, batch.actions, cvae_key, config.kl_weight, config.learning_rate
    )
    next_actions = gaussian.sample(actor, following, jax.random.normal(next_key, batch.actions.shape))
    next_cost = qlearning.combine_twins(state.cost.target_q, following, next_actions)
    next_reward = qlearning.combine_twins(state.reward.target_q, following, next_actions)
    worth = mask_unaffordable(next_reward, next_cost, state.budget)
    target = qlearning.bellman_target(
        config.reward_scale * batch.rewards, worth, ends, config.discount, state.limits.reward
    )
    reward, reward_metrics = qlearning.update(
        state.reward, observations, batch.actions, target, config.learning_rate, config.target_rate
    )

    many = qlearning.repeat(observations, config.candidates)
    drawn = gaussian.sample(actor, many, jax.random.normal(draw_key, (*many.shape[:2], batch.actions.shape[1])))
    flags = flag_unknown(model.net.encoder, many, drawn, config.known_share)
    target = qlearning.bellman_target(batch.costs, next_cost, ends, config.discount, state.limits.cost)
    least = config.unknown_cost * state.budget
    gradient, (bellman_error, unknown_cost) = eqx.filter_grad(cost_loss, has_aux=True)(
        state.cost.q.net, observations, batch.actions, target, many, drawn, flags, state.alpha, least
    )
    cost = qlearning.step(state.cost, gradient, config.learning_rate, config.target_rate)
    alpha = jnp.clip(state.alpha + config.learning_rate * (least - unknown_cost), 0.0, config.max_alpha)

    noise = jax.random.normal(actor_key, batch.actions.shape)
    (loss, share), gradient = eqx.filter_value_and_grad(actor_loss, has_aux=True)(
        actor, reward.q.net, cost.q.net, state.budget, observations, noise
    )
    learned = state.actor.step(gradient, config.actor_learning_rate)

    q_c = qlearning.combine_twins(state.cost.q.net, observations, batch.actions)
    cost_metrics = {
        "q_loss": bellman_error,
        "q_mean": jnp.mean(q_c),
        "q_max": jnp.max(jnp.abs(q_c)),
        "q_of_unknown": unknown_cost,
        "alpha": state.alpha,
    }
    state = replace(state, reward=reward, cost=cost, cvae=model, actor=learned, alpha=alpha)
    parts = {
        "reward": reward_metrics,
        "cost": cost_metrics,
        "cvae": cvae_metrics,
        "policy": {"loss": loss, "affordable_share": share},
    }
    return state, flatten_metrics(parts)


class CpqPolicy(gaussian.GaussianPolicy):
    variants: ClassVar[tuple[str, ...]] = ("CPQ",)


def policy(state: State) -> CpqPolicy:
    return CpqPolicy(state.actor.net, state.normaliser)
