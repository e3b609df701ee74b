"""How much arithmetic an update of LSPC is."""

from itertools import pairwise
from typing import Any

from lspc.algos.base import Spec


def mlp_flop(inputs: int, outputs: int, hidden: tuple[int, ...]) -> int:
    sizes = [inputs, *hidden, outputs]
    return sum(2 * a * b for a, b in pairwise(sizes))


def update_gflop(spec: Spec, config: Any) -> float:
    """Operations in the matrix products of one update; a gradient costs two more forward passes."""
    o, a, z, hidden = spec.observation_dim, spec.action_dim, config.latent_dim, config.hidden
    q, v = mlp_flop(o + a, 1, hidden), mlp_flop(o, 1, hidden)
    critic = 2 * q + 3 * v + v + 3 * 2 * q  # slow twins; V with gradient; V of the next state; twins with gradient
    cvae = 3 * (mlp_flop(o + a, 2 * z, hidden) + mlp_flop(o + z, a, hidden))
    encoder = 3 * mlp_flop(o, 2 * z, hidden) + 2 * mlp_flop(o + z, a, hidden)  # no weight gradient of the decoder
    return config.batch_size * (2 * critic + cvae + encoder) / 1e9
