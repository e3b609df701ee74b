"""What the critics agree about, beside what they do not."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from lspc.algos.parts import signal
from lspc.algos.parts.cvae import decode
from lspc.nets import MLP


def twin(weight: float) -> MLP:
    """Q = a_0 + weight * a_1 and something that no action changes."""
    return tiny.linear([[0.0]] * tiny.OBSERVATION + [[1.0], [weight]], [5.0 * weight])


def test_the_signal_is_what_the_twins_agree_about() -> None:
    """They agree about a_0 and differ about a_1: spread and disagreement by hand, over the decoder's actions."""
    decoder, seen = tiny.net(tiny.OBSERVATION + tiny.LATENT, tiny.ACTION), tiny.batch().observations
    unlike = tiny.net(tiny.OBSERVATION + tiny.ACTION, 1, seed=1), tiny.net(tiny.OBSERVATION + tiny.ACTION, 1, seed=2)
    known, untaught = signal.measure_signals(decoder, ((twin(0.3), twin(-0.3)), unlike), seen, tiny.LATENT)
    latents = signal.latents(tiny.LATENT)
    actions = np.stack([decode(decoder, jnp.tile(each, (signal.ACTIONS, 1)), latents) for each in seen])
    expected = actions[..., 0].std(axis=1).mean() / (0.3 * actions[..., 1].std(axis=1).mean())
    assert float(known) == pytest.approx(expected, rel=1e-3)
    assert 0.2 < float(untaught) < 5  # two nets that have learned nothing
