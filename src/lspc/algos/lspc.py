"""LSPC: latent safety-prioritised constraints (Koirala et al., ICLR 2025).

IQL critics judge the data's actions for reward and for cost. A CVAE is fitted to the data with weights that favour
careful actions, so that latents near zero decode to safe ones: sampling there is LSPC-S. A second encoder, the
latent safety encoder, searches the box (-restriction, restriction) for reward through the frozen decoder: LSPC-O.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos import iql
from lspc.algos.base import Batch, Metrics, Normaliser, Policy, Spec
from lspc.nets import MLP


@dataclass(frozen=True)
class Config:
    steps: int = 1_000_000
    batch_size: int = 1024
    hidden: tuple[int, ...] = (256, 256)
    latent_dim: int = 32
    discount: float = 0.99
    target_rate: float = 0.005
    learning_rate: float = 3e-4
    expectile: float = 0.7
    cost_expectile: float = 0.7
    cost_temperature: float = 2.0
    reward_temperature: float = 2.0
    max_weight: float = 200.0
    kl_weight: float = 0.5
    kl_form: Literal["mean", "sum"] = "mean"
    safe_restriction: float = 0.25
    restriction: float = 0.6
    latent_form: Literal["clamp", "tanh", "truncated"] = "clamp"
    timeouts_end_episode: bool = False
    clamp_value_in_loss: bool = False
    cost_mask: float | None = None
    renormalise_mask: bool = False
    normalise_observations: bool = False
    scale_rewards: bool = False
    # experiments
    joint: float = 0.0
    cost_ess: float = 0.0
    reward_ess: float = 0.0
    cap: float = 1e9
    tolerance: float = 0.0


class Cvae(eqx.Module):
    encoder: MLP
    decoder: MLP


class State(eqx.Module):
    reward: iql.Critic
    cost: iql.Critic
    cvae: Cvae
    encoder: MLP
    cvae_optimiser: optax.OptState
    encoder_optimiser: optax.OptState
    normaliser: Normaliser
    config: Config = eqx.field(static=True)
    reward_scale: float = eqx.field(static=True)


def _optimiser(config: Config) -> optax.GradientTransformation:
    return optax.adam(config.learning_rate)


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    keys = jax.random.split(key, 5)
    o, a, z, optimiser = spec.observation_dim, spec.action_dim, config.latent_dim, _optimiser(config)
    cvae = Cvae(
        encoder=MLP(o + a, 2 * z, config.hidden, key=keys[0]), decoder=MLP(o + z, a, config.hidden, key=keys[1])
    )
    encoder = MLP(o, 2 * z, config.hidden, key=keys[2])
    spread = max(spec.return_max - spec.return_min, 1e-6)
    return State(
        reward=iql.init(keys[3], o, a, config.hidden, optimiser),
        cost=iql.init(keys[4], o, a, config.hidden, optimiser),
        cvae=cvae,
        encoder=encoder,
        cvae_optimiser=optimiser.init(cvae),
        encoder_optimiser=optimiser.init(encoder),
        normaliser=Normaliser.of(spec, active=config.normalise_observations),
        config=config,
        reward_scale=100.0 / spread if config.scale_rewards else 1.0,
    )


def decode(decoder: MLP, observations: Array, latents: Array) -> Array:
    return jnp.tanh(decoder(observations, latents))


def split_gaussian(parameters: Array, low: float, high: float) -> tuple[Array, Array]:
    mean, log_std = jnp.split(parameters, 2, axis=-1)
    return mean, jnp.clip(log_std, low, high)


def restrict(noise: Array, restriction: float, form: str) -> Array:
    if form == "clamp":
        return jnp.clip(noise, -restriction, restriction)
    if form == "tanh":
        return restriction * jnp.tanh(noise)
    uniform = jax.scipy.special.ndtr(noise)
    edge = jax.scipy.special.ndtr(jnp.asarray(restriction))
    return jax.scipy.special.ndtri((1 - edge) + uniform * (2 * edge - 1))


def search_latents(encoder: MLP, observations: Array, noise: Array, restriction: float) -> Array:
    mean, log_std = split_gaussian(encoder(observations), -10.0, 2.0)
    return restriction * jnp.tanh(mean + jnp.exp(log_std) * noise)


def gaussian_kl(mean: Array, log_std: Array, form: str) -> Array:
    terms = 0.5 * (mean**2 + jnp.exp(2 * log_std) - 1.0 - 2 * log_std)
    return jnp.mean(terms, axis=-1) if form == "mean" else jnp.sum(terms, axis=-1)


def advantage_weight(advantage: Array, temperature: float, max_weight: float) -> Array:
    return jnp.minimum(jnp.exp(jnp.minimum(temperature * advantage, 80.0)), max_weight)


def ess(w):
    return jnp.sum(w) ** 2 / (jnp.sum(w**2) + 1e-12) / w.shape[0]


def ess_weight(advantage, target):
    """Weights exp(t A)/max with t bisected so that the effective sample size is `target`."""
    a = advantage - jnp.max(advantage)

    def body(_, lohi):
        lo, hi = lohi
        mid = 0.5 * (lo + hi)
        e = ess(jnp.exp(jnp.exp(mid) * a))
        return jnp.where(e > target, mid, lo), jnp.where(e > target, hi, mid)

    lo, hi = jax.lax.fori_loop(0, 20, body, (jnp.asarray(-8.0), jnp.asarray(8.0)))
    w = jnp.exp(jnp.exp(lo) * a)
    return w / jnp.mean(w), jnp.exp(lo)


def cvae_loss(cvae: Cvae, observations: Array, actions: Array, weights: Array, noise: Array, config: Config):
    mean, log_std = split_gaussian(cvae.encoder(observations, actions), -4.0, 15.0)
    latents = mean + jnp.exp(log_std) * noise
    reconstruction = jnp.sum((decode(cvae.decoder, observations, latents) - actions) ** 2, axis=-1)
    divergence = gaussian_kl(mean, log_std, config.kl_form)
    return jnp.mean(weights * (reconstruction + config.kl_weight * divergence)), (reconstruction.mean(), divergence.mean())


def encoder_loss(encoder: MLP, decoder: MLP, observations: Array, actions: Array, weights: Array, noise: Array, config: Config):
    latents = search_latents(encoder, observations, noise, config.restriction)
    decoded = decode(jax.lax.stop_gradient(decoder), observations, latents)
    error = jnp.sum((decoded - actions) ** 2, axis=-1)
    return jnp.mean(weights * error), (error.mean(), jnp.mean(jnp.abs(latents) > 0.95 * config.restriction), decoded)


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    config, optimiser = state.config, _optimiser(state.config)
    observations, next_observations = state.normaliser(batch.observations), state.normaliser(batch.next_observations)
    ends = jnp.maximum(batch.terminated, batch.truncated) if config.timeouts_end_episode else batch.terminated

    reward_config = iql.CriticConfig(False, config.expectile, config.discount, config.target_rate)
    cost_config = iql.CriticConfig(True, config.cost_expectile, config.discount, config.target_rate, config.clamp_value_in_loss)
    reward, r = iql.update(state.reward, observations, batch.actions, batch.rewards * state.reward_scale, next_observations, ends, reward_config, optimiser)
    cost, c = iql.update(state.cost, observations, batch.actions, batch.costs, next_observations, ends, cost_config, optimiser)

    ca = jnp.minimum(-c.advantage, config.cap)
    if config.tolerance > 0:
        ca = -jnp.maximum(c.q - jnp.maximum(c.value, config.tolerance), 0.0)
    if config.cost_ess > 0:
        cost_weights, ct = ess_weight(ca, config.cost_ess)
    else:
        cost_weights, ct = advantage_weight(ca, config.cost_temperature, config.max_weight), config.cost_temperature
    if config.cost_mask is not None:
        cost_weights = jnp.where((c.value < config.cost_mask) & (c.q < config.cost_mask), cost_weights, 0.0)
    if config.reward_ess > 0:
        mixed = r.advantage
        if config.joint > 0:
            mixed = r.advantage / (r.advantage.std() + 1e-6)  # placeholder
        reward_weights, rt = ess_weight(r.advantage, config.reward_ess)
    else:
        reward_weights, rt = advantage_weight(r.advantage, config.reward_temperature, config.max_weight), config.reward_temperature
    if config.joint > 0:
        reward_weights = reward_weights * cost_weights ** config.joint

    cvae_key, encoder_key = jax.random.split(key)
    shape = (*observations.shape[:-1], config.latent_dim)
    (cl, (rec, kl)), gradient = eqx.filter_value_and_grad(cvae_loss, has_aux=True)(
        state.cvae, observations, batch.actions, cost_weights, jax.random.normal(cvae_key, shape), config)
    step, cvae_optimiser = optimiser.update(gradient, state.cvae_optimiser)
    cvae = eqx.apply_updates(state.cvae, step)

    (el, (err, edge, decoded)), gradient = eqx.filter_value_and_grad(encoder_loss, has_aux=True)(
        state.encoder, cvae.decoder, observations, batch.actions, reward_weights, jax.random.normal(encoder_key, shape), config)
    step, encoder_optimiser = optimiser.update(gradient, state.encoder_optimiser)
    encoder = eqx.apply_updates(state.encoder, step)

    metrics = {**{f"reward/{k}": v for k, v in r.metrics.items()}, **{f"cost/{k}": v for k, v in c.metrics.items()},
               "cost/ess": ess(cost_weights), "reward/ess": ess(reward_weights), "cost/clipped": jnp.mean(cost_weights >= config.max_weight),
               "reward/clipped": jnp.mean(reward_weights >= config.max_weight), "cost/temperature": jnp.asarray(ct), "reward/temperature": jnp.asarray(rt),
               "cvae/loss": cl, "cvae/reconstruction": rec, "cvae/kl": kl, "encoder/loss": el, "encoder/error": err, "encoder/edge": edge}
    return State(reward, cost, cvae, encoder, cvae_optimiser, encoder_optimiser, state.normaliser, config, state.reward_scale), metrics
