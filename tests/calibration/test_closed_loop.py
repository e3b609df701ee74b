"""Recorded episodes driven again in models: reactions learned within episodes, predictions beside the truth."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.known_plants import HORIZON, drifting, logged, risky

from lspc.calibration import closed_loop, dynamics
from lspc.data import Dataset

pytestmark = pytest.mark.learning
SMALL = dynamics.Config(updates=1_000, members=2, batch_size=256, hidden=(32, 32), learning_rate=3e-3)


def driven_by_several(episodes: int = 80) -> Dataset:
    """Who drives decides where the state is, and pulls it back to there: between episodes the two go together."""
    rng = np.random.default_rng(0)
    targets = np.repeat(rng.uniform(-3, 3, episodes), HORIZON)[:, None]
    states = (targets + rng.normal(0, 0.3, targets.shape)).astype(np.float32)
    actions = (0.5 * (targets - states) + 0.1 * targets).astype(np.float32)
    last = np.tile(np.arange(HORIZON) == HORIZON - 1, episodes)
    nothing = np.zeros(len(states), np.float32)
    return Dataset(states, actions, nothing, nothing, states, np.zeros(len(states), bool), last)


def test_reactions_are_learned_within_episodes() -> None:
    """A state that is 0.2 higher is answered with 0.1 less, though higher states go with higher actions."""
    data = driven_by_several()
    assert np.corrcoef(data.observations[:, 0], data.actions[:, 0])[0, 1] > 0
    reaction = closed_loop.learn_reaction(data)
    states = jnp.linspace(-2.0, 2.0, 9)[:, None]
    change = reaction(states + 0.2) - reaction(states)
    np.testing.assert_allclose(change, -0.1, atol=0.05)


def test_episodes_are_driven_by_members_that_have_not_seen_them() -> None:
    data = logged(drifting, episodes=60)
    unseen = np.arange(60) % 2 == np.arange(2)[:, None]
    found = closed_loop.drive_again(dynamics.fit(data, SMALL, unseen), data, unseen, HORIZON)
    assert sorted(found.episodes.tolist()) == list(range(60))
    assert found.predicted.shape == (60, closed_loop.REPEATS, 2)
    np.testing.assert_allclose(found.true[:, 0], data.returns[found.episodes])
    np.testing.assert_allclose(found.true[:, 1], data.cost_returns[found.episodes])
    assert np.abs(found.predicted.mean(1) - found.true).mean() < 0.5
    assert np.corrcoef(found.predicted.mean(1)[:, 1], found.true[:, 1])[0, 1] > 0.9
    assert (found.scale == 1).all()
    assert (found.strayed >= 0).all()
    assert found.strayed.mean() < 0.05


def test_what_ended_early_is_driven_to_its_end_and_what_was_cut_to_the_cut() -> None:
    data = logged(risky, episodes=60)
    unseen = np.arange(60) % 2 == np.arange(2)[:, None]
    models = dynamics.fit(data, SMALL, unseen)
    ended = closed_loop.drive_again(models, data, unseen, HORIZON)
    assert (ended.scale == 1).all()
    np.testing.assert_allclose(ended.predicted.mean(1)[:, 1], ended.true[:, 1], atol=2.0)
    # Within a horizon twice as long those that did not end were cut: their cost is told to there, and scaled.
    cut = closed_loop.drive_again(models, data, unseen, 2 * HORIZON)
    last = data.terminated[[data.episodes[i].stop - 1 for i in cut.episodes]]
    np.testing.assert_array_equal(cut.scale, np.where(last, 1.0, 2.0))
    assert last.any()
    assert (cut.predicted[~last].max(axis=(1, 2)) <= HORIZON).all()
