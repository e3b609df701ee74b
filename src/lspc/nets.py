"""The few network shapes all methods share. A network is called on a whole batch: leading axes are free."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

Activation = Callable[[Array], Array]


def match_rank(x: Array, like: Array) -> Array:
    """`x` with axes of size 1 in front until it has as many as `like`: what else JAX would do silently."""
    return jnp.expand_dims(x, tuple(range(like.ndim - x.ndim)))


class Linear(eqx.Module):
    """y = x W + b, with weights drawn uniformly within 1/sqrt(fan-in) (the released LSPC code's initialisation)."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray, scale: float = 1.0):
        weight_key, bias_key = jax.random.split(key)
        bound = scale / inputs**0.5
        self.weight = jax.random.uniform(weight_key, (inputs, outputs), minval=-bound, maxval=bound)
        self.bias = jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        y = x @ self.weight
        return y + match_rank(self.bias, y)


class MLP(eqx.Module):
    """Hidden layers with one activation and a linear end."""

    layers: tuple[Linear, ...]
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Sequence[int],
        *,
        key: PRNGKeyArray,
        activation: Activation = jax.nn.relu,
        last_scale: float = 1.0,
    ):
        sizes = [inputs, *hidden, outputs]
        keys = jax.random.split(key, len(sizes) - 1)
        scales = [1.0] * len(hidden) + [last_scale]
        self.layers = tuple(
            Linear(a, b, key=k, scale=s) for a, b, k, s in zip(sizes[:-1], sizes[1:], keys, scales, strict=True)
        )
        self.activation = activation

    def __call__(self, *inputs: Float[Array, "*batch _"]) -> Float[Array, "*batch outputs"]:
        """Several inputs are laid side by side: `critic(observation, action)`."""
        x = inputs[0] if len(inputs) == 1 else jnp.concatenate(inputs, axis=-1)
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


Net = TypeVar("Net")


def polyak_update(slow: Net, fast: Net, rate: float | Array) -> Net:
    """The slow copy takes over a share of the fast network (Polyak averaging)."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), slow, fast)


def average_recent(average: Net, net: Net, updates: Array, averaging: float) -> Net:
    """The average of a net over about the last 1/`averaging` of its updates, after its next one.

    Each update enters with the share a / (a + updates), so that the average forgets the beginning at every length of
    training (Shamir and Zhang, 2013). Errors of a net in a closed loop feed on themselves, and those of single
    updates are mostly noise, which the average does not have.
    """
    return polyak_update(average, net, averaging / (averaging - 1.0 + updates.astype(jnp.float32)))


def _fresh_adam(net: Any) -> Any:
    """Adam before its first step: zeros, made by numpy because JAX would compile a program for each shape."""
    memory = jax.eval_shape(optax.scale_by_adam().init, net)
    return jax.tree.map(lambda leaf: jax.device_put(np.zeros(leaf.shape, leaf.dtype)), memory)


@partial(jax.jit, inline=True)  # inside a larger program it is traced once for all nets of a shape
def _adam_direction(gradient: Any, memory: Any) -> tuple[Any, Any]:
    with jax.numpy_dtype_promotion("standard"):  # optax multiplies its whole step count with fractions
        return optax.scale_by_adam().update(gradient, memory)


class Learner(eqx.Module, Generic[Net]):
    """A network (or several) together with Adam's memory of it."""

    net: Net
    adam: Any

    @staticmethod
    def of(net: Net) -> "Learner[Net]":
        return Learner(net, _fresh_adam(net))

    @property
    def updates(self) -> Array:
        """How many steps it has taken."""
        return self.adam.count

    def step(self, gradient: Net, learning_rate: float | Array) -> "Learner[Net]":
        direction, adam = _adam_direction(gradient, self.adam)
        net = jax.tree.map(lambda weight, change: weight - learning_rate * change, self.net, direction)
        return Learner(net, adam)
