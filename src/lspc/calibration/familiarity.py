"""Which states are like the data's: near enough to one of its states, by a distance that held-out states set."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lspc.data import Dataset, mapped

LANDMARKS = 2_000
"""States of the data that stand for all of them."""


def choose_landmarks(learned: Dataset, held_out: Dataset, seed: int) -> tuple[np.ndarray, float]:
    """Some states of the data, and the distance to the nearest that one in a thousand unseen states exceeds."""
    rng = np.random.default_rng(seed)
    landmarks = mapped.gather(learned.observations, rng.integers(learned.transitions, size=LANDMARKS))
    asked = mapped.gather(held_out.observations, rng.integers(held_out.transitions, size=4 * LANDMARKS))
    std = learned.statistics.observation_std
    distances = np.concatenate([nearest_distance(part / std, landmarks / std) for part in np.array_split(asked, 16)])
    return landmarks, float(np.quantile(distances, 0.999))


def nearest_distance(asked: Array | np.ndarray, landmarks: Array | np.ndarray) -> Array:
    lengths = (landmarks**2).sum(-1)[(None,) * (asked.ndim - 1)]
    squares = (asked**2).sum(-1)[..., None] - 2 * asked @ landmarks.T + lengths
    return jnp.sqrt(jnp.maximum(squares.min(-1), 0.0))
