"""Advantage weights: by hand, and the sharpest weight's promise that one setting means the same on every task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jaxtyping import Array

from lspc.algos.parts.weights import advantage_weight, affordable_weight, effective_share, find_last, sharpest_weight

sharpest = jax.jit(sharpest_weight)
quickly = settings(max_examples=20, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])


def advantages(seed: int = 0, size: int = 64) -> Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=size), jnp.float32)


def test_advantage_weight_by_hand_and_clipped() -> None:
    weights = advantage_weight(jnp.asarray([-1.0, 0.0, 0.5, 2.6, 2.7, 1e6]), 2.0, 200.0)
    expected = [np.exp(-2), 1, np.exp(1), np.exp(5.2), 200, 200]  # 2 * 2.649 = log 200
    np.testing.assert_allclose(weights, expected, rtol=1e-5)


def test_effective_share_by_hand() -> None:
    assert effective_share(jnp.asarray([2.0, 2.0, 2.0])) == pytest.approx(1.0)
    assert effective_share(jnp.asarray([0.0, 5.0, 0.0, 0.0])) == pytest.approx(0.25)
    assert effective_share(jnp.asarray([1.0, 3.0])) == pytest.approx(16 / 20)
    assert effective_share(jnp.zeros(4)) == 0.0


@given(share=st.floats(0.05, 0.95), seed=st.integers(0, 10))
@quickly
def test_sharpest_weight_hits_the_share_with_mean_one(share: float, seed: int) -> None:
    values = advantages(seed)
    weights, temperature = sharpest(values, share)
    assert effective_share(weights) == pytest.approx(share, rel=1e-3)
    assert weights.mean() == pytest.approx(1.0, rel=1e-5)
    raw = np.exp(float(temperature) * np.asarray(values, np.float64))
    np.testing.assert_allclose(weights, raw / raw.mean(), rtol=1e-3)


@given(scale=st.floats(1e-2, 1e2), shift=st.floats(-1, 1), share=st.sampled_from([0.1, 0.2, 0.5]))
@quickly
def test_sharpest_weight_does_not_see_scale_or_shift(scale: float, shift: float, share: float) -> None:
    values = advantages()
    plain, temperature = sharpest(values, share)
    moved, its_temperature = sharpest(scale * (values + shift), share)
    np.testing.assert_allclose(moved, plain, rtol=5e-3, atol=1e-3)
    assert its_temperature * scale == pytest.approx(float(temperature), rel=5e-3)


@pytest.mark.parametrize("last", [-10.0, -9.99, 0.0, 3.3, 10.0])
def test_the_last_place_is_found_to_a_millionth_of_the_way(last: float) -> None:
    found = find_last(lambda place: place <= last, jnp.asarray(-10.0), jnp.asarray(10.0))
    assert last - 20 / 16**5 - 1e-5 <= float(found) <= last


def test_a_smaller_share_is_sharper_and_favours_the_better() -> None:
    values = advantages()
    (sharp, hot), (flat, cold) = sharpest(values, 0.1), sharpest(values, 0.8)
    assert hot > cold
    order = np.argsort(values)
    assert np.all(np.diff(np.asarray(sharp)[order]) >= 0)
    assert sharp.max() > flat.max() > flat.min() > sharp.min() >= 0


def test_ties_and_equal_advantages_stay_finite() -> None:
    """Where half the batch is equally good no temperature picks a tenth: that half counts, the rest does not."""
    weights, _ = sharpest(jnp.asarray([0.0, 1.0] * 8), 0.1)
    np.testing.assert_allclose(weights, [0.0, 2.0] * 8, atol=1e-6)
    weights, _ = sharpest(jnp.full(16, 3.0), 0.1)
    np.testing.assert_allclose(weights, np.ones(16))


def test_reward_that_costs_nothing_is_taken_in_full() -> None:
    safe, temperature = jnp.asarray([1.0, 1.0, 0.0, 0.0]), jnp.asarray(2.0)
    weights, used = affordable_weight(
        safe, jnp.asarray([0.0, 0, 5, 5]), jnp.asarray([0.0, 1, 9, 9]), temperature, 0.1
    )
    assert used == pytest.approx(2.0, rel=1e-3)
    assert weights[1] / weights[0] == pytest.approx(np.exp(2), rel=1e-2)
    assert weights[2:].tolist() == [0, 0]


@pytest.mark.parametrize("spend", [0.1, 0.5])
def test_reward_that_comes_from_cost_gives_back_only_what_may_be_spent(spend: float) -> None:
    cost = advantages()
    safe, _ = sharpest(-cost, 0.3)
    weights, used = affordable_weight(safe, cost, cost, jnp.asarray(100.0), spend)  # the costly is the rewarding
    gain, kept = cost.mean() - (safe * cost).mean(), cost.mean() - (weights * cost).mean()
    assert kept == pytest.approx((1 - spend) * float(gain), rel=1e-2)
    assert 0 < used < 100


def test_nothing_safe_leaves_nothing_to_tilt() -> None:
    nothing, values = jnp.zeros(64), advantages()
    assert not jnp.any(affordable_weight(nothing, values, values, jnp.asarray(1.0), 0.5)[0])
