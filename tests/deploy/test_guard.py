"""The guard, step by step, with predictions that are known: so much cost at every step to come."""

from dataclasses import fields, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.calibrated import HORIZON, constant_fitted_q, guard_models, made, untrained
from jaxtyping import Array

from lspc.acting import Seen
from lspc.algos.base import Spec
from lspc.calibration import fitted_q
from lspc.calibration.storage import GuardModels
from lspc.data import Dataset
from lspc.deploy import guard
from lspc.deploy.guard import NOT_FINITE, TOO_COSTLY, TRUSTED, Guard
from lspc.errors import UserError
from lspc.policy import TrainedPolicy

RATE = 0.25


@pytest.fixture(scope="module")
def uncentred(dataset: Dataset) -> Dataset:
    """Observations far from zero, whose features are of different sizes: raw ones must be normalised somewhere."""
    scales = np.array([0.1, 1, 5, 20, 1, 1, 1], np.float32)
    return replace(
        dataset,
        observations=dataset.observations * scales + 3 * scales,
        next_observations=dataset.next_observations * scales + 3 * scales,
    )


@pytest.fixture(scope="module")
def seen(uncentred: Dataset) -> np.ndarray:
    return uncentred.observations[0]


@pytest.fixture
def watched(uncentred: Dataset) -> Guard:
    return Guard(untrained(uncentred), guard_models(Spec.of(uncentred), (RATE, RATE)), made())


@pytest.fixture(scope="module")
def actions(uncentred: Dataset, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """LSPC-O's and LSPC-S's."""
    card = {"spec": {"observation_dim": 7}}
    bold, careful = (TrainedPolicy(untrained(uncentred), v, card).act(seen) for v in ("LSPC-O", "LSPC-S"))
    assert np.abs(bold - careful).max() > 0.01
    return bold, careful


def test_lspc_o_acts_while_its_cost_fits(watched: Guard, seen: np.ndarray, actions: tuple) -> None:
    bold, careful = actions
    for steps_left in (HORIZON, 10, 1):
        need = RATE * steps_left
        for budget, wanted in ((need + 0.01, bold), (need, bold), (need - 0.01, careful)):
            action = watched.act(seen, budget_left=budget, steps_left=steps_left)
            np.testing.assert_allclose(action, wanted, atol=1e-6)
            assert action.shape == (2,)
    assert watched.interventions == {"steps": 9, "too_costly": 3, "unfamiliar": 0, "not_finite": 0}


@pytest.mark.parametrize("budget", [0.0, -3.0])
def test_a_spent_budget_leaves_lspc_s_alone(watched: Guard, seen: np.ndarray, actions: tuple, budget: float) -> None:
    np.testing.assert_allclose(watched.act(seen, budget_left=budget, steps_left=1), actions[1], atol=1e-6)
    assert watched.interventions == {"steps": 1, "too_costly": 1, "unfamiliar": 0, "not_finite": 0}


def test_nothing_left_is_enough_for_what_costs_nothing(uncentred: Dataset, seen: np.ndarray, actions: tuple) -> None:
    free = Guard(untrained(uncentred), guard_models(Spec.of(uncentred), (0.0, 0.0)), made())
    np.testing.assert_allclose(free.act(seen, budget_left=0.0, steps_left=HORIZON), actions[0], atol=1e-6)


def test_the_ensembles_mean_counts(uncentred: Dataset) -> None:
    asked = jnp.asarray(uncentred.observations[:1]), jnp.zeros((1, 2)), jnp.full(1, 8.0)
    found = guard.predict_cost(untrained(uncentred), guard_models(Spec.of(uncentred), (0.1, 0.3)), *asked)
    assert found.tolist() == pytest.approx([8 * 0.2])


class Echo(fitted_q.FittedQ):
    """Expects its parameter as the cost of every step."""

    def __call__(self, observations: Array, actions: Array, steps_left: Array, parameters: Array) -> Array:
        cost = parameters * steps_left
        return jnp.stack([jnp.zeros_like(cost), cost], axis=-1)


def test_the_prediction_is_for_the_eps_that_acts(uncentred: Dataset) -> None:
    found = guard_models(Spec.of(uncentred))
    echo = Echo(**{field.name: getattr(found.fitted_q, field.name) for field in fields(found.fitted_q)})
    found, policy = GuardModels(echo, found.landmarks), untrained(uncentred)
    asked = jnp.asarray(uncentred.observations[:1]), jnp.zeros((1, 2)), jnp.full(1, 10.0)
    costs = [guard.predict_cost(policy.at(eps), found, *asked).item() for eps in (0.02, 1.0, 2.0)]
    assert costs == pytest.approx([0.2, 10.0, 20.0])


def test_an_unfamiliar_state_is_lspc_s_whatever_the_budget(uncentred: Dataset, seen: np.ndarray) -> None:
    spec, policy = Spec.of(uncentred), untrained(uncentred)
    mean, std = np.array(spec.observation_mean, np.float32), np.array(spec.observation_std, np.float32)
    watched = Guard(policy, guard_models(spec, (RATE, RATE)), made(familiar_within=3.0))
    card = {"spec": {"observation_dim": 7}}
    for feature in (0, 3):  # the distance is in spreads, whatever the feature's own size
        for spreads, variant in ((2.9, "LSPC-O"), (3.1, "LSPC-S"), (-1e6, "LSPC-S")):
            observation = mean.copy()
            observation[feature] += spreads * std[feature]
            wanted = TrainedPolicy(policy, variant, card).act(observation)
            action = watched.act(observation, budget_left=1e6, steps_left=HORIZON)
            np.testing.assert_allclose(action, wanted, atol=1e-6)
    assert watched.interventions == {"steps": 6, "too_costly": 0, "unfamiliar": 4, "not_finite": 0}


def test_a_state_that_is_both_strange_and_costly_counts_once(uncentred: Dataset, seen: np.ndarray) -> None:
    watched = Guard(untrained(uncentred), guard_models(Spec.of(uncentred)), made(familiar_within=3.0))
    watched.act(seen + 1e4, budget_left=0.0, steps_left=1)
    assert watched.interventions == {"steps": 1, "too_costly": 0, "unfamiliar": 1, "not_finite": 0}


def test_the_nearest_of_several_landmarks_counts(uncentred: Dataset) -> None:
    spec = Spec.of(uncentred)
    found = guard_models(spec)
    far = found.landmarks.at[7].add(10 * jnp.asarray(spec.observation_std))
    found = eqx.tree_at(lambda m: m.landmarks, found, far)
    asked = jnp.asarray([spec.observation_mean, spec.observation_mean])
    asked = asked.at[1].add(9 * jnp.asarray(spec.observation_std))
    np.testing.assert_allclose(guard.distance_to_data(found, asked), [0.0, np.sqrt(7.0)], atol=0.02)


def test_a_batch_shares_what_is_left_and_each_row_is_counted(
    watched: Guard, uncentred: Dataset, actions: tuple
) -> None:
    rows = uncentred.observations[:6].reshape(2, 3, 7)
    chosen = watched.act(rows, budget_left=1e6, steps_left=HORIZON)
    assert chosen.shape == (2, 3, 2)
    np.testing.assert_allclose(chosen[0, 0], actions[0], atol=1e-6)
    watched.act(rows, budget_left=0.0, steps_left=HORIZON)
    assert watched.interventions == {"steps": 12, "too_costly": 6, "unfamiliar": 0, "not_finite": 0}


@pytest.mark.parametrize("steps", [0, -1, HORIZON + 1, np.nan])
def test_steps_left_must_be_possible(watched: Guard, seen: np.ndarray, steps: float) -> None:
    with pytest.raises(UserError, match=f"steps_left is {steps}; it must be from 1 to {HORIZON}"):
        watched.act(seen, budget_left=5.0, steps_left=steps)  # pyrefly: ignore [bad-argument-type]


@pytest.mark.parametrize("budget", [np.nan, np.inf, -np.inf])
def test_a_budget_that_is_no_number_is_refused(watched: Guard, seen: np.ndarray, budget: float) -> None:
    with pytest.raises(UserError, match="refusing to act without a budget"):
        watched.act(seen, budget_left=budget, steps_left=5)
    assert watched.interventions["steps"] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_observation_that_is_no_number_is_refused(watched: Guard, seen: np.ndarray, bad: float) -> None:
    broken = seen.copy()
    broken[2] = bad
    with pytest.raises(UserError, match="NaN or infinity"):
        watched.act(broken, budget_left=5.0, steps_left=5)
    assert watched.interventions["steps"] == 0


def test_a_prediction_that_is_no_number_is_not_trusted(uncentred: Dataset) -> None:
    """Comparisons with NaN are false either way; false must not mean safe."""
    policy, spec = untrained(uncentred), Spec.of(uncentred)
    rows, left, budget = jnp.asarray(uncentred.observations[:2]), jnp.full(2, 5.0), jnp.full(2, 1e6)
    blind = eqx.tree_at(lambda m: m.fitted_q, guard_models(spec), constant_fitted_q(spec, (np.nan, 0.1)))
    assert guard.decide(policy, blind, made(), rows, left, budget).reasons.tolist() == [TOO_COSTLY] * 2
    reasons = guard.decide(policy, guard_models(spec), made(), rows.at[1, 0].set(jnp.nan), left, budget).reasons
    assert reasons.tolist() == [TRUSTED, NOT_FINITE]


def question(rows: np.ndarray, steps: list[int], costs: list[float], lanes: list[int], seeds: list[int]) -> Seen:
    nothing = np.zeros(len(rows), np.float32)
    return Seen(rows, np.array(seeds), np.array(steps), nothing, np.array(costs, np.float32), np.array(lanes))


def test_every_episode_of_the_pool_has_its_own_book(watched: Guard, uncentred: Dataset, actions: tuple) -> None:
    """Budget 13 bears 50 steps at a rate of 1/4 with half a unit to spare."""
    act, seen = watched.for_episodes(13.0), np.tile(uncentred.observations[:1], (2, 1))
    bold, careful = actions

    def check(
        steps: list[int], costs: list[float], wanted: list[np.ndarray], lanes: tuple[int, int] = (4, 9)
    ) -> None:
        chosen = act(question(seen, steps, costs, list(lanes), [1_000_000, 1_000_001]))
        np.testing.assert_allclose(chosen, wanted, atol=1e-6)

    check([0, 0], [0.0, 0.0], [bold, bold])
    check([1, 1], [0.0, 1.0], [bold, careful])  # 49 steps need 12.25: 13 suffices, 12 does not
    check([2, 2], [0.0, 0.0], [bold, bold])  # 48 steps need 12, which is what the second lane has left
    check([3, 3], [2.5, 0.0], [careful, bold])  # 47 steps need 11.75: the first has 10.5, the second 12
    check([4, 0], [0.0, 7.0], [careful, bold])  # the second lane begins anew: old costs are forgotten
    check([5, 1], [0.0, 0.0], [careful, bold])
    check([1, 6], [0.0, 0.0], [bold, careful], lanes=(9, 4))  # lanes, not rows, hold the books
    assert watched.interventions == {"steps": 14, "too_costly": 5, "unfamiliar": 0, "not_finite": 0}


def test_spare_rows_of_the_pool_are_not_counted(watched: Guard, uncentred: Dataset) -> None:
    rows = np.concatenate([uncentred.observations[:1], np.zeros((1, 7), np.float32)])
    watched.for_episodes(0.0)(question(rows, [0, 0], [0.0, 0.0], [0, 1], [1_000_000, 0]))
    assert watched.interventions == {"steps": 1, "too_costly": 1, "unfamiliar": 0, "not_finite": 0}


def test_an_episode_longer_than_the_datas_is_not_free(watched: Guard, uncentred: Dataset, actions: tuple) -> None:
    act, seen = watched.for_episodes(1.0), uncentred.observations[:1]
    act(question(seen, [0], [0.0], [0], [1_000_000]))
    late = question(seen, [HORIZON + 20], [0.8], [0], [1_000_000])
    np.testing.assert_allclose(act(late), actions[1][None], atol=1e-6)  # 0.2 left, and one more step needs 0.25
