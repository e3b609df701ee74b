"""Off-policy evaluation on problems whose answer is known: what an episode costs and earns, told from random data."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.known_plants import HORIZON, Constant, Pulling, drifting, logged, risky, straying, truth

from lspc.algos.base import Spec
from lspc.calibration import fitted_q
from lspc.calibration.ensemble import bootstrap_weights
from lspc.calibration.families import PolicyFamily
from lspc.calibration.fitted_q import Config
from lspc.data import FIELDS, Dataset

pytestmark = pytest.mark.learning
SMALL = Config(updates=3_000, members=2, batch_size=256, hidden=(64, 64), learning_rate=3e-3)
BRIEF = Config(updates=20, members=2, batch_size=32, hidden=(8,))


def estimates(
    ensemble: fitted_q.FittedQ, family: PolicyFamily, dataset: Dataset, parameters: list[float]
) -> np.ndarray:
    """(parameters, 2): the ensemble's mean over the data's beginnings."""
    values = fitted_q.predict_returns(
        ensemble, family, jnp.asarray(dataset.initial_observations), jnp.asarray(parameters)
    )
    return np.asarray(values).mean(axis=(0, 2))


@pytest.fixture(scope="module")
def drift() -> Dataset:
    return logged(drifting)


@pytest.fixture(scope="module")
def ensemble(drift: Dataset) -> fitted_q.FittedQ:
    return fitted_q.fit(drift, Constant(), SMALL)


def test_cost_and_reward_of_an_episode_are_told_within_a_few_per_cent(
    drift: Dataset, ensemble: fitted_q.FittedQ
) -> None:
    parameters = [-0.8, -0.4, 0.0, 0.4, 0.8]
    found = estimates(ensemble, Constant(), drift, parameters)
    states = drift.initial_observations[:, 0]
    wanted = np.array([truth(drifting, Constant(), parameter, states) for parameter in parameters])
    largest = wanted.max(axis=0) - wanted.min(axis=0)
    np.testing.assert_allclose(found / largest, wanted / largest, atol=0.04)
    assert (np.diff(found[:, 1]) > 0.5).all()  # each parameter is costlier than the one before, and earns less
    assert (np.diff(found[:, 0]) < -0.5).all()
    # The data's own behaviour costs half of the horizon: predicting that for all would be far off.
    assert np.ptp(found[:, 1]) > 6


def test_what_is_left_of_an_episode_costs_what_it_costs(drift: Dataset, ensemble: fitted_q.FittedQ) -> None:
    states = jnp.linspace(-0.8, 0.8, 50)
    for steps in (HORIZON // 2, HORIZON // 3):
        for parameter in (-0.6, 0.6):
            asked = states[:, None], jnp.full((50, 1), parameter), jnp.full(50, float(steps)), jnp.asarray(parameter)
            found = np.asarray(jax.vmap(lambda q, asked=asked: q(*asked))(ensemble)).mean(axis=(0, 1))
            wanted = truth(drifting, Constant(), parameter, np.asarray(states), steps)
            np.testing.assert_allclose(found / steps, wanted / steps, atol=0.06)


def test_nothing_is_left_when_no_step_is_left(ensemble: fitted_q.FittedQ) -> None:
    one = jax.tree.map(lambda leaf: leaf[0], ensemble)
    assert not np.any(one(jnp.ones((3, 1)), jnp.ones((3, 1)), jnp.zeros(3), jnp.zeros(3)))


def test_the_familys_own_actions_are_evaluated_not_the_datas() -> None:
    """A policy that depends on the state: pushing away from zero costs several times what pulling to it does."""
    dataset, family, parameters = logged(straying), Pulling(jnp.ones(())), [-0.8, 0.0, 0.8]
    found = estimates(fitted_q.fit(dataset, family, SMALL), family, dataset, parameters)[:, 1]
    wanted = [truth(straying, family, parameter, dataset.initial_observations[:, 0])[1] for parameter in parameters]
    np.testing.assert_allclose(found, wanted, atol=0.1 + 0.1 * wanted[-1])
    assert found[0] < found[1] < found[2]


@pytest.fixture(scope="module")
def after_the_end() -> np.ndarray:
    """Estimates for a policy that goes on and for one that ends its episode after a step."""
    dataset = logged(risky, episodes=600)
    return estimates(fitted_q.fit(dataset, Constant(), SMALL), Constant(), dataset, [-0.8, 0.8])


def test_no_cost_is_counted_after_the_end(after_the_end: np.ndarray) -> None:
    np.testing.assert_allclose(after_the_end[:, 1], [HORIZON, 1], atol=0.5)


def test_no_reward_is_counted_after_the_end(after_the_end: np.ndarray) -> None:
    """Although every step of the data earns 1, and none less."""
    np.testing.assert_allclose(after_the_end[:, 0], [HORIZON, 1], atol=0.5)


def test_a_record_that_was_cut_does_not_teach_that_nothing_follows() -> None:
    """A chain whose every step costs 1: an episode costs the horizon, although half of the records stop early."""

    def chain(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.zeros_like(states), np.ones_like(states), np.ones_like(states), np.zeros(len(states), bool)

    whole, cut = logged(chain, episodes=60), HORIZON // 3
    rows = np.concatenate([np.arange(e.stop - e.start)[: cut if i % 2 else None] + e.start
                           for i, e in enumerate(whole.episodes)])  # fmt: skip
    last = np.cumsum([cut if i % 2 else HORIZON for i in range(60)]) - 1
    short = Dataset(**{name: getattr(whole, name)[rows] for name in FIELDS if name != "truncated"},
                    truncated=np.isin(np.arange(len(rows)), last))  # fmt: skip
    assert sorted(set(short.lengths.tolist())) == [cut, HORIZON]
    found = estimates(fitted_q.fit(short, Constant(), SMALL), Constant(), short, [-0.5, 0.5])
    np.testing.assert_allclose(found[:, 1], HORIZON, atol=0.5)


def test_rows_know_their_place() -> None:
    """Two episodes by hand: three steps to a time-out, two to a terminal state, in a horizon of four."""
    column = np.arange(5, dtype=np.float32)[:, None]
    flags = np.zeros(5, bool)
    ended, out_of_time = flags.copy(), flags.copy()
    ended[4], out_of_time[2] = True, True
    small = Dataset(column, -column, column[:, 0], 10 * column[:, 0], column + 1, ended, out_of_time)
    table = jax.tree.map(lambda column: column[:5], fitted_q.tabulate(small, 4, BRIEF))
    assert table.steps_left.tolist() == [4, 3, 2, 4, 3]
    assert table.ends.tolist() == [0, 0, 0, 0, 1]
    weights = bootstrap_weights(0, BRIEF.members, 2)
    np.testing.assert_array_equal(table.weights, weights.T[[0, 0, 0, 1, 1]])
    assert table.signals.tolist() == [[x, 10 * x] for x in range(5)]
    assert table.next_observations[:, 0].tolist() == [1, 2, 3, 4, 5]


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def test_an_update_changes_the_networks_and_nothing_else(drift: Dataset) -> None:
    family = Pulling(jnp.full((), 0.5))
    state = fitted_q.init(jax.random.key(0), drift, HORIZON, family, BRIEF)
    data = fitted_q.tabulate(drift, HORIZON, BRIEF), jnp.asarray(drift.transitions), family
    key, member = jax.random.key(4), jnp.asarray(0)
    after = fitted_q.update(state, data, key, member, jnp.asarray(0), BRIEF)
    for old, new in zip(leaves(state.learner.net), leaves(after.learner.net), strict=True):
        assert np.any(old != new)
    for old, fast, slow in zip(
        leaves(state.target.net), leaves(after.learner.net), leaves(after.target.net), strict=True
    ):
        np.testing.assert_allclose(slow, old + 1.05 * BRIEF.target_rate * (fast - old), rtol=1e-4, atol=1e-7)
    for name in ("normaliser", "units", "lowest", "highest"):
        for old, new in zip(leaves(getattr(state.target, name)), leaves(getattr(after.target, name)), strict=True):
            np.testing.assert_array_equal(old, new)
    assert family.weight == 0.5


def test_another_policy_has_other_targets(drift: Dataset) -> None:
    """The family is what is evaluated: with other weights in it the same update goes elsewhere."""

    def updated(weight: float) -> list[np.ndarray]:
        family = Pulling(jnp.full((), weight))
        state = fitted_q.init(jax.random.key(0), drift, HORIZON, family, BRIEF)
        key, member = jax.random.key(4), jnp.asarray(0)
        data = fitted_q.tabulate(drift, HORIZON, BRIEF), jnp.asarray(drift.transitions), family
        return leaves(fitted_q.update(state, data, key, member, jnp.asarray(0), BRIEF).learner.net)

    assert any(np.any(one != other) for one, other in zip(updated(0.5), updated(-0.5), strict=True))


def test_members_differ_and_the_seed_decides(drift: Dataset) -> None:
    told: list[int] = []
    first = fitted_q.fit(drift, Constant(), BRIEF, on_progress=told.append)
    again, other = fitted_q.fit(drift, Constant(), BRIEF), fitted_q.fit(drift, Constant(), BRIEF, seed=1)
    assert told[-1] == BRIEF.updates
    weight = leaves(first.net)[0]
    assert weight.shape[0] == BRIEF.members
    assert np.any(weight[0] != weight[1])
    for one, same in zip(leaves(first), leaves(again), strict=True):
        np.testing.assert_array_equal(one, same)
    assert np.any(weight != leaves(other.net)[0])


def test_predictions_stay_within_what_a_step_of_the_data_can_bring(drift: Dataset) -> None:
    target = fitted_q.init(jax.random.key(0), drift, HORIZON, Constant(), BRIEF).target
    asked = jnp.zeros((1, 1)), jnp.zeros((1, 1)), jnp.full(1, 5.0), jnp.zeros(1)
    for bias, reward, cost in ((1e6, drift.rewards.max(), drift.costs.max()), (-1e6, drift.rewards.min(), 0.0)):
        wild = eqx.tree_at(lambda q: q.net.layers[-1].bias, target, jnp.full(2, bias))
        np.testing.assert_allclose(wild(*asked)[0], [5 * reward, 5 * cost], rtol=1e-5)


def test_predicted_returns_are_those_of_each_member_parameter_and_state(drift: Dataset) -> None:
    ensemble = fitted_q.fit(drift, Constant(), BRIEF)
    states, parameters = jnp.asarray(drift.initial_observations[:5]), jnp.asarray([-0.5, 0.0, 0.5])
    values = fitted_q.predict_returns(ensemble, Constant(), states, parameters)
    assert values.shape == (BRIEF.members, 3, 5, 2)
    second = jax.tree.map(lambda leaf: leaf[1], ensemble)
    asked = states[3:4], jnp.full((1, 1), 0.5), jnp.full(1, float(HORIZON)), jnp.asarray([0.5])
    np.testing.assert_allclose(values[1, 2, 3], second(*asked)[0], rtol=1e-5)


def test_a_skeleton_has_the_shape_of_a_fitted_one(drift: Dataset) -> None:
    skeleton = fitted_q.make_skeleton(Spec.of(drift), BRIEF, *Constant().range, HORIZON)
    fitted = fitted_q.init(jax.random.key(0), drift, HORIZON, Constant(), BRIEF).target
    assert [leaf.shape for leaf in leaves(skeleton)] == [leaf.shape for leaf in leaves(fitted)]
    assert jax.tree.structure(skeleton) == jax.tree.structure(fitted)
