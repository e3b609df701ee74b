"""Maximum mean discrepancy: how far apart two sets of samples are, judged by a kernel instead of densities."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def gaussian_mmd(x: Float[Array, "n batch d"], y: Float[Array, "m batch d"], sigma: float) -> Float[Array, " batch"]:
    """Between the samples of each row, with the kernel exp(-|u - v|^2 / (2 sigma))."""

    def similarity(u: Array, v: Array) -> Array:
        squared = jnp.sum((u[:, None] - v[None]) ** 2, axis=-1)
        return jnp.mean(jnp.exp(-squared / (2 * sigma)), axis=(0, 1))

    squared = similarity(x, x) + similarity(y, y) - 2 * similarity(x, y)
    return jnp.sqrt(jnp.maximum(squared, 0.0) + 1e-6)  # the root has no gradient at zero
