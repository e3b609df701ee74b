"""What the ensembles share: bootstrap weights, the numbers of the episodes, and a loop that chunks do not change."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.known_plants import logged, risky
from jaxtyping import Array

from lspc.calibration import ensemble


def test_bootstrap_weights_belong_to_member_and_episode_alone() -> None:
    one, other = jax.random.key(1), jax.random.key(2)
    episodes = jnp.asarray([3, 5, 3, 0, 7])
    weights = ensemble.bootstrap_weights(one, episodes)
    assert weights[0] == weights[2]
    assert len(set(weights.tolist())) == 4
    np.testing.assert_array_equal(ensemble.bootstrap_weights(one, episodes[::-1]), weights[::-1])
    np.testing.assert_array_equal(ensemble.bootstrap_weights(one, episodes[3:]), weights[3:])
    assert not np.any(weights == ensemble.bootstrap_weights(other, episodes))
    many = ensemble.bootstrap_weights(one, jnp.arange(4_000))
    assert np.all(many > 0)
    assert many.mean() == pytest.approx(1.0, abs=0.1)
    assert many.std() == pytest.approx(1.0, abs=0.15)


def test_every_transition_knows_the_number_of_its_episode() -> None:
    data = logged(risky, episodes=5)
    numbers = ensemble.number_episodes(data)
    assert len(numbers) == data.transitions
    for number, episode in enumerate(data.episodes):
        assert (numbers[episode.start : episode.stop] == number).all()


def note(state: Array, data: Array, key: Any, bootstrap_key: Any, count: Array, config: ensemble.Config) -> Array:
    """An update that writes down what it was given: the data, a draw of the step, a draw of the member."""
    drawn = jnp.stack([data, jax.random.uniform(key), jax.random.uniform(bootstrap_key)])
    return state.at[count].set(drawn)


def noted(updates: int, members: int = 3, seed: int = 0, told: list[int] | None = None) -> np.ndarray:
    config = ensemble.Config(updates=updates, members=members)
    on_progress = None if told is None else told.append
    return np.asarray(
        ensemble.fit(
            lambda key: jnp.full((updates, 3), -1.0), note, jnp.asarray(7.0), config, seed=seed,
            on_progress=on_progress,
        )
    )  # fmt: skip


def test_members_take_every_step_once_with_a_key_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    found = noted(10, told=told)
    assert told == [10]
    assert found.shape == (3, 10, 3)
    assert (found[..., 0] == 7.0).all()
    assert len(np.unique(found[..., 1])) == 30  # no two members or steps draw alike
    assert (found[..., 2] == found[:, :1, 2]).all()  # a member's bootstrap weights are the same at every step
    assert len(np.unique(found[:, 0, 2])) == 3
    monkeypatch.setattr(ensemble, "CHUNK", 4)
    told.clear()
    np.testing.assert_array_equal(noted(10, told=told), found)
    assert told == [4, 8, 10]
    assert (noted(10, seed=1)[..., 1] != found[..., 1]).all()


def test_members_begin_differently() -> None:
    begun = ensemble.fit(
        jax.random.uniform, lambda state, *_: state, None, ensemble.Config(updates=1, members=4), seed=0
    )
    assert len(np.unique(begun)) == 4
