"""BEAR-Lag: bootstrapping error accumulation reduction (Kumar et al., 2019) with a PID Lagrangian for the cost.

The actor is free, but the maximum mean discrepancy between its actions and those of a CVAE of the data must stay
below a threshold; a second multiplier, alpha, sees to that.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos import cvae, gaussian, lagrangian, qlearning
from lspc.algos.base import Batch, Metrics, Normaliser, Spec
from lspc.algos.cvae import Cvae
from lspc.algos.iql import Twins
from lspc.algos.mmd import gaussian_mmd
from lspc.data import Dataset
from lspc.nets import MLP, Learner
from lspc.tasks import Task


@dataclass(frozen=True)
class Config:
    steps: int = 300_000
    """Gradient updates."""
    batch_size: int = 512
    """Transitions per update."""
    budget: float = 10.0
    """Cost that an episode may run up."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critics."""
    cvae_hidden: tuple[int, ...] = (400, 400)
    """Widths of the hidden layers of the CVAE."""
    learning_rate: float = 1e-3
    """Adam's step size, for all parts, and the step of log alpha."""
    discount: float = 0.99
    """Weight of the next step's value, for reward and cost alike."""
    target_rate: float = 0.005
    """Share of the fast networks mixed into their slow copies at every update."""
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
    kl_weight: float = 0.5
    """Weight of the CVAE's divergence from the standard normal."""
    gains: tuple[float, ...] = (0.1, 0.003, 0.001)
    """What the multiplier is made of: shares of the excess cost, of its sum and of its growth (PID)."""
    reward_scale: float = 0.1
    """Rewards are multiplied by this."""
    normalise_observations: bool = True
    """Give the networks observations of zero mean and unit spread."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {"steps": 8_000, "batch_size": 256, "cvae_hidden": (256, 256), "target_rate": 0.02},
}


class State(eqx.Module):
    reward: qlearning.Critic
    cost: qlearning.Critic
    cvae: Learner[Cvae]
    actor: Learner[MLP]
    """pi: state -> mean and log-spread of the action before tanh."""
    target_actor: MLP
    log_alpha: Float[Array, ""]
    pid: lagrangian.Pid
    normaliser: Normaliser
    limits: qlearning.Limits
    budget: Float[Array, ""]
    """Discounted."""
    config: Config = eqx.field(static=True)


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    shorter = {"steps": 200_000} if preset == "default" and task.suite == "metadrive" else {}
    return {"budget": float(min(task.thresholds)), **shorter}


def prepare(dataset: Dataset, config: Config) -> Dataset:
    return dataset


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    keys = jax.random.split(key, 5)
    o, a = spec.observation_dim, spec.action_dim
    actor = MLP(o, 2 * a, config.hidden, key=keys[4])
    return State(
        reward=qlearning.init(keys[0], o, a, config.hidden),
        cost=qlearning.init(keys[1], o, a, config.hidden),
        cvae=Learner.of(cvae.init((keys[2], keys[3]), o, a, 2 * a, config.cvae_hidden)),
        actor=Learner.of(actor),
        target_actor=jax.tree.map(jnp.copy, actor),
        log_alpha=jnp.zeros(()),
        pid=lagrangian.init(),
        normaliser=Normaliser.of(spec, active=config.normalise_observations),
        limits=qlearning.limits(spec, config.discount, config.reward_scale),
        budget=jnp.float32(lagrangian.discounted_budget(config.budget, config.discount, spec.longest_episode)),
        config=config,
    )


def discrepancy(
    actor: MLP, decoder: MLP, observations: Float[Array, "n batch o"], noise: Array, latent_noise: Array, sigma: float
) -> tuple[Float[Array, " batch"], Float[Array, "n batch a"]]:
    """MMD between the actor's and the CVAE's actions before tanh, and the actor's actions."""
    drawn = gaussian.unsquashed(actor, observations, noise)
    modelled = decoder(observations, cvae.typical(latent_noise))
    return gaussian_mmd(modelled, drawn, sigma), jnp.tanh(drawn)


def actor_loss(
    actor: MLP, decoder: MLP, reward: Twins, cost: Twins, alpha: Array, pid: lagrangian.Pid, budget: Array,
    observations: Array, noise: Array, latent_noise: Array, config: Config,
) -> tuple[Array, tuple[lagrangian.Pid, Array, Metrics]]:  # fmt: skip
    """-Q_r + multiplier (Q_c - budget) + alpha (MMD - epsilon)."""
    many = qlearning.repeated(observations, config.mmd_samples)
    mmd, actions = discrepancy(actor, decoder, many, noise, latent_noise, config.mmd_sigma)
    q_r, q_c = (qlearning.mixed(q, observations, actions[0]) for q in (reward, cost))
    loss, (pid, metrics) = lagrangian.lagrangian_loss(q_r, q_c, pid, budget, config.gains)
    excess = jnp.mean(mmd) - config.mmd_threshold
    return loss + alpha * excess, (pid, excess, metrics)


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of the CVAE, of Q_r, of Q_c, of the actor, of alpha, then of the slow copies."""
    config = state.config
    observations, following = state.normaliser(batch.observations), state.normaliser(batch.next_observations)
    ends = jnp.maximum(batch.terminated, batch.truncated)
    cvae_key, candidate_key, actor_key, latent_key = jax.random.split(key, 4)

    model, cvae_metrics = cvae.fit(
        state.cvae, observations, batch.actions, cvae_key, config.kl_weight, config.learning_rate
    )
    many = qlearning.repeated(following, config.candidates)
    noise = jax.random.normal(candidate_key, (*many.shape[:2], batch.actions.shape[1]))
    candidates = gaussian.squashed(state.target_actor, many, noise)

    def learn(
        critic: qlearning.Critic, signal: Array, allowed: qlearning.Interval
    ) -> tuple[qlearning.Critic, Metrics]:
        value = qlearning.highest(critic.target_q, many, candidates, config.smaller_share)
        target = qlearning.bellman_target(signal, value, ends, config.discount, allowed)
        return qlearning.update(critic, observations, batch.actions, target, config.learning_rate, config.target_rate)

    reward, reward_metrics = learn(state.reward, config.reward_scale * batch.rewards, state.limits.reward)
    cost, cost_metrics = learn(state.cost, batch.costs, state.limits.cost)

    draws = config.mmd_samples, observations.shape[0]
    noise = jax.random.normal(actor_key, (*draws, batch.actions.shape[1]))
    latent_noise = jax.random.normal(latent_key, (*draws, model.net.latent_dim))
    alpha = jnp.exp(state.log_alpha)
    (loss, (pid, excess, lagrangian_metrics)), slope = eqx.filter_value_and_grad(actor_loss, has_aux=True)(
        state.actor.net, model.net.decoder, reward.q.net, cost.q.net, alpha, state.pid, state.budget, observations,
        noise, latent_noise, config,
    )  # fmt: skip
    actor = state.actor.step(slope, config.learning_rate)
    target_actor = qlearning.follow(state.target_actor, actor.net, config.target_rate)
    log_alpha = jnp.clip(state.log_alpha + config.learning_rate * alpha * excess, -5.0, 5.0)

    state = State(
        reward, cost, model, actor, target_actor, log_alpha, pid, state.normaliser, state.limits, state.budget, config
    )
    parts = {
        "reward": reward_metrics,
        "cost": cost_metrics,
        "cvae": cvae_metrics,
        "policy": {"loss": loss, "mmd": excess + config.mmd_threshold, "alpha": alpha},
        "lagrangian": lagrangian_metrics,
    }
    return state, {f"{part}/{name}": value for part, metrics in parts.items() for name, value in metrics.items()}


class BearLagPolicy(gaussian.GaussianPolicy):
    variants: ClassVar[tuple[str, ...]] = ("BEAR-Lag",)


def policy(state: State) -> BearLagPolicy:
    return BearLagPolicy(state.actor.net, state.normaliser)


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    return qlearning.metric_bounds(spec, config.discount, config.reward_scale)
