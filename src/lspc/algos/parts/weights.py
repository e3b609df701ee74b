"""Advantage weights, the w in weighted regression: who of the batch is imitated, and how sharply."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lspc.algos.base import Metrics


def advantage_weight(advantage: Float[Array, " batch"], temperature: float, largest: float) -> Float[Array, " batch"]:
    """exp(temperature * advantage), clipped: the paper's w_c and exp(zeta A_r)."""
    return jnp.exp(jnp.minimum(temperature * advantage, jnp.log(largest)))


def effective_share(weights: Float[Array, " batch"]) -> Float[Array, ""]:
    """(sum w)^2 / (n sum w^2): 1 when all count alike, 1/n when one counts alone."""
    return jnp.sum(weights) ** 2 / (weights.size * jnp.sum(weights**2) + 1e-12)


@partial(jax.jit, inline=True)  # a loop outside of a program would be compiled at every call
def sharpest_weight(advantage: Float[Array, " batch"], share: float | Array) -> tuple[Float[Array, " batch"], Array]:
    """exp(temperature * advantage) with the temperature at which the effective share of the batch is `share`.

    Scaling or shifting all advantages changes nothing, so one setting means the same on every task. Returned with
    mean 1, beside the temperature found.
    """
    below_best = advantage - jnp.max(advantage)

    def weigh(log_temperature: Array) -> Array:
        return jnp.exp(jnp.exp(log_temperature) * below_best)

    # The effective share falls as the temperature rises.
    found = find_last(lambda place: effective_share(weigh(place)) > share, jnp.asarray(-10.0), jnp.asarray(10.0))
    weights = weigh(found)
    return weights / jnp.mean(weights), jnp.exp(found)


def find_last(holds: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The last place between `low` and `high` up to which `holds`, to a millionth of the distance between them.

    A bisection in twenty steps of two, taken four at a time: sixteenths are tried side by side, because starting a
    program for each step takes far longer than the arithmetic.
    """
    for _ in range(5):
        width = (high - low) / 16
        places = low + width * jnp.arange(1.0, 16.0)
        reached = jnp.min(jnp.where(jax.vmap(holds)(places), 15.0, jnp.arange(15.0)))  # the first that fails ends it
        low, high = low + width * reached, low + width * (reached + 1.0)
    return low


def flatten_weights(weights: Float[Array, " batch"], flatness: Float[Array, " batch"]) -> Float[Array, " batch"]:
    """From the weights as they are (0) to all alike (1); of mean 1."""
    flattened = weights ** (1.0 - flatness)
    return flattened / jnp.maximum(jnp.mean(flattened), 1e-12)


def temper_weights(
    advantage: Float[Array, " batch"], temperature: float, share: float | None, largest: float
) -> tuple[Float[Array, " batch"], Metrics]:
    """Weights with the temperature that leaves `share` of the batch or, without a share, with the one given."""
    if share is not None:
        weights, found = sharpest_weight(advantage, share)
        return weights, {"temperature": found, "clipped": jnp.zeros(())}
    weights = advantage_weight(advantage, temperature, largest)
    return weights, {"temperature": jnp.asarray(temperature), "clipped": jnp.mean(weights >= largest)}


def mask_costly(
    weights: Float[Array, " batch"],
    value: Float[Array, " batch"],
    q: Float[Array, " batch"],
    threshold: float | None,
    *,
    renormalise: bool,
) -> Float[Array, " batch"]:
    """Nothing for transitions whose V_c or Q_c reaches the threshold, if there is one.

    What is left then counts as a share of the whole batch or, renormalised, as if it were all of it.
    """
    if threshold is None:
        return weights
    allowed = (value < threshold) & (q < threshold)
    kept = jnp.maximum(jnp.mean(allowed), 1.0 / weights.size) if renormalise else 1.0
    return jnp.where(allowed, weights, 0.0) / kept


@partial(jax.jit, inline=True)
def affordable_weight(
    safe: Float[Array, " batch"],
    cost_advantage: Float[Array, " batch"],
    reward_advantage: Float[Array, " batch"],
    temperature: Array,
    spend: float | Array,
) -> tuple[Float[Array, " batch"], Array]:
    """`safe` weights tilted towards reward: safe * exp(t * A_r), with the largest t that can be afforded.

    The safe weights lower the batch's mean cost advantage by some amount; t rises up to `temperature` as long as at
    most the share `spend` of that gain is given back. Without this limit, reward that comes from cost (a speed above
    the limit) cancels the safe weights out. Returned with mean 1, beside t.
    """
    below_best = reward_advantage - jnp.max(reward_advantage)
    plain = jnp.mean(cost_advantage)
    gain = plain - _weighted_mean(cost_advantage, safe)

    def weigh(log_temperature: Array) -> Array:
        return safe * jnp.exp(jnp.exp(log_temperature) * below_best)

    def is_affordable(log_temperature: Array) -> Array:
        kept = plain - _weighted_mean(cost_advantage, weigh(log_temperature))
        return kept >= (1.0 - spend) * gain

    found = find_last(is_affordable, jnp.asarray(-10.0), jnp.log(temperature))
    weights = weigh(found)
    return weights / jnp.maximum(jnp.mean(weights), 1e-12), jnp.exp(found)


def _weighted_mean(values: Array, weights: Array) -> Array:
    return jnp.sum(weights * values) / jnp.maximum(jnp.sum(weights), 1e-12)
