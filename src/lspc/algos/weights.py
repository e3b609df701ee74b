"""Advantage weights, the w in weighted regression: who of the batch is imitated, and how sharply."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def advantage_weight(advantage: Float[Array, " batch"], temperature: float, largest: float) -> Float[Array, " batch"]:
    """exp(temperature * advantage), clipped: the paper's w_c and exp(zeta A_r)."""
    return jnp.exp(jnp.minimum(temperature * advantage, jnp.log(largest)))


def effective_share(weights: Float[Array, " batch"]) -> Float[Array, ""]:
    """(sum w)^2 / (n sum w^2): 1 when all count alike, 1/n when one counts alone."""
    return jnp.sum(weights) ** 2 / (weights.size * jnp.sum(weights**2) + 1e-12)


def sharpest_weight(advantage: Float[Array, " batch"], share: float) -> tuple[Float[Array, " batch"], Array]:
    """exp(temperature * advantage) with the temperature at which the effective share of the batch is `share`.

    Scaling or shifting all advantages changes nothing, so one setting means the same on every task. Returned with
    mean 1, beside the temperature found.
    """
    below_best = advantage - jnp.max(advantage)

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        too_flat = effective_share(jnp.exp(jnp.exp(middle) * below_best)) > share
        return jnp.where(too_flat, middle, low), jnp.where(too_flat, high, middle)

    # The effective share falls as the temperature rises, so bisection on its logarithm finds it.
    low, _ = jax.lax.fori_loop(0, 20, halve, (jnp.asarray(-10.0), jnp.asarray(10.0)))
    weights = jnp.exp(jnp.exp(low) * below_best)
    return weights / jnp.mean(weights), jnp.exp(low)
