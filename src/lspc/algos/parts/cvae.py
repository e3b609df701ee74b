"""A conditional variational autoencoder of actions: which actions the data take in a state."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Metrics
from lspc.algos.parts.gaussian import moments
from lspc.nets import MLP, Learner

TYPICAL = 0.5
"""Latents within this bound decode to the data's more typical actions (the bound of BCQ's authors)."""


class Cvae(eqx.Module):
    encoder: MLP
    """alpha: (state, action) -> mean and log-spread of the latent."""
    decoder: MLP
    """beta: (state, latent) -> action."""

    @property
    def latent_dim(self) -> int:
        return self.encoder.layers[-1].bias.shape[-1] // 2


def init(
    keys: tuple[PRNGKeyArray, PRNGKeyArray],
    observation_dim: int,
    action_dim: int,
    latent_dim: int,
    hidden: tuple[int, ...],
) -> Cvae:
    return Cvae(
        encoder=MLP(observation_dim + action_dim, 2 * latent_dim, hidden, key=keys[0]),
        decoder=MLP(observation_dim + latent_dim, action_dim, hidden, key=keys[1]),
    )


def encode(
    encoder: MLP, observations: Float[Array, "*batch observation"], actions: Float[Array, "*batch action"]
) -> tuple[Float[Array, "*batch latent"], Float[Array, "*batch latent"]]:
    """Mean and log-spread of the latent."""
    return moments(encoder(observations, actions), -4.0, 15.0)


def decode(
    decoder: MLP, observations: Float[Array, "*batch observation"], latents: Float[Array, "*batch latent"]
) -> Float[Array, "*batch action"]:
    return jnp.tanh(decoder(observations, latents))


def clip_latents(noise: Array) -> Array:
    """Standard normal noise as latents of typical actions."""
    return jnp.clip(noise, -TYPICAL, TYPICAL)


def divergence(
    mean: Float[Array, "*batch latent"], log_std: Float[Array, "*batch latent"], form: str
) -> Float[Array, " *batch"]:
    """KL from the standard normal, averaged or summed over the latent's dimensions."""
    terms = 0.5 * (mean**2 + jnp.exp(2 * log_std) - 1.0 - 2 * log_std)
    return jnp.mean(terms, axis=-1) if form == "mean" else jnp.sum(terms, axis=-1)


def evidence_loss(
    cvae: Cvae,
    observations: Float[Array, "batch observation"],
    actions: Float[Array, "batch action"],
    weights: Float[Array, " batch"],
    noise: Float[Array, "batch latent"],
    kl_weight: float,
    kl_form: str,
    zero_share: float,
) -> tuple[Float[Array, ""], Metrics]:
    """The evidence bound, each transition counted by its weight; a share of them at latent zero.

    There the decoder learns the typical action, and what it leaves unexplained is what latents can explain: the
    divergence is weighed by that. With a fixed weight, latents that tell nothing are cheapest wherever the actions of
    a state differ by little, as those of a drone do.
    """
    mean, log_std = encode(cvae.encoder, observations, actions)
    count = int(zero_share * weights.size)  # the first ones: a batch has no order
    at_zero = jnp.arange(weights.size) < count
    latents = jnp.where(at_zero[:, None], 0.0, mean + jnp.exp(log_std) * noise)
    error = jnp.sum((decode(cvae.decoder, observations, latents) - actions) ** 2, axis=-1)
    kl = divergence(mean, log_std, kl_form)
    reports = {"reconstruction": jnp.mean(error, where=~at_zero), "kl": jnp.mean(kl)}
    if count:
        typical = jnp.where(at_zero, weights, 0.0)
        unexplained = jax.lax.stop_gradient(jnp.sum(typical * error) / jnp.maximum(jnp.sum(typical), 1e-12))
        kl = jnp.where(at_zero, 0.0, unexplained * kl)
        reports["unexplained"] = unexplained
    loss = jnp.mean(weights * (error + kl_weight * kl))
    return loss, {"loss": loss, **reports}


def update_weighted(
    cvae: Learner[Cvae],
    observations: Float[Array, "batch observation"],
    actions: Float[Array, "batch action"],
    weights: Float[Array, " batch"],
    key: PRNGKeyArray,
    kl_weight: float,
    kl_form: str,
    learning_rate: float,
    zero_share: float = 0.0,
) -> tuple[Learner[Cvae], Metrics]:
    """One step towards the data's actions, each counted by its weight."""
    noise = jax.random.normal(key, (weights.size, cvae.net.latent_dim))
    gradient, metrics = eqx.filter_grad(evidence_loss, has_aux=True)(
        cvae.net, observations, actions, weights, noise, kl_weight, kl_form, zero_share
    )
    return cvae.step(gradient, learning_rate), metrics


def update(
    cvae: Learner[Cvae],
    observations: Float[Array, "batch observation"],
    actions: Float[Array, "batch action"],
    key: PRNGKeyArray,
    kl_weight: float,
    learning_rate: float,
) -> tuple[Learner[Cvae], Metrics]:
    """One step towards the data's actions, all alike: the CVAE of BCQ, BEAR and CPQ."""
    size, action_dim = actions.shape
    # They average the error over the action's dimensions where we sum it: the same balance, and Adam ignores scale.
    return update_weighted(
        cvae, observations, actions, jnp.ones(size), key, kl_weight * action_dim, "mean", learning_rate
    )
