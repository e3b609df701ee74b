"""The diffusion model: its schedule and loss by hand, and that a perfect denoiser leads to the data."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from jaxtyping import Array

from lspc.algos.parts import diffusion

STEPS = 5


def net(dropout: float = 0.0) -> diffusion.Denoiser:
    return diffusion.Denoiser(tiny.OBSERVATION, tiny.ACTION, 8, 2, dropout, key=jax.random.key(0))


def test_the_schedule_by_hand() -> None:
    alphas, products = diffusion.schedule(STEPS)
    assert alphas[0] == pytest.approx(np.exp(-0.02 - 0.5 * 9.9 * 1 / 25))
    assert alphas[4] == pytest.approx(np.exp(-0.02 - 0.5 * 9.9 * 9 / 25))
    assert products[4] == pytest.approx(np.exp(-0.1 - 0.5 * 9.9), rel=1e-5)  # next to nothing of the action is left
    assert products[1] == pytest.approx(alphas[0] * alphas[1])


def test_noising_keeps_the_variance() -> None:
    products = diffusion.schedule(STEPS)[1]
    mixed = diffusion.add_noise(jnp.asarray([[1.0], [1.0]]), jnp.asarray([[0.0], [1.0]]), jnp.asarray([2, 2]), STEPS)
    kept, added = np.sqrt(products[2]), np.sqrt(1 - products[2])
    np.testing.assert_allclose(mixed[:, 0], [kept, kept + added], rtol=1e-5)
    assert kept**2 + added**2 == pytest.approx(1)


def test_the_loss_by_hand() -> None:
    """A net that always guesses (0.5, -1)."""
    guesser = eqx.tree_at(
        lambda n: (n.last.weight, n.last.bias), net(), (jnp.zeros((8, 2)), jnp.asarray([0.5, -1.0]))
    )
    batch, noise = tiny.batch(2), jnp.asarray([[0.5, 0.0], [1.5, 1.0]])
    weights, times = jnp.asarray([3.0, 2.0]), jnp.asarray([0, 4])
    loss = diffusion.denoising_loss(guesser, batch.observations, batch.actions, weights, times, noise, None, STEPS)
    assert loss == pytest.approx((3 * 1.0 + 2 * (1.0 + 4.0)) / 2)


def test_a_perfect_denoiser_leads_to_the_data_whatever_the_noise() -> None:
    """All data are one action a: the noise in x is (x - sqrt(kept) a) / sqrt(1 - kept)."""
    action, products = jnp.asarray([0.3, -0.6]), jnp.asarray(diffusion.schedule(STEPS)[1])

    def perfect(observations: Array, x: Array, times: Array) -> Array:
        kept = products[times.astype(int)][..., None]
        return (x - jnp.sqrt(kept) * jnp.broadcast_to(action, x.shape)) / jnp.sqrt(1 - kept)

    denoiser: Any = perfect
    noise = jax.random.normal(jax.random.key(0), (7, STEPS, 2))
    np.testing.assert_allclose(
        diffusion.sample(denoiser, jnp.zeros((7, 3)), noise), jnp.tile(action, (7, 1)), atol=1e-5
    )


def test_one_step_of_sampling_by_hand() -> None:
    """One denoising step: no noise is added after the last."""
    guesser: Any = lambda observations, x, times: 0.25 * jnp.ones_like(x)  # noqa: E731
    alpha = diffusion.schedule(1)[0][0]
    noise = jnp.asarray([[[0.1, -0.2]]])
    expected = (noise[:, 0] - np.sqrt(1 - alpha) * 0.25) / np.sqrt(alpha)
    np.testing.assert_allclose(
        diffusion.sample(guesser, jnp.zeros((1, 3)), noise), np.clip(expected, -1, 1), rtol=1e-4
    )


def test_every_step_but_the_last_adds_its_own_noise() -> None:
    noise = 0.05 * jax.random.normal(jax.random.key(0), (1, STEPS, 2))
    guesser: Any = lambda observations, x, times: 0.1 * x  # noqa: E731
    plain = diffusion.sample(guesser, jnp.zeros((1, 3)), noise)
    for draw in range(STEPS):
        other = diffusion.sample(guesser, jnp.zeros((1, 3)), noise.at[0, draw].add(0.01))
        assert not np.array_equal(plain, other), draw


def test_units_are_dropped_only_while_learning_and_time_is_seen() -> None:
    batch, times = tiny.batch(), jnp.zeros(16)
    noisy = batch.actions
    dropping, whole = net(0.5), net(0.0)
    quiet = dropping(batch.observations, noisy, times)
    np.testing.assert_array_equal(quiet, whole(batch.observations, noisy, times, jax.random.key(1)))
    assert not np.array_equal(quiet, dropping(batch.observations, noisy, times, jax.random.key(1)))
    assert not np.array_equal(quiet, dropping(batch.observations, noisy, times + 1))
