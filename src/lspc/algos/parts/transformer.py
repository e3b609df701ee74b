"""A small causal transformer: each place of a sequence sees itself and what came before it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.nets import MLP, Linear, match_rank


class LayerNorm(eqx.Module):
    scale: Float[Array, " width"]
    shift: Float[Array, " width"]

    def __init__(self, width: int):
        self.scale, self.shift = jnp.ones(width), jnp.zeros(width)

    def __call__(self, x: Array) -> Array:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        spread = jnp.sqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
        return match_rank(self.scale, x) * centred / spread + match_rank(self.shift, x)


def attention(queries: Array, keys: Array, values: Array, seen: Array) -> Array:
    """softmax(Q K' / sqrt(d)) V over the places that `seen` (..., query, key) allows."""
    scores = jnp.einsum("...qd,...kd->...qk", queries, keys) / jnp.sqrt(queries.shape[-1])
    return jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1) @ values


class Block(eqx.Module):
    before_attention: LayerNorm
    project_in: Linear
    project_out: Linear
    before_mlp: LayerNorm
    mlp: MLP
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        self.before_attention, self.before_mlp = LayerNorm(width), LayerNorm(width)
        self.project_in = Linear(width, 3 * width, key=keys[0])
        self.project_out = Linear(width, width, key=keys[1])
        self.mlp = MLP(width, width, (4 * width,), key=keys[2], activation=jax.nn.gelu)
        self.heads = heads

    def __call__(self, x: Float[Array, "batch place width"], seen: Array, drop: "Dropout") -> Array:
        batch, places, width = x.shape
        split = self.project_in(self.before_attention(x)).reshape(batch, places, 3, self.heads, width // self.heads)
        queries, keys, values = jnp.moveaxis(split, (2, 3), (0, 2))
        mixed = attention(queries, keys, values, seen[:, None])
        x = x + drop(self.project_out(jnp.moveaxis(mixed, 1, 2).reshape(x.shape)))
        return x + drop(self.mlp(self.before_mlp(x)))


class Dropout:
    """Sets a share of its inputs to zero, other ones at every call; nothing without a key."""

    def __init__(self, share: float, key: PRNGKeyArray | None):
        self.share, self.key = share, key

    def __call__(self, x: Array) -> Array:
        if self.key is None or self.share == 0:
            return x
        self.key, now = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(now, 1 - self.share, x.shape), x / (1 - self.share), 0.0)


class Transformer(eqx.Module):
    blocks: tuple[Block, ...]
    last: LayerNorm

    def __init__(self, width: int, layers: int, heads: int, *, key: PRNGKeyArray):
        self.blocks = tuple(Block(width, heads, key=k) for k in jax.random.split(key, layers))
        self.last = LayerNorm(width)

    def __call__(
        self, x: Float[Array, "batch place width"], real: Float[Array, "batch place"], drop: Dropout
    ) -> Array:
        """`real` is 0 at places that only fill up the sequence; nobody looks at them."""
        causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        real_keys = real[:, None, :] > 0
        seen = match_rank(causal, real_keys) & real_keys
        for block in self.blocks:
            x = block(x, seen, drop)
        return self.last(x)
