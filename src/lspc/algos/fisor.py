"""FISOR: feasibility-guided safe offline reinforcement learning (Zheng et al., 2024).

A Hamilton-Jacobi critic learns from which states the data can still avoid every violation. Where that is possible a
diffusion model imitates the rewarding actions that keep it possible, elsewhere the ones that violate least; of
several actions drawn from it, the one with the least Q_h is done.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Batch, Metrics, Normaliser, Policy, Spec, flatten_metrics
from lspc.algos.parts import diffusion, iql, qlearning
from lspc.algos.parts.iql import Twins
from lspc.algos.parts.weights import advantage_weight, effective_share
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.nets import Learner, polyak_update
from lspc.tasks import Task

MAX_REWARD_WEIGHT, MAX_COST_WEIGHT = 100.0, 150.0


@dataclass(frozen=True)
class Config:
    steps: int = 1_000_000
    """Updates: one of every critic, `actor_steps` of the actor."""
    batch_size: int = 2048
    """Transitions per update, shared out among the actor's steps."""
    critic_batch_size: int = 256
    """How many of them the critics learn from."""
    actor_steps: int = 2
    """Steps of the actor per update."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of the critics."""
    actor_width: int = 256
    """Width of the actor's residual stream."""
    actor_blocks: int = 3
    """Residual blocks of the actor."""
    dropout: float = 0.1
    """Share of the actor's units silenced while it learns."""
    learning_rate: float = 3e-4
    """Adam's step size, for all parts."""
    discount: float = 0.99
    """Weight of the next step's value, for reward and feasibility alike."""
    target_rate: float = 0.005
    """Share of the fast Q networks mixed into their slow copies at every update."""
    actor_target_rate: float = 0.001
    """Share of the actor mixed into its slow copy at every step; the copy is the policy."""
    expectile: float = 0.9
    """tau of both critics: how close to the best (or safest) actions of the data values are."""
    violation: float = 25.0
    """h of a step with cost; a step without has -1."""
    reward_temperature: float = 3.0
    """alpha_1, sharpness of the weights in feasible states."""
    cost_temperature: float = 5.0
    """alpha_2, sharpness of the weights in infeasible states."""
    diffusion_steps: int = 5
    """T, denoising steps from noise to action."""
    candidates: int = 16
    """N, actions drawn by the policy, of which it takes the one with the least Q_h."""
    normalise_observations: bool = True
    """Give the networks observations of zero mean and unit spread."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {
        "steps": 8_000,
        "batch_size": 256,
        "actor_steps": 1,
        "actor_width": 128,
        "learning_rate": 1e-3,
        "target_rate": 0.02,
        "actor_target_rate": 0.005,
    },
}


class State(eqx.Module):
    reward: iql.Critic
    cost: iql.Critic
    """Q_h and V_h, the feasibility."""
    actor: Learner[diffusion.Denoiser]
    target_actor: diffusion.Denoiser
    normaliser: Normaliser
    reward_scale: Float[Array, ""]
    largest_reward: Float[Array, ""]
    config: Config = eqx.field(static=True)


Actors = tuple[Learner[diffusion.Denoiser], diffusion.Denoiser]
"""The actor and its slow copy."""


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    return {}


def prepare(dataset: Dataset, config: Config) -> Dataset:
    return dataset


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    if config.batch_size % config.actor_steps:
        raise UserError(f"batch_size {config.batch_size} is not a multiple of actor_steps, {config.actor_steps}")
    reward_key, cost_key, actor_key = jax.random.split(key, 3)
    o, a, scale = spec.observation_dim, spec.action_dim, _reward_scale(spec)
    actor = diffusion.Denoiser(o, a, config.actor_width, config.actor_blocks, config.dropout, key=actor_key)
    return State(
        reward=iql.init(reward_key, o, a, config.hidden),
        cost=iql.init(cost_key, o, a, config.hidden),
        actor=Learner.of(actor),
        target_actor=jax.tree.map(jnp.copy, actor),
        normaliser=Normaliser.of(spec, active=config.normalise_observations),
        reward_scale=jnp.float32(scale),
        largest_reward=jnp.float32(qlearning.largest_values(spec, config.discount, scale)[0]),
        config=config,
    )


def _reward_scale(spec: Spec) -> float:
    """Makes the spread of the data's returns one per step."""
    spread = spec.return_max - spec.return_min
    return spec.longest_episode / spread if spread > 1e-6 else 1.0


def _critic_settings(config: Config, *, is_cost: bool) -> iql.CriticConfig:
    return iql.CriticConfig(is_cost, config.expectile, config.discount, config.target_rate, config.learning_rate)


def feasibility_target(h: Array, following: Array, ends: Array, config: Config) -> Array:
    """(1 - gamma) h + gamma max(h, V_h(s')), the worst h to come; h alone at the end."""
    following = jnp.clip(following, -1.0, config.violation)
    worst = (1.0 - config.discount) * h + config.discount * jnp.maximum(h, following)
    return jnp.where(ends > 0, h, worst)


def update_feasibility(
    critic: iql.Critic, observations: Array, actions: Array, h: Array, following: Array, ends: Array, config: Config
) -> tuple[iql.Critic, Metrics]:
    """One step of V_h (a lower expectile of Q_h), then of the twin Q_h, then of their slow copies."""
    critic, report = iql.step(
        critic,
        observations,
        actions,
        lambda value: feasibility_target(h, value(following)[..., 0], ends, config),
        _critic_settings(config, is_cost=True),
    )
    return critic, {
        **report.metrics,
        "value_mean": jnp.mean(report.value),
        "value_max": jnp.max(jnp.abs(report.value)),
        "feasible_share": jnp.mean(report.value <= 0),
    }


def feasibility_weights(advantage: Array, v_h: Array, q_h: Array, config: Config) -> Array:
    """Feasible state: exp(alpha_1 A_r) of the actions that stay feasible; infeasible: exp(-alpha_2 A_h)."""
    rewarding = advantage_weight(advantage, config.reward_temperature, MAX_REWARD_WEIGHT)
    careful = advantage_weight(v_h - q_h, config.cost_temperature, MAX_COST_WEIGHT)
    return jnp.where(v_h <= 0, jnp.where(q_h <= 0, rewarding, 0.0), careful)


def weights(reward: iql.Critic, cost: iql.Critic, observations: Array, actions: Array, config: Config) -> Array:
    q_r = iql.twin(reward.target_q, observations, actions, is_cost=False)
    q_h = iql.twin(cost.target_q, observations, actions, is_cost=True)
    v_r, v_h = (critic.value.net(observations)[..., 0] for critic in (reward, cost))
    return feasibility_weights(q_r - v_r, v_h, q_h, config)


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of V_r, Q_r, V_h, Q_h on the first transitions; then the actor's steps on all of them."""
    config = state.config
    batch = state.normaliser.apply_to(batch)
    observations, following, ends = batch.observations, batch.next_observations, batch.ends
    h = jnp.where(batch.costs > 0, config.violation, -1.0)

    few = slice(config.critic_batch_size)
    settings = _critic_settings(config, is_cost=False)
    reward, report = iql.update(
        state.reward, observations[few], batch.actions[few], state.reward_scale * batch.rewards[few], following[few],
        ends[few], state.largest_reward, settings,
    )  # fmt: skip
    cost, cost_metrics = update_feasibility(
        state.cost, observations[few], batch.actions[few], h[few], following[few], ends[few], config
    )
    counted = weights(reward, cost, observations, batch.actions, config)

    def step(actors: Actors, part: tuple[Array, ...]) -> tuple[Actors, Array]:
        (actor, slow), (observations, actions, counted, key) = actors, part
        time_key, noise_key, dropout_key = jax.random.split(key, 3)
        times = jax.random.randint(time_key, counted.shape, 0, config.diffusion_steps)
        noise = jax.random.normal(noise_key, actions.shape)
        loss, gradient = eqx.filter_value_and_grad(diffusion.denoising_loss)(
            actor.net, observations, actions, counted, times, noise, dropout_key, config.diffusion_steps
        )
        actor = actor.step(gradient, config.learning_rate)
        return (actor, polyak_update(slow, actor.net, config.actor_target_rate)), loss

    parts = (
        *(x.reshape(config.actor_steps, -1, *x.shape[1:]) for x in (observations, batch.actions, counted)),
        jax.random.split(key, config.actor_steps),
    )
    (actor, target_actor), losses = jax.lax.scan(step, (state.actor, state.target_actor), parts)

    policy_metrics = {
        "loss": jnp.mean(losses),
        "weight_mean": jnp.mean(counted),
        "effective_share": effective_share(counted),
    }
    state = replace(state, reward=reward, cost=cost, actor=actor, target_actor=target_actor)
    reward_metrics = {**report.metrics, **iql.describe_values(report.value, report.q)}
    return state, flatten_metrics({"reward": reward_metrics, "cost": cost_metrics, "policy": policy_metrics})


class FisorPolicy(Policy):
    """Zero noise stands for one set of noise drawn once and for all: N candidates even without randomness."""

    variants: ClassVar[tuple[str, ...]] = ("FISOR",)

    actor: diffusion.Denoiser
    q_h: Twins
    normaliser: Normaliser
    config: Config = eqx.field(static=True)

    @property
    def _noise_shape(self) -> tuple[int, int, int]:
        return self.config.candidates, self.config.diffusion_steps, self.actor.last.bias.shape[-1]

    @property
    def noise_dim(self) -> int:
        candidates, steps, action_dim = self._noise_shape
        return candidates * steps * action_dim

    def __call__(self, observations: Array, noise: Array, variant: str) -> Array:
        frozen = jnp.broadcast_to(jax.random.normal(jax.random.key(0), (self.noise_dim,)), noise.shape)
        noise = jnp.where(jnp.any(noise != 0, axis=-1, keepdims=True), noise, frozen)
        noise = noise.reshape(*noise.shape[:-1], *self._noise_shape)
        observations = self.normaliser(observations)
        many = jnp.broadcast_to(observations[..., None, :], (*noise.shape[:-2], observations.shape[-1]))
        actions = diffusion.sample(self.actor, many, noise)
        safest = jnp.argmin(iql.twin(self.q_h, many, actions, is_cost=True), axis=-1)
        return jnp.take_along_axis(actions, safest[..., None, None], axis=-2)[..., 0, :]


def policy(state: State) -> FisorPolicy:
    return FisorPolicy(state.target_actor, state.cost.target_q, state.normaliser, state.config)


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    reward, _ = qlearning.largest_values(spec, config.discount, _reward_scale(spec))
    return {"reward/value_max": 10 * max(reward, 0.1), "cost/value_max": 10 * config.violation}
