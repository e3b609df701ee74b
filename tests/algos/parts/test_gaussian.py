"""Squashed normal actions: their density against scipy's, and which side of tanh is which."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from helpers import tiny

from lspc.algos.parts import gaussian

# One observation x -> means (x, 0.5), log-spreads (-1, 0.3).
ACTOR = tiny.linear([[1.0, 0.0, 0.0, 0.0]], [0.0, 0.5, -1.0, 0.3])


def test_moments_are_split_and_bounded() -> None:
    mean, log_std = gaussian.moments(jnp.asarray([[1.0, 2.0, -9.0, 9.0]]), -5.0, 2.0)
    assert mean.tolist() == [[1, 2]]
    assert log_std.tolist() == [[-5, 2]]


def test_actions_by_hand() -> None:
    noise = jnp.asarray([[1.0, -2.0]])
    expected = np.asarray([[0.2 + np.exp(-1), 0.5 - 2 * np.exp(0.3)]])
    np.testing.assert_allclose(gaussian.sample_before_tanh(ACTOR, jnp.asarray([[0.2]]), noise), expected, rtol=1e-5)
    np.testing.assert_allclose(gaussian.sample(ACTOR, jnp.asarray([[0.2]]), noise), np.tanh(expected), rtol=1e-5)


def test_log_likelihood_is_that_of_the_squashed_density() -> None:
    actions = np.asarray([[0.3, -0.7], [-0.1, 0.9]])
    observations = jnp.asarray([[0.2], [-0.4]])
    means = np.asarray([[0.2, 0.5], [-0.4, 0.5]])
    normal = scipy.stats.norm.logpdf(np.arctanh(actions), means, np.exp([-1, 0.3]))
    expected = (normal - np.log(1 - actions**2)).sum(axis=1)
    np.testing.assert_allclose(
        gaussian.log_likelihood(ACTOR, observations, jnp.asarray(actions)), expected, rtol=1e-4
    )


def test_the_density_integrates_to_one() -> None:
    actor = tiny.linear([[0.0, 0.0]], [0.3, -0.5])
    grid = np.linspace(-0.998, 0.998, 4001)
    density = np.exp(gaussian.log_likelihood(actor, jnp.zeros((4001, 1)), jnp.asarray(grid[:, None])))
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=2e-3)


def test_actions_on_the_edge_have_a_finite_likelihood() -> None:
    edge = gaussian.log_likelihood(ACTOR, jnp.zeros((2, 1)), jnp.asarray([[1.0, -1.0], [-1.0, 1.0]]))
    assert np.isfinite(edge).all()
