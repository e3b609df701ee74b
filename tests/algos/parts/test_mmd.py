"""The discrepancy of samples, by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from lspc.algos.parts.mmd import gaussian_mmd


def test_single_samples_by_hand() -> None:
    x, y = jnp.asarray([[[0.0, 0.0], [1.0, 2.0]]]), jnp.asarray([[[1.0, 2.0], [1.0, 2.0]]])  # two rows of one sample
    expected = [np.sqrt(2 - 2 * np.exp(-5 / (2 * 3.0))), 0.0]
    np.testing.assert_allclose(gaussian_mmd(x, y, 3.0), expected, atol=2e-3)


def test_sets_of_samples_by_hand() -> None:
    x, y = jnp.asarray([0.0, 1.0]).reshape(2, 1, 1), jnp.asarray([0.0, 1.0, 2.0]).reshape(3, 1, 1)

    def k(d: float) -> float:
        return np.exp(-(d**2) / 2)

    within_x, within_y = (2 + 2 * k(1)) / 4, (3 + 4 * k(1) + 2 * k(2)) / 9
    across = (2 + 3 * k(1) + k(2)) / 6  # 0: 0, 1, 2 away; 1: 1, 0, 1 away
    np.testing.assert_allclose(gaussian_mmd(x, y, 1.0), [np.sqrt(within_x + within_y - 2 * across + 1e-6)], rtol=1e-5)


def test_it_pulls_samples_towards_each_other_and_has_a_slope_where_they_meet() -> None:
    y = jnp.zeros((1, 1, 1))
    gradient = jax.grad(lambda x: gaussian_mmd(x, y, 50.0)[0])
    assert gradient(jnp.full((1, 1, 1), 0.5)).item() > 0
    assert gradient(jnp.full((1, 1, 1), -0.5)).item() < 0
    assert np.isfinite(gradient(y)).all()
