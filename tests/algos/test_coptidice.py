"""COptiDICE: its divergence, residuals and losses by hand, what it draws, and its multiplier on the ring."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.methods import DATA, MethodTests, RingRun, one_update, small, with_columns

from lspc import algos
from lspc.algos import coptidice
from lspc.algos.base import Spec
from lspc.tasks import get_task

METHOD = algos.get("coptidice")


class TestCommon(MethodTests):
    method = "coptidice"
    fixed = ("normaliser", "budget")


def test_the_conjugate_and_its_slope_by_hand() -> None:
    y = jnp.asarray([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(coptidice.conjugate(y), [np.exp(-1) - 1, 0, 4], rtol=1e-6)
    np.testing.assert_allclose(coptidice.best_ratio(y), [np.exp(-1), 1, 3], rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(coptidice.conjugate))(y), coptidice.best_ratio(y), rtol=1e-6)
    assert np.isfinite(jax.grad(coptidice.conjugate)(jnp.asarray(500.0)))


def test_the_best_ratio_is_where_x_y_minus_f_is_largest() -> None:
    x = np.linspace(1e-3, 5, 20_001)
    f = np.where(x < 1, x * np.log(x) - x + 1, 0.5 * (x - 1) ** 2)
    for y in (-2.0, -0.3, 0.7, 2.5):
        gain = x * y - f
        assert gain.max() == pytest.approx(float(coptidice.conjugate(jnp.asarray(y))), abs=1e-4)
        assert x[np.argmax(gain)] == pytest.approx(float(coptidice.best_ratio(jnp.asarray(y))), abs=1e-2)


NET = tiny.linear([[2.0]], [1.0])  # 2 s + 1
STEPS = coptidice.Steps(
    starts=jnp.asarray([[0.0], [1.0]]),
    observations=jnp.asarray([[1.0], [2.0]]),  # valued 3 and 5
    following=jnp.asarray([[2.0], [4.0]]),  # 5 and 9
    rewards=jnp.asarray([1.0, 2.0]),
    costs=jnp.asarray([0.0, 1.0]),
    ends=jnp.asarray([0.0, 1.0]),
)
CONFIG = coptidice.Config(discount=0.9, alpha=0.5, cost_divergence=0.01)


def test_advantage_by_hand_and_nothing_follows_the_end() -> None:
    advantage = coptidice.advantage(NET, STEPS, jnp.asarray(1.5), 0.9)
    np.testing.assert_allclose(advantage, [1 + 0.9 * 5 - 3, 2 - 1.5 - 5], rtol=1e-6)


def test_nu_loss_by_hand() -> None:
    loss = coptidice.nu_loss(NET, STEPS, jnp.asarray(1.5), CONFIG)
    y = np.asarray([2.5, -4.5]) / 0.5
    expected = 0.1 * (1 + 3) / 2 + 0.5 * np.mean([y[0] + 0.5 * y[0] ** 2, np.exp(y[1]) - 1])
    assert loss == pytest.approx(expected, rel=1e-5)


def test_the_cost_bound_by_hand() -> None:
    ratios, raw = jnp.asarray([0.5, 2.0]), jnp.asarray(0.3)
    (loss, cost), gradients = eqx.filter_value_and_grad(coptidice.cost_bound_loss, has_aux=True)(
        (NET, raw), STEPS, ratios, CONFIG
    )
    tau = np.log1p(np.exp(0.3))
    ell = 0.1 * np.asarray([1, 3]) + np.asarray([0.5, 2]) * np.asarray([0 + 0.9 * 5 - 3, 1 - 5])
    weights = np.exp(ell / tau) / np.exp(ell / tau).sum()
    assert loss == pytest.approx(tau * (np.log(np.mean(np.exp(ell / tau))) + 0.01), rel=1e-4)
    assert cost == pytest.approx(weights[1] * 2.0 * 1.0, rel=1e-3)
    # The worst distribution's divergence from the data is what tau is held against: d loss / d tau = eps - KL.
    kl = np.sum(weights * np.log(2 * weights))
    assert gradients[1] == pytest.approx((0.01 - kl) / (1 + np.exp(-0.3)), rel=1e-3)


def test_without_room_for_worse_distributions_the_bound_is_the_mean() -> None:
    ratios = jnp.asarray([0.5, 2.0])
    _, cost = coptidice.cost_bound_loss((NET, jnp.asarray(1e4)), STEPS, ratios, CONFIG)
    assert cost == pytest.approx(np.mean([0.0, 2.0]), rel=1e-2)


@pytest.mark.parametrize(("cost", "sign"), [(0.3, 1), (0.1, -1)])
def test_the_multiplier_rises_over_budget_and_falls_within(cost: float, sign: int) -> None:
    gradient = jax.grad(coptidice.multiplier_loss)(jnp.asarray(1.0), jnp.asarray(cost), jnp.asarray(0.2))
    assert gradient == pytest.approx((0.2 - cost) / (1 + np.exp(-1)), rel=1e-5)
    assert -sign * gradient > 0  # a step goes against the gradient


def test_actor_loss_is_weighted_log_likelihood() -> None:
    actor = tiny.linear([[0.0, 0.0]], [0.2, -1.0])
    actions, ratios = jnp.asarray([[0.5], [-0.3]]), jnp.asarray([2.0, 0.0])
    z = (np.arctanh(0.5) - 0.2) * np.exp(1)
    expected = -0.5 * z**2 + 1 - 0.5 * np.log(2 * np.pi) - np.log(1 - 0.25)
    assert coptidice.actor_loss(actor, jnp.zeros((2, 1)), actions, ratios) == pytest.approx(-expected, rel=1e-4)


def test_budget_and_cost_are_of_one_step() -> None:
    """The reference compares a step's cost with a discounted episode's: a hundred times too lenient."""
    state = coptidice.init(jax.random.key(0), tiny.SPEC, coptidice.Config(hidden=(8,), budget=4.0))
    assert state.budget == pytest.approx(4 * (1 - 0.99**20) / 20)
    assert coptidice.task_settings(get_task("BallCircle"), "cpu") == {"budget": 10.0}
    # An episode that costs budget / steps at every step has just that under its discounted distribution.
    occupancy = 0.01 * 0.99 ** np.arange(20)
    assert state.budget == pytest.approx(np.sum(occupancy * 4 / 20))


def test_starts_are_drawn_beside_transitions() -> None:
    config, spec = small(METHOD, batch_size=64), Spec.of(DATA)
    table = jax.tree.map(jnp.asarray, coptidice.table(DATA, config))
    drawn = coptidice.draw(table, jax.random.key(0), spec, config)
    assert drawn.starts.shape == (64, DATA.observation_dim)
    rows = {row.tobytes() for row in np.asarray(DATA.initial_observations)}
    assert {row.tobytes() for row in np.asarray(drawn.starts)} == rows  # 6 episodes: all of them, nothing else
    assert len(np.unique(np.asarray(drawn.transitions.rewards))) > 20


def test_the_budget_reaches_the_multiplier_alone_and_actions_the_actor_alone() -> None:
    old, plain, _ = one_update(METHOD, small(METHOD))
    parts = ("nu", "chi", "actor", "multiplier", "temperature")
    poorer = eqx.tree_at(lambda s: s.budget, old, 0.5 * old.budget)
    for other, reached in (
        (one_update(METHOD, small(METHOD), state=poorer)[1], "multiplier"),
        (one_update(METHOD, small(METHOD), with_columns(actions=-DATA.actions))[1], "actor"),
    ):
        assert [name for name in parts if not tiny.same(getattr(plain, name), getattr(other, name))] == [reached]


@pytest.mark.learning
def test_on_the_ring_the_multiplier_rises_until_the_budget_is_kept(tmp_path: Path) -> None:
    learned = RingRun(
        tmp_path, "coptidice", steps=1250, batch_size=128, budget=2.0, hidden=(32, 32), learning_rate=1e-3
    )
    excess, multiplier = learned.metrics["lagrangian/excess"], learned.metrics["lagrangian/multiplier"]
    assert excess[0] > 0.02  # a step of the data's costs 0.1 too much
    assert abs(excess[-1]) < 0.01
    assert np.all(np.diff(multiplier[excess > 0.005]) > 0)
    reward, cost = learned.measure()
    assert cost <= 2.0
    assert reward > 0.6
