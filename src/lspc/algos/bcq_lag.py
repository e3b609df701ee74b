"""BCQ-Lag: batch-constrained Q-learning (Fujimoto et al., 2019) with a PID Lagrangian for the cost.

A CVAE proposes actions of the data, a small network perturbs them by at most `perturbation` towards a high Q_r and,
as far as the multiplier asks for it, a low Q_c.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos import cvae, lagrangian, qlearning
from lspc.algos.base import Batch, Metrics, Normaliser, Policy, Spec
from lspc.algos.iql import Twins
from lspc.data import Dataset
from lspc.nets import MLP, Learner
from lspc.tasks import Task


@dataclass(frozen=True)
class Config:
    steps: int = 100_000
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
    """Adam's step size, for all parts."""
    discount: float = 0.99
    """Weight of the next step's value, for reward and cost alike."""
    target_rate: float = 0.005
    """Share of the fast networks mixed into their slow copies at every update."""
    candidates: int = 10
    """Actions tried in the next state, of which the critics take the highest value."""
    smaller_share: float = 0.75
    """lambda, weight of the smaller of the twin Qs in the next state's value; the larger has the rest."""
    perturbation: float = 0.05
    """Phi, how far an action may be moved away from the CVAE's."""
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
    cvae: Learner[cvae.Cvae]
    actor: Learner[MLP]
    """xi: (state, proposed action) -> perturbation."""
    target_actor: MLP
    pid: lagrangian.Pid
    normaliser: Normaliser
    limits: qlearning.Limits
    budget: Float[Array, ""]
    """Discounted."""
    config: Config = eqx.field(static=True)


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    longer = {"steps": 200_000} if preset == "default" and task.suite == "metadrive" else {}
    return {"budget": float(min(task.thresholds)), **longer}


def prepare(dataset: Dataset, config: Config) -> Dataset:
    return dataset


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    keys = jax.random.split(key, 5)
    o, a = spec.observation_dim, spec.action_dim
    actor = MLP(o + a, a, config.hidden, key=keys[4], activation=jnp.tanh)
    return State(
        reward=qlearning.init(keys[0], o, a, config.hidden),
        cost=qlearning.init(keys[1], o, a, config.hidden),
        cvae=Learner.of(cvae.init((keys[2], keys[3]), o, a, 2 * a, config.cvae_hidden)),
        actor=Learner.of(actor),
        target_actor=jax.tree.map(jnp.copy, actor),
        pid=lagrangian.init(),
        normaliser=Normaliser.of(spec, active=config.normalise_observations),
        limits=qlearning.limits(spec, config.discount, config.reward_scale),
        budget=jnp.float32(lagrangian.discounted_budget(config.budget, config.discount, spec.longest_episode)),
        config=config,
    )


def perturbed(actor: MLP, decoder: MLP, observations: Array, noise: Array, perturbation: float) -> Array:
    """An action of the CVAE, moved a little: a + Phi tanh(xi(s, a))."""
    proposed = cvae.decode(decoder, observations, cvae.typical(noise))
    return jnp.clip(proposed + perturbation * jnp.tanh(actor(observations, proposed)), -1.0, 1.0)


def actor_loss(
    actor: MLP, decoder: MLP, reward: Twins, cost: Twins, pid: lagrangian.Pid, budget: Array, observations: Array,
    noise: Array, config: Config,
) -> tuple[Array, tuple[lagrangian.Pid, Metrics]]:  # fmt: skip
    """-Q_r + multiplier (Q_c - budget) of the perturbed actions; only the perturbation learns from it."""
    actions = perturbed(actor, decoder, observations, noise, config.perturbation)
    q_r, q_c = (qlearning.mixed(q, observations, actions) for q in (reward, cost))
    return lagrangian.lagrangian_loss(q_r, q_c, pid, budget, config.gains)


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of the CVAE, of Q_r, of Q_c, of the perturbation, then of the slow copies."""
    config = state.config
    observations, following = state.normaliser(batch.observations), state.normaliser(batch.next_observations)
    ends = jnp.maximum(batch.terminated, batch.truncated)
    cvae_key, candidate_key, actor_key = jax.random.split(key, 3)

    model, cvae_metrics = cvae.fit(
        state.cvae, observations, batch.actions, cvae_key, config.kl_weight, config.learning_rate
    )
    many, latent_dim = qlearning.repeated(following, config.candidates), model.net.latent_dim
    noise = jax.random.normal(candidate_key, (*many.shape[:2], latent_dim))
    candidates = perturbed(state.target_actor, model.net.decoder, many, noise, config.perturbation)

    def learn(
        critic: qlearning.Critic, signal: Array, allowed: qlearning.Interval
    ) -> tuple[qlearning.Critic, Metrics]:
        value = qlearning.highest(critic.target_q, many, candidates, config.smaller_share)
        target = qlearning.bellman_target(signal, value, ends, config.discount, allowed)
        return qlearning.update(critic, observations, batch.actions, target, config.learning_rate, config.target_rate)

    reward, reward_metrics = learn(state.reward, config.reward_scale * batch.rewards, state.limits.reward)
    cost, cost_metrics = learn(state.cost, batch.costs, state.limits.cost)

    noise = jax.random.normal(actor_key, (observations.shape[0], latent_dim))
    (loss, (pid, lagrangian_metrics)), slope = eqx.filter_value_and_grad(actor_loss, has_aux=True)(
        state.actor.net, model.net.decoder, reward.q.net, cost.q.net, state.pid, state.budget, observations, noise,
        config,
    )  # fmt: skip
    actor = state.actor.step(slope, config.learning_rate)
    target_actor = qlearning.follow(state.target_actor, actor.net, config.target_rate)

    state = State(reward, cost, model, actor, target_actor, pid, state.normaliser, state.limits, state.budget, config)
    parts = {
        "reward": reward_metrics,
        "cost": cost_metrics,
        "cvae": cvae_metrics,
        "policy": {"loss": loss},
        "lagrangian": lagrangian_metrics,
    }
    return state, {f"{part}/{name}": value for part, metrics in parts.items() for name, value in metrics.items()}


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
        return perturbed(self.actor, self.decoder, self.normaliser(observations), noise, self.config.perturbation)


def policy(state: State) -> BcqLagPolicy:
    return BcqLagPolicy(state.cvae.net.decoder, state.actor.net, state.normaliser, state.config)


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    return qlearning.metric_bounds(spec, config.discount, config.reward_scale)
