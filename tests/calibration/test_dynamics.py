"""Dynamics models: policies tried in them cost and earn what they really do, where the answer is known."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.known_plants import HORIZON, Constant, Pulling, drifting, logged, risky, straying, truth

from lspc.calibration import dynamics
from lspc.calibration.dynamics import Config
from lspc.calibration.families import PolicyFamily
from lspc.data import Dataset

pytestmark = pytest.mark.learning
SMALL = Config(updates=1_500, members=2, batch_size=256, hidden=(32, 32), learning_rate=3e-3)
BRIEF = Config(updates=20, members=2, batch_size=32, hidden=(8,))


@pytest.fixture(scope="module")
def drift() -> Dataset:
    return logged(drifting)


@pytest.fixture(scope="module")
def models(drift: Dataset) -> dynamics.DynamicsModel:
    return dynamics.fit(drift, SMALL)


def estimates(
    models: dynamics.DynamicsModel, family: PolicyFamily, dataset: Dataset, parameters: list[float], steps: int
) -> np.ndarray:
    rolled = dynamics.roll_out(models, family, dataset.initial_observations, np.array(parameters), steps)
    return rolled.values.mean(axis=(0, 2))


def begun_in(dataset: Dataset) -> np.ndarray:
    """The beginnings that a roll-out takes, when there are more than it needs."""
    places = np.linspace(0, len(dataset.episodes) - 1, dynamics.INITIAL_STATES).astype(int)
    return dataset.initial_observations[places, 0]


@pytest.mark.parametrize("steps", [HORIZON, HORIZON // 2, 1])
def test_policies_cost_and_earn_what_they_really_do(
    drift: Dataset, models: dynamics.DynamicsModel, steps: int
) -> None:
    """As long as they are followed and no longer."""
    parameters = [-0.8, -0.4, 0.0, 0.4, 0.8]
    found = estimates(models, Constant(), drift, parameters, steps)
    wanted = np.array([truth(drifting, Constant(), parameter, begun_in(drift), steps) for parameter in parameters])
    size = np.ptp(wanted, axis=0)
    np.testing.assert_allclose(found / size, wanted / size, atol=0.04)
    assert (np.diff(found[:, 1]) > 0).all()  # costlier from parameter to parameter
    assert (np.diff(found[:, 0]) < 0).all()


def test_policies_react_to_what_they_see() -> None:
    """Pulling the state to zero costs next to nothing, pushing it away about 1."""
    dataset, family, parameters = logged(straying), Pulling(jnp.ones(())), [-0.8, 0.0, 0.8]
    found = estimates(dynamics.fit(dataset, SMALL), family, dataset, parameters, HORIZON)[:, 1]
    wanted = [truth(straying, family, parameter, begun_in(dataset))[1] for parameter in parameters]
    np.testing.assert_allclose(found, wanted, atol=0.2)
    assert found[0] < found[1] < found[2]


def test_nothing_is_counted_after_the_end() -> None:
    """An action above 0.5 ends the episode after one step; below, all steps follow."""
    dataset = logged(risky)
    found = estimates(dynamics.fit(dataset, SMALL), Constant(), dataset, [-0.8, 0.8], HORIZON)
    np.testing.assert_allclose(found, [[HORIZON, HORIZON], [1, 1]], atol=0.3)


def test_a_timeout_is_no_end_of_an_episode(drift: Dataset, models: dynamics.DynamicsModel) -> None:
    one = jax.tree.map(lambda leaf: leaf[0], models)
    *_, goes_on = one.step(jnp.asarray(drift.observations), jnp.asarray(drift.actions))
    assert goes_on.min() > 0.99


def test_nothing_is_believed_beyond_what_the_data_hold(drift: Dataset) -> None:
    model = dynamics.init(jax.random.key(0), drift, BRIEF).model
    for bias in (1e4, -1e4):
        places = lambda m: (m.nets.motion.layers[-1].bias, m.nets.outcome.layers[-1].bias)  # noqa: E731
        wild = eqx.tree_at(places, model, (jnp.full(2, bias), jnp.full(3, bias)))
        following, signals, goes_on = wild.step(jnp.zeros((1, 1)), jnp.zeros((1, 1)))
        edge = drift.observations.max() if bias > 0 else drift.observations.min()
        assert following.item() == pytest.approx(edge)
        assert signals[0, 1] == pytest.approx(drift.costs.max() if bias > 0 else 0.0, abs=1e-6)
        assert goes_on.item() == pytest.approx(0.0 if bias > 0 else 1.0, abs=1e-6)


def shaken(states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """The state goes where the action says, but for noise that grows with it; above 1 a step costs 1."""
    following = actions + 0.5 * np.abs(actions) * rng.normal(size=states.shape)
    return following, following, (following > 1.0).astype(float), np.zeros(len(states), bool)


@pytest.fixture(scope="module")
def noisy() -> Dataset:
    rng = np.random.default_rng(0)
    return logged(lambda states, actions: shaken(states, actions, rng), episodes=200)


def test_cost_that_noise_alone_brings_is_foreseen(noisy: Dataset) -> None:
    """Where the state is on average below the limit, and above it one time in six."""
    found = estimates(dynamics.fit(noisy, SMALL), Constant(), noisy, [0.2, 2 / 3], HORIZON)
    assert found[0, 1] == pytest.approx(0.0, abs=0.2)
    assert found[1, 1] == pytest.approx(HORIZON * 0.1587, abs=0.8)
    assert found[1, 0] == pytest.approx(HORIZON * 2 / 3, rel=0.1)


def test_noise_is_that_of_episodes_that_were_not_learned_from(noisy: Dataset) -> None:
    """A member that has seen only half of the data draws the errors of the other half."""
    unseen = np.arange(200) % 2 == np.arange(2)[:, None]
    models = dynamics.fit(noisy, BRIEF, unseen)
    for number in range(2):
        model = jax.tree.map(lambda leaf, i=number: leaf[i], models)
        own = noisy.select(np.flatnonzero(unseen[number]))
        change, log_std = dynamics.split_motion(
            model.nets.motion(model.normaliser(jnp.asarray(own.observations)), jnp.asarray(own.actions))
        )
        moved = (own.next_observations - own.observations - np.asarray(model.change_mean)) / np.asarray(
            model.change_std
        )
        errors = (moved - np.asarray(change)) / np.exp(np.asarray(log_std))
        gap = np.abs(np.asarray(model.residuals)[:, None, 0] - errors[None, :, 0]).min(axis=1)
        assert gap.max() < 1e-4


def test_policies_that_leave_the_range_of_the_data_are_seen_to(
    drift: Dataset, models: dynamics.DynamicsModel
) -> None:
    """Actions of 3 were never tried, and lead to where no episode has been."""
    rolled = dynamics.roll_out(models, Constant(), drift.initial_observations, np.array([0.0, 3.0]), HORIZON)
    assert rolled.strayed[0] < 0.01
    assert rolled.strayed[1] > 0.5


def test_how_far_a_step_strays_by_hand(drift: Dataset) -> None:
    model = dynamics.init(jax.random.key(0), drift, BRIEF).model
    low, high, std = drift.observations.min(), drift.observations.max(), drift.statistics.observation_std[0]
    strayed = model.stray(jnp.asarray([[0.0], [high], [high + 2 * std], [low - 3 * std]]))
    np.testing.assert_allclose(strayed, [0, 0, 2, 3], atol=1e-4)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def test_only_the_networks_learn_members_differ_and_the_seed_decides(drift: Dataset) -> None:
    told: list[int] = []
    first = dynamics.fit(drift, BRIEF, on_progress=told.append)
    again, other = dynamics.fit(drift, BRIEF), dynamics.fit(drift, BRIEF, seed=1)
    assert told[-1] == BRIEF.updates
    fresh = dynamics.init(jax.random.key(0), drift, BRIEF).model
    fixed = (
        "normaliser",
        "change_mean",
        "change_std",
        "lowest",
        "highest",
        "reward_mean",
        "largest_cost",
    )
    for name in fixed:
        for given, learned in zip(leaves(getattr(fresh, name)), leaves(getattr(first, name)), strict=True):
            np.testing.assert_array_equal(np.broadcast_to(given, learned.shape), learned)
    for one, same, another in zip(leaves(first.nets), leaves(again.nets), leaves(other.nets), strict=True):
        np.testing.assert_array_equal(one, same)
        assert np.any(one != another)
        assert np.any(one[0] != one[1])


def test_constant_signals_are_no_trouble() -> None:
    """No cost anywhere, the same reward at every step."""

    def dull(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        return states, np.full_like(states, 2.0), np.zeros_like(states), np.zeros(len(states), bool)

    dataset = logged(dull, episodes=30)
    found = estimates(dynamics.fit(dataset, SMALL), Constant(), dataset, [0.0], HORIZON)
    np.testing.assert_allclose(found, [[2.0 * HORIZON, 0.0]], atol=0.3)
