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
from lspc.errors import UserError

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
    return dynamics.roll_out(models, family, dataset.initial_observations, np.array(parameters), steps).mean(
        axis=(0, 2)
    )


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
        wild = eqx.tree_at(places, model, (jnp.full(1, bias), jnp.full(3, bias)))
        following, signals, goes_on = wild.step(jnp.zeros((1, 1)), jnp.zeros((1, 1)))
        edge = drift.observations.max() if bias > 0 else drift.observations.min()
        assert following.item() == pytest.approx(edge)
        assert signals[0, 1] == pytest.approx(drift.costs.max() if bias > 0 else 0.0, abs=1e-6)
        assert goes_on.item() == pytest.approx(0.0 if bias > 0 else 1.0, abs=1e-6)


def test_recorded_actions_are_replayed_from_recorded_states(models: dynamics.DynamicsModel) -> None:
    unseen = logged(drifting, episodes=20, seed=9)
    predicted, true = dynamics.replay(models, unseen, stretch=5)
    # In each episode of twelve steps: two stretches from its start, and the one that reaches its end.
    assert predicted.shape == (SMALL.members, 60, 2)
    by_hand = [
        (unseen.rewards[e.start + k : e.start + k + 5].sum(), unseen.costs[e.start + k : e.start + k + 5].sum())
        for e in unseen.episodes
        for k in (0, 5, 7)
    ]
    np.testing.assert_allclose(true, by_hand, rtol=1e-5)
    np.testing.assert_allclose(predicted.mean(0), true, atol=0.5)
    assert np.corrcoef(predicted.mean(0)[:, 1], true[:, 1])[0, 1] > 0.95


def test_stretches_longer_than_any_episode_are_refused(models: dynamics.DynamicsModel, drift: Dataset) -> None:
    with pytest.raises(UserError, match=f"no held-out episode has {HORIZON + 1} steps"):
        dynamics.replay(models, drift, HORIZON + 1)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def test_only_the_networks_learn_members_differ_and_the_seed_decides(drift: Dataset) -> None:
    told: list[int] = []
    first = dynamics.fit(drift, BRIEF, on_progress=told.append)
    again, other = dynamics.fit(drift, BRIEF), dynamics.fit(drift, BRIEF, seed=1)
    assert told[-1] == BRIEF.updates
    fresh = dynamics.init(jax.random.key(0), drift, BRIEF).model
    for name in ("normaliser", "change_mean", "change_std", "lowest", "highest", "reward_mean", "largest_cost"):
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
