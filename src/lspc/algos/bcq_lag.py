"""BCQ-Lag: batch-constrained Q-learning (Fujimoto et al., 2019) with a PID Lagrangian for the cost.

A CVAE proposes actions of the data, a small network perturbs them by at most `perturbation` towards a high Q_r and,
as far as the multiplier asks for it, a low Q_c.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from lspc.algos.base import Batch, Metrics, Normaliser, Policy, Spec, flatten_metrics
from lspc.algos.parts import cvae, lagrangian, qlearning
from lspc.algos.parts.iql import Twins
from lspc.nets import MLP, Learner, polyak_update


@dataclass(frozen=True)
class Config(qlearning.Config):
    candidates: int = 10
    """Actions tried in the next state, of which the critics take the highest value."""
    smaller_share: float = 0.75
    """lambda, weight of the smaller of the twin Qs in the next state's value; the larger has the rest."""
    perturbation: float = 0.05
    """Phi, how far an action may be moved away from the CVAE's."""
    gains: tuple[float, ...] = (0.1, 0.003, 0.001)
    """What the multiplier is made of: shares of the excess cost, of its sum and of its growth (PID)."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {"steps": 8_000, "batch_size": 256, "cvae_hidden": (256, 256), "target_rate": 0.02, "candidates": 5},
}


class State(qlearning.State):
    actor: Learner[MLP]
    """xi: (state, proposed action) -> perturbation."""
    target_actor: MLP
    pid: lagrangian.Pid
    config: Config = eqx.field(static=True)


task_settings, prepare, metric_bounds = lagrangian.task_settings, lagrangian.prepare, qlearning.metric_bounds


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    keys = jax.random.split(key, 5)
    o, a = spec.observation_dim, spec.action_dim
    actor = MLP(o + a, a, config.hidden, key=keys[4], activation=jnp.tanh)
    return State(
        **qlearning.init_parts(keys[:4], spec, config),
        actor=Learner.of(actor),
        target_actor=jax.tree.map(jnp.copy, actor),
        pid=lagrangian.init(),
        config=config,
    )


def perturb(actor: MLP, decoder: MLP, observations: Array, noise: Array, perturbation: float) -> Array:
    """An action of the CVAE, moved a little: a + Phi tanh(xi(s, a))."""
    proposed = cvae.decode(decoder, observations, cvae.clip_latents(noise))
    return jnp.clip(proposed + perturbation * jnp.tanh(actor(observations, proposed)), -1.0, 1.0)


def actor_loss(
    actor: MLP, decoder: MLP, reward: Twins, cost: Twins, pid: lagrangian.Pid, budget: Array, observations: Array,
    noise: Array, config: Config,
) -> tuple[Array, tuple[lagrangian.Pid, Metrics]]:  # fmt: skip
    """-Q_r + multiplier (Q_c - budget) of the perturbed actions; only the perturbation learns from it."""
    actions = perturb(actor, decoder, observations, noise, config.perturbation)
    q_r, q_c = (qlearning.combine_twins(q, observations, actions) for q in (reward, cost))
    return lagrangian.lagrangian_loss(q_r, q_c, pid, budget, config.gains)


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of the CVAE, of Q_r, of Q_c, of the perturbation, then of the slow copies."""
    config, batch = state.config, state.normaliser.apply_to(batch)
    cvae_key, candidate_key, actor_key = jax.random.split(key, 3)

    model, cvae_metrics = cvae.update(
        state.cvae, batch.observations, batch.actions, cvae_key, config.kl_weight, config.learning_rate
    )
    many, latent_dim = qlearning.repeat(batch.next_observations, config.candidates), model.net.latent_dim
    noise = jax.random.normal(candidate_key, (*many.shape[:2], latent_dim))
    candidates = perturb(state.target_actor, model.net.decoder, many, noise, config.perturbation)
    reward, cost, critic_metrics = qlearning.update_both(state, batch, many, candidates, config.smaller_share, config)

    noise = jax.random.normal(actor_key, (batch.observations.shape[0], latent_dim))
    (loss, (pid, lagrangian_metrics)), gradient = eqx.filter_value_and_grad(actor_loss, has_aux=True)(
        state.actor.net, model.net.decoder, reward.q.net, cost.q.net, state.pid, state.budget, batch.observations,
        noise, config,
    )  # fmt: skip
    actor = state.actor.step(gradient, config.learning_rate)
    target_actor = polyak_update(state.target_actor, actor.net, config.target_rate)

    state = replace(state, reward=reward, cost=cost, cvae=model, actor=actor, target_actor=target_actor, pid=pid)
    parts = {**critic_metrics, "cvae": cvae_metrics, "policy": {"loss": loss}, "lagrangian": lagrangian_metrics}
    return state, flatten_metrics(parts)


class BcqLagPolicy(Policy):
    variants: ClassVar[tuple[str, ...]] = ("BCQ-Lag",)

    decoder: MLP
    actor: MLP
    normaliser: Normaliser
    config: Config = eqx.field(static=True)

    @property
    def noise_dim(self) -> int:
        return 2 * self.decoder.layers[-1].bias.shape[-1]

    def __call__(self, observations: Array, noise: Array, variant: str) -> Array:
        return perturb(self.actor, self.decoder, self.normaliser(observations), noise, self.config.perturbation)


def policy(state: State) -> BcqLagPolicy:
    return BcqLagPolicy(state.cvae.net.decoder, state.actor.net, state.normaliser, state.config)
