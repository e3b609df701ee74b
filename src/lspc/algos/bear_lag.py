"""BEAR-Lag: bootstrapping error accumulation reduction (Kumar et al., 2019) with a PID Lagrangian for the cost.

The actor is free, but the maximum mean discrepancy between its actions and those of a CVAE of the data must stay
below a threshold; a second multiplier, alpha, sees to that.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Batch, Metrics, Spec, flatten_metrics
from lspc.algos.parts import cvae, gaussian, lagrangian, qlearning
from lspc.algos.parts.iql import Twins
from lspc.algos.parts.mmd import gaussian_mmd
from lspc.nets import MLP, Learner, polyak_update


@dataclass(frozen=True)
class Config(qlearning.Config):
    steps: int = 300_000
    """Gradient updates."""
    learning_rate: float = 1e-3
    """Adam's step size, for all parts, and the step of log alpha."""
    candidates: int = 10
    """Actions tried in the next state, of which the critics take the highest value."""
    smaller_share: float = 0.75
    """lambda, weight of the smaller of the twin Qs in the next state's value; the larger has the rest."""
    mmd_samples: int = 10
    """Actions drawn from actor and CVAE to measure their discrepancy."""
    mmd_sigma: float = 50.0
    """Width of the discrepancy's Gaussian kernel."""
    mmd_threshold: float = 0.05
    """epsilon, the discrepancy that is allowed."""
    gains: tuple[float, ...] = (0.1, 0.003, 0.001)
    """What the multiplier is made of: shares of the excess cost, of its sum and of its growth (PID)."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {
        "steps": 8_000,
        "batch_size": 256,
        "cvae_hidden": (256, 256),
        "target_rate": 0.02,
        "candidates": 5,
        "mmd_samples": 5,
    },
}


class State(qlearning.State):
    actor: Learner[MLP]
    """pi: state -> mean and log-spread of the action before tanh."""
    target_actor: MLP
    log_alpha: Float[Array, ""]
    pid: lagrangian.Pid
    config: Config = eqx.field(static=True)


task_settings, prepare, metric_bounds = lagrangian.task_settings, lagrangian.prepare, qlearning.metric_bounds


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    keys = jax.random.split(key, 5)
    actor = MLP(spec.observation_dim, 2 * spec.action_dim, config.hidden, key=keys[4])
    return State(
        **qlearning.init_parts(keys[:4], spec, config),
        actor=Learner.of(actor),
        target_actor=jax.tree.map(jnp.copy, actor),
        log_alpha=jnp.zeros(()),
        pid=lagrangian.init(),
        config=config,
    )


def discrepancy(
    actor: MLP, decoder: MLP, observations: Float[Array, "n batch o"], noise: Array, latent_noise: Array, sigma: float
) -> tuple[Float[Array, " batch"], Float[Array, "n batch a"]]:
    """MMD between the actor's and the CVAE's actions before tanh, and the actor's actions."""
    drawn = gaussian.sample_before_tanh(actor, observations, noise)
    modelled = decoder(observations, cvae.clip_latents(latent_noise))
    return gaussian_mmd(modelled, drawn, sigma), jnp.tanh(drawn)


def actor_loss(
    actor: MLP, decoder: MLP, reward: Twins, cost: Twins, alpha: Array, pid: lagrangian.Pid, budget: Array,
    observations: Array, noise: Array, latent_noise: Array, config: Config,
) -> tuple[Array, tuple[lagrangian.Pid, Array, Metrics]]:  # fmt: skip
    """-Q_r + multiplier (Q_c - budget) + alpha (MMD - epsilon)."""
    many = qlearning.repeat(observations, config.mmd_samples)
    mmd, actions = discrepancy(actor, decoder, many, noise, latent_noise, config.mmd_sigma)
    q_r, q_c = (qlearning.combine_twins(q, observations, actions[0]) for q in (reward, cost))
    loss, (pid, metrics) = lagrangian.lagrangian_loss(q_r, q_c, pid, budget, config.gains)
    excess = jnp.mean(mmd) - config.mmd_threshold
    return loss + alpha * excess, (pid, excess, metrics)


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of the CVAE, of Q_r, of Q_c, of the actor, of alpha, then of the slow copies."""
    config, batch = state.config, state.normaliser.apply_to(batch)
    cvae_key, candidate_key, actor_key, latent_key = jax.random.split(key, 4)

    model, cvae_metrics = cvae.update(
        state.cvae, batch.observations, batch.actions, cvae_key, config.kl_weight, config.learning_rate
    )
    many = qlearning.repeat(batch.next_observations, config.candidates)
    noise = jax.random.normal(candidate_key, (*many.shape[:2], batch.actions.shape[1]))
    candidates = gaussian.sample(state.target_actor, many, noise)
    reward, cost, critic_metrics = qlearning.update_both(state, batch, many, candidates, config.smaller_share, config)

    draws = config.mmd_samples, batch.observations.shape[0]
    noise = jax.random.normal(actor_key, (*draws, batch.actions.shape[1]))
    latent_noise = jax.random.normal(latent_key, (*draws, model.net.latent_dim))
    alpha = jnp.exp(state.log_alpha)
    (loss, (pid, excess, lagrangian_metrics)), gradient = eqx.filter_value_and_grad(actor_loss, has_aux=True)(
        state.actor.net, model.net.decoder, reward.q.net, cost.q.net, alpha, state.pid, state.budget,
        batch.observations, noise, latent_noise, config,
    )  # fmt: skip
    actor = state.actor.step(gradient, config.learning_rate)
    target_actor = polyak_update(state.target_actor, actor.net, config.target_rate)
    log_alpha = jnp.clip(state.log_alpha + config.learning_rate * alpha * excess, -5.0, 5.0)

    state = replace(
        state, reward=reward, cost=cost, cvae=model, actor=actor, target_actor=target_actor, log_alpha=log_alpha,
        pid=pid,
    )  # fmt: skip
    policy_metrics = {"loss": loss, "mmd": excess + config.mmd_threshold, "alpha": alpha}
    parts = {**critic_metrics, "cvae": cvae_metrics, "policy": policy_metrics, "lagrangian": lagrangian_metrics}
    return state, flatten_metrics(parts)


class BearLagPolicy(gaussian.GaussianPolicy):
    variants: ClassVar[tuple[str, ...]] = ("BEAR-Lag",)


def policy(state: State) -> BearLagPolicy:
    return BearLagPolicy(state.actor.net, state.normaliser)
