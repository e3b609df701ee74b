"""A diffusion model of actions (Ho et al., 2020): noise is turned into an action in a few denoising steps."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from lspc.algos.parts.transformer import Dropout, LayerNorm
from lspc.nets import MLP, Linear, match_rank

TIME_FEATURES, TIME_WIDTH = 64, 128


def mish(x: Array) -> Array:
    return x * jnp.tanh(jax.nn.softplus(x))


class Block(eqx.Module):
    """x + a hidden layer four times as wide, behind a layer normalisation."""

    norm: LayerNorm
    mlp: MLP

    def __init__(self, width: int, *, key: PRNGKeyArray):
        self.norm, self.mlp = LayerNorm(width), MLP(width, width, (4 * width,), key=key, activation=mish)

    def __call__(self, x: Array, drop: Dropout) -> Array:
        return x + self.mlp(self.norm(drop(x)))


class Denoiser(eqx.Module):
    """epsilon_theta(s, noisy action, time): the noise that was mixed in."""

    frequencies: Float[Array, " half"]
    clock: MLP
    first: Linear
    blocks: tuple[Block, ...]
    last: Linear
    dropout: float = eqx.field(static=True)

    def __init__(
        self, observation_dim: int, action_dim: int, width: int, blocks: int, dropout: float, *, key: PRNGKeyArray
    ):
        keys = jax.random.split(key, 4 + blocks)
        self.frequencies = 0.2 * jax.random.normal(keys[0], (TIME_FEATURES // 2,))
        self.clock = MLP(TIME_FEATURES, TIME_WIDTH, (TIME_WIDTH,), key=keys[1], activation=mish)
        self.first = Linear(observation_dim + action_dim + TIME_WIDTH, width, key=keys[2])
        self.last = Linear(width, action_dim, key=keys[3])
        self.blocks = tuple(Block(width, key=k) for k in keys[4:])
        self.dropout = dropout

    def __call__(
        self,
        observations: Float[Array, "*batch observation"],
        noisy: Float[Array, "*batch action"],
        times: Float[Array, " *batch"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "*batch action"]:
        """With a key, units are dropped: for learning only."""
        angles = 2 * jnp.pi * times[..., None]
        phases = angles * match_rank(self.frequencies, angles)
        clock = self.clock(jnp.concatenate([jnp.cos(phases), jnp.sin(phases)], axis=-1))
        x, drop = self.first(jnp.concatenate([noisy, observations, clock], axis=-1)), Dropout(self.dropout, key)
        for block in self.blocks:
            x = block(x, drop)
        return self.last(mish(x))


def schedule(steps: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """alpha_t, the share kept by one step of noising, and their running product (variance-preserving, 0.1 to 10)."""
    t = np.arange(1, steps + 1)
    alphas = np.exp(-0.1 / steps - 0.5 * 9.9 * (2 * t - 1) / steps**2)
    return alphas.astype(np.float32), np.cumprod(alphas).astype(np.float32)


def add_noise(
    actions: Float[Array, "batch action"],
    noise: Float[Array, "batch action"],
    times: Int[Array, " batch"],
    steps: int,
) -> Float[Array, "batch action"]:
    kept = jnp.asarray(schedule(steps)[1])[times][..., None]
    return jnp.sqrt(kept) * actions + jnp.sqrt(1.0 - kept) * noise


def denoising_loss(
    net: Denoiser,
    observations: Float[Array, "batch observation"],
    actions: Float[Array, "batch action"],
    weights: Float[Array, " batch"],
    times: Int[Array, " batch"],
    noise: Float[Array, "batch action"],
    key: PRNGKeyArray | None,
    steps: int,
) -> Float[Array, ""]:
    """E[w |noise - epsilon_theta|^2]: weighted cloning, as a diffusion model does it."""
    guessed = net(observations, add_noise(actions, noise, times, steps), times.astype(jnp.float32), key)
    return jnp.mean(weights * jnp.sum((guessed - noise) ** 2, axis=-1))


def sample(
    net: Callable[..., Array],
    observations: Float[Array, "*batch observation"],
    noise: Float[Array, "*batch steps action"],
) -> Float[Array, "*batch action"]:
    """From pure noise to an action; one normal draw to start with and one after every step but the last."""
    steps = noise.shape[-2]
    alphas, products = schedule(steps)
    x = noise[..., 0, :]
    for t in reversed(range(steps)):
        guessed = net(observations, x, jnp.full(x.shape[:-1], t, jnp.float32))
        x = (x - (1.0 - alphas[t]) / np.sqrt(1.0 - products[t]) * guessed) / np.sqrt(alphas[t])
        if t > 0:
            x = x + np.sqrt(1.0 - alphas[t]) * noise[..., steps - t, :]
        x = jnp.clip(x, -1.0, 1.0)
    return x
