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
from lspc.calibration.margins import Margin
from lspc.calibration.storage import GuardModels
from lspc.data import Dataset
from lspc.deploy import guard
from lspc.deploy.alarm import Alarm
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
    wanted = {"steps": 9, "too_costly": 3, "unfamiliar": 0, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted


@pytest.mark.parametrize("budget", [0.0, -3.0])
def test_a_spent_budget_leaves_lspc_s_alone(watched: Guard, seen: np.ndarray, actions: tuple, budget: float) -> None:
    np.testing.assert_allclose(watched.act(seen, budget_left=budget, steps_left=1), actions[1], atol=1e-6)
    wanted = {"steps": 1, "too_costly": 1, "unfamiliar": 0, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted


def test_nothing_left_is_enough_for_what_costs_nothing(uncentred: Dataset, seen: np.ndarray, actions: tuple) -> None:
    free = Guard(untrained(uncentred), guard_models(Spec.of(uncentred), (0.0, 0.0)), made())
    np.testing.assert_allclose(free.act(seen, budget_left=0.0, steps_left=HORIZON), actions[0], atol=1e-6)


def test_the_mean_counts_with_its_margin(uncentred: Dataset) -> None:
    """Members that expect 0.8 and 2.4: 1.6, a tenth of (1.6 + 1), and two standard deviations of 1.13."""
    asked = jnp.asarray(uncentred.observations[:1]), jnp.zeros((1, 2)), jnp.full(1, 8.0), jnp.asarray(1.0)
    models = guard_models(Spec.of(uncentred), (0.1, 0.3))
    found = guard.bound_cost(models, Margin(0.1, 1.0), *asked)
    assert found.tolist() == pytest.approx([1.6 + 0.26 + 2 * 1.6 / np.sqrt(2)], rel=1e-5)
    assert guard.bound_cost(models, Margin(1e9, 1.0), *asked).tolist() == [800.0]  # no step costs more than 100


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
    costs = [guard.bound_cost(found, Margin(0.0, 1.0), *asked, jnp.asarray(eps)).item() for eps in (0.02, 1.0, 2.0)]
    assert costs == pytest.approx([0.2, 10.0, 20.0])
    # Six eps from 0.02 to 2: of 10 steps, each of which costs eps, the largest that fits is chosen.
    watched, seen = Guard(policy.at(2.0), found, made()), uncentred.observations[0]
    card = {"spec": {"observation_dim": 7}}
    for budget, eps in ((20.1, 2.0), (19.9, 1.604), (8.2, 0.812), (0.3, 0.02)):
        wanted = TrainedPolicy(policy.at(eps), "LSPC-O", card).act(seen)
        np.testing.assert_allclose(watched.act(seen, budget_left=budget, steps_left=10), wanted, atol=1e-6)
    careful = TrainedPolicy(policy, "LSPC-S", card).act(seen)
    np.testing.assert_allclose(watched.act(seen, budget_left=0.1, steps_left=10), careful, atol=1e-6)
    wanted = {"steps": 5, "too_costly": 1, "unfamiliar": 0, "lowered": 3, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted


class CarefulCosts(Echo):
    """Expects its parameter too, and far more of one kind of action: LSPC-S's, in the test below."""

    def __call__(self, observations: Array, actions: Array, steps_left: Array, parameters: Array) -> Array:
        dear = jnp.abs(actions - self.normaliser.mean[None, : actions.shape[-1]]).max(axis=-1) < 1e-4
        told = super().__call__(observations, actions, steps_left, jnp.broadcast_to(parameters, steps_left.shape))
        return told + jnp.where(dear, 50.0, 0.0)[..., None]


def test_lspc_s_does_not_act_where_it_is_predicted_to_cost_more(uncentred: Dataset) -> None:
    policy, seen = untrained(uncentred).at(2.0), uncentred.observations[0]
    card, base = {"spec": {"observation_dim": 7}}, guard_models(Spec.of(uncentred))
    careful = TrainedPolicy(policy, "LSPC-S", card).act(seen)
    marked = eqx.tree_at(lambda q: q.normaliser.mean, base.fitted_q,
                         jnp.tile(jnp.pad(jnp.asarray(careful), (0, 5)), (2, 1)))  # fmt: skip
    names = [field.name for field in fields(marked)]
    models = GuardModels(CarefulCosts(**{name: getattr(marked, name) for name in names}), base.landmarks)
    watched = Guard(policy, models, made())
    cheapest = TrainedPolicy(policy.at(0.02), "LSPC-O", card).act(seen)
    assert np.abs(cheapest - careful).max() > 1e-3
    np.testing.assert_allclose(watched.act(seen, budget_left=0.0, steps_left=10), cheapest, atol=1e-6)
    assert watched.interventions["too_costly"] == 1


def test_after_an_alarm_lspc_s_acts_alone(watched: Guard, seen: np.ndarray, actions: tuple) -> None:
    with pytest.raises(UserError, match="no alarm watches this guard"):
        watched.observe(3.0)
    watched.watch(Alarm(10.0, 50.0))
    assert watched.observe(3.0) == "ok"
    np.testing.assert_allclose(watched.act(seen, budget_left=1e6, steps_left=HORIZON), actions[0], atol=1e-6)
    while watched.observe(40.0) == "ok":
        pass
    assert watched.alarm is not None
    assert "the mean cost is not at most 10 any more" in watched.alarm.why
    np.testing.assert_allclose(watched.act(seen, budget_left=1e6, steps_left=HORIZON), actions[1], atol=1e-6)
    pooled = watched.for_episodes(1e6)(question(seen[None], [0], [0.0], [0], [1_000_000]))
    np.testing.assert_allclose(pooled, actions[1][None], atol=1e-6)
    wanted = {"steps": 3, "too_costly": 0, "unfamiliar": 0, "lowered": 0, "alarmed": 2, "not_finite": 0}
    assert watched.interventions == wanted


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
    wanted = {"steps": 6, "too_costly": 0, "unfamiliar": 4, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted


def test_a_state_that_is_both_strange_and_costly_counts_once(uncentred: Dataset, seen: np.ndarray) -> None:
    watched = Guard(untrained(uncentred), guard_models(Spec.of(uncentred)), made(familiar_within=3.0))
    watched.act(seen + 1e4, budget_left=0.0, steps_left=1)
    wanted = {"steps": 1, "too_costly": 0, "unfamiliar": 1, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted


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
    wanted = {"steps": 12, "too_costly": 6, "unfamiliar": 0, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted


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
    seeds = [1_000_000, 1_000_001]

    def check(
        steps: list[int], costs: list[float], wanted: list[np.ndarray], lanes: tuple[int, int] = (4, 9)
    ) -> None:
        chosen = act(question(seen, steps, costs, list(lanes), seeds))
        np.testing.assert_allclose(chosen, wanted, atol=1e-6)

    check([0, 0], [0.0, 0.0], [bold, bold])
    check([1, 1], [0.0, 1.0], [bold, careful])  # 49 steps need 12.25: 13 suffices, 12 does not
    check([2, 2], [0.0, 0.0], [bold, bold])  # 48 steps need 12, which is what the second lane has left
    check([3, 3], [2.5, 0.0], [careful, bold])  # 47 steps need 11.75: the first has 10.5, the second 12
    seeds[1] = 1_000_002
    check([4, 0], [0.0, 7.0], [careful, bold])  # the second lane begins another: old costs are forgotten
    check([5, 1], [0.0, 0.0], [careful, bold])
    seeds.reverse()
    check([1, 6], [0.0, 0.0], [bold, careful], lanes=(9, 4))  # lanes, not rows, hold the books
    wanted = {"steps": 14, "too_costly": 5, "unfamiliar": 0, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted


def test_an_episode_that_begins_again_counts_once(watched: Guard, uncentred: Dataset) -> None:
    """Its first try, on a worker that was lost, is taken back; the other episode goes on and keeps its count."""
    act, rows = watched.for_episodes(0.0), np.tile(uncentred.observations[:1], (2, 1))
    for step in range(3):
        act(question(rows, [step, step], [0.0, 0.0], [0, 1], [1_000_000, 1_000_001]))
    for step in range(2):
        act(question(rows, [step, step + 3], [0.0, 0.0], [10, 1], [1_000_000, 1_000_001]))
    wanted = {"steps": 7, "too_costly": 7, "unfamiliar": 0, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted
    watched.for_episodes(0.0)(question(rows[:1], [0], [0.0], [0], [1_000_000]))
    assert watched.interventions["steps"] == 8  # another round takes nothing back


def test_spare_rows_of_the_pool_are_not_counted(watched: Guard, uncentred: Dataset) -> None:
    rows = np.concatenate([uncentred.observations[:1], np.zeros((1, 7), np.float32)])
    watched.for_episodes(0.0)(question(rows, [0, 0], [0.0, 0.0], [0, 1], [1_000_000, 0]))
    wanted = {"steps": 1, "too_costly": 1, "unfamiliar": 0, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert watched.interventions == wanted


def test_an_episode_longer_than_the_datas_is_not_free(watched: Guard, uncentred: Dataset, actions: tuple) -> None:
    act, seen = watched.for_episodes(1.0), uncentred.observations[:1]
    act(question(seen, [0], [0.0], [0], [1_000_000]))
    late = question(seen, [HORIZON + 20], [0.8], [0], [1_000_000])
    np.testing.assert_allclose(act(late), actions[1][None], atol=1e-6)  # 0.2 left, and one more step needs 0.25
