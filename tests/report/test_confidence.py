"""How sure the page is of a mean: ends that hold for one episode, for twenty zeros, and for rare large costs."""

import numpy as np
import pytest

from lspc.report.confidence import CONFIDENCE, bound_cost, bound_reward


def test_twenty_zeros_are_no_certainty() -> None:
    found = bound_cost([np.zeros(20)], largest=100.0)
    assert (found.mean, found.low) == (0.0, 0.0)
    # What no test can beat: a mean of m is possible if every hundredth share of it is an episode that costs all.
    assert found.high == pytest.approx(100 * (1 - (1 - CONFIDENCE) ** (1 / 20)), abs=0.01)


def test_one_episode_says_almost_nothing() -> None:
    found = bound_cost([np.array([5.0])], largest=100.0)
    assert found.mean == 5.0
    assert found.high > 90.0
    assert found.low < 0.5
    reward = bound_reward([np.array([5.0])])
    assert reward.mean == 5.0
    assert np.isnan([reward.low, reward.high]).all()


def test_an_episode_dearer_than_thought_moves_the_largest() -> None:
    assert bound_cost([np.array([150.0, 0.0])], largest=100.0).high <= 150.0
    assert bound_cost([np.zeros(3)], largest=0.0).high == 0.0


def test_seeds_that_differ_widen_it_beyond_what_episodes_say() -> None:
    alike = bound_cost([np.full(500, 20.0)] * 2, largest=100.0)
    apart = bound_cost([np.zeros(500), np.full(500, 40.0)], largest=100.0)
    assert alike.mean == apart.mean == 20.0
    assert (apart.low, apart.high) == (0.0, 40.0)  # as the bootstrap over seeds has it
    assert 10 < alike.low < alike.high < 30


@pytest.mark.parametrize("chance", [0.02, 0.1])
def test_rare_large_costs_are_covered(chance: float) -> None:
    """A bootstrap of 20 episodes would miss a cost of 100 in every fiftieth episode two times in three."""
    rng, largest = np.random.default_rng(0), 100.0
    samples = largest * (rng.random((300, 20)) < chance)
    covered = [found.low <= largest * chance <= found.high for found in (bound_cost([s], largest) for s in samples)]
    assert np.mean(covered) >= 2 * CONFIDENCE - 1
