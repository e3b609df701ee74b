"""CPQ: the mask and the flags by hand, a gradient for the unknown, and that unknown actions come to look costly."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.methods import DATA as SEEN
from helpers.methods import MethodTests, one_update, small, with_columns
from helpers.ring import as_action, limit, place_ahead, ring_data
from jaxtyping import Array

from lspc import algos
from lspc.algos import base, cpq
from lspc.algos.base import Spec
from lspc.algos.parts import qlearning
from lspc.tasks import get_task

METHOD = algos.get("cpq")


class TestCommon(MethodTests):
    method = "cpq"
    fixed = ("normaliser", "limits", "budget")


def test_what_costs_too_much_is_worth_nothing() -> None:
    worth = cpq.mask_unaffordable(jnp.asarray([3.0, 3.0, -2.0]), jnp.asarray([1.0, 1.1, 9.0]), jnp.asarray(1.0))
    assert worth.tolist() == [3, 0, 0]  # a cost of exactly the budget is within it


def test_the_largest_divergences_are_unknown() -> None:
    """An encoder whose latent mean is the action itself: the divergence grows with |a|."""
    encoder = tiny.linear([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.0])
    actions = jnp.asarray([[0.1], [-0.9], [0.5], [0.2]])
    assert cpq.flag_unknown(encoder, jnp.zeros((4, 1)), actions, 0.75).tolist() == [0, 1, 0, 0]
    assert cpq.flag_unknown(encoder, jnp.zeros((4, 1)), actions, 0.5).tolist() == [0, 1, 1, 0]


# Q1 = s + 2 a, Q2 = -s + 1; the data: Q1 = 2, 1 and Q2 = 0, -1 with targets 1, 3.
TWINS = tiny.linear([[1.0], [2.0]], [0.0]), tiny.linear([[-1.0], [0.0]], [1.0])
DATA = jnp.asarray([[1.0], [2.0]]), jnp.asarray([[0.5], [-0.5]]), jnp.asarray([1.0, 3.0])
MANY, DRAWN = jnp.asarray([[[1.0], [2.0]]] * 2), jnp.asarray([[[0.0], [0.5]], [[-1.0], [-2.0]]])
FLAGS = jnp.asarray([[0.0, 1.0], [1.0, 0.0]])  # smaller twins there: min(3, -1) and min(-1, 0)


def penalised(q: Any, alpha: float) -> tuple[Array, Any]:
    return cpq.cost_loss(q, *DATA, MANY, DRAWN, FLAGS, jnp.asarray(alpha), jnp.asarray(4.0))


def test_cost_loss_by_hand() -> None:
    loss, (bellman_error, unknown_cost) = penalised(TWINS, 0.5)
    assert bellman_error == pytest.approx((1 + 4) / 2 + (1 + 16) / 2)
    assert unknown_cost == pytest.approx((-1 - 1) / 2)  # a mean over the unknown ones, not over all
    assert loss == pytest.approx(11 - 0.5 * (-1 - 4))


def test_the_unknown_have_a_gradient() -> None:
    """The reference computes this term without one; with it, a step raises what unknown actions cost."""
    gradients = [eqx.filter_grad(lambda q, alpha=alpha: penalised(q, alpha)[0])(TWINS) for alpha in (0.0, 2.0)]
    difference = jax.tree.map(lambda a, b: b - a, *gradients)
    # The second twin is the smaller at (2, 0.5), the first at (1, -1): each has half of the mean.
    assert difference[1].layers[0].bias[0] == pytest.approx(-2.0 * 0.5)
    assert difference[0].layers[0].bias[0] == pytest.approx(-2.0 * 0.5)
    lifted = jax.tree.map(lambda weight, change: weight - 0.1 * change, TWINS, difference)
    assert penalised(lifted, 2.0)[1][1] > penalised(TWINS, 2.0)[1][1]


def test_actor_loss_by_hand() -> None:
    actor = tiny.linear([[1.0, 0.0]], [0.0, -2.0])
    reward = tiny.linear([[0.0], [3.0]], [0.0]), tiny.linear([[0.0], [3.0]], [1.0])
    cost = tiny.linear([[1.0], [0.0]], [0.0]), tiny.linear([[1.0], [0.0]], [5.0])  # the state alone decides
    seen, noise = jnp.asarray([[0.5], [1.5]]), jnp.zeros((2, 1))
    loss, share = cpq.actor_loss(actor, reward, cost, jnp.asarray(1.0), seen, noise)
    # The second state cannot be afforded: it counts by how much it exceeds the budget, 1.5 - 1.
    assert loss == pytest.approx((-3 * np.tanh(0.5) + 0.5) / 2, rel=1e-5)
    assert share == 0.5


def test_rewards_reach_neither_costs_nor_the_cvae() -> None:
    _, plain, _ = one_update(METHOD, small(METHOD))
    _, poorer, _ = one_update(METHOD, small(METHOD), with_columns(rewards=-SEEN.rewards))
    assert tiny.same((plain.cost, plain.cvae, plain.alpha), (poorer.cost, poorer.cvae, poorer.alpha))
    assert not tiny.same(plain.reward, poorer.reward)


def test_alpha_reaches_the_cost_critic_alone() -> None:
    old, plain, _ = one_update(METHOD, small(METHOD))
    eager = eqx.tree_at(lambda s: s.alpha, old, jnp.float32(1.0))
    _, pushed, _ = one_update(METHOD, small(METHOD), state=eager)
    assert tiny.same((plain.reward, plain.cvae), (pushed.reward, pushed.cvae))
    assert not tiny.same(plain.cost, pushed.cost)


def test_the_reward_backup_is_masked_where_the_next_action_costs_too_much() -> None:
    old, _, _ = one_update(METHOD, small(METHOD))
    costly = eqx.tree_at(
        lambda s: [n.layers[-1].bias for n in s.cost.target_q], old, [jnp.asarray([99.0], jnp.float32)] * 2
    )
    elsewhere = with_columns(next_observations=SEEN.next_observations + 5)
    masked, other = (one_update(METHOD, small(METHOD), data, costly)[1] for data in (SEEN, elsewhere))
    assert tiny.same(masked.reward, other.reward)  # nothing of the next state is left
    free, other = (one_update(METHOD, small(METHOD), data, old)[1] for data in (SEEN, elsewhere))
    assert not tiny.same(free.reward, other.reward)


def test_where_nothing_can_be_afforded_the_actor_seeks_the_least_cost() -> None:
    """Rewards then mean nothing to it, and it does not stand still, as the mask alone would have it."""
    actor = tiny.linear([[1.0, 0.0]], [0.0, -2.0])
    reward = tiny.linear([[0.0], [3.0]], [0.0]), tiny.linear([[0.0], [3.0]], [0.0])
    cost = tiny.linear([[0.0], [2.0]], [9.0]), tiny.linear([[0.0], [2.0]], [9.0])  # the smaller action costs less

    def gradient(reward: Any) -> Any:
        given = reward, cost, jnp.asarray(1.0), jnp.asarray([[0.5]]), jnp.zeros((1, 1))
        return eqx.filter_grad(cpq.actor_loss, has_aux=True)(actor, *given)[0].layers[-1].bias[0]

    expected = 2 * (1 - np.tanh(0.5) ** 2)
    assert gradient(reward) == pytest.approx(expected, rel=1e-5)
    assert gradient(jax.tree.map(lambda leaf: -leaf, reward)) == pytest.approx(expected, rel=1e-5)


def test_alpha_rises_until_the_unknown_cost_enough() -> None:
    config = small(METHOD)
    before, new, metrics = one_update(METHOD, config)
    least = 1.5 * before.budget
    assert new.alpha == pytest.approx(float(1e-3 * (least - metrics["cost/q_of_unknown"])), rel=1e-4)
    costly = eqx.tree_at(
        lambda s: [n.layers[-1].bias for n in s.cost.q.net], before, [jnp.asarray([99.0], jnp.float32)] * 2
    )
    assert one_update(METHOD, config, state=costly)[1].alpha == 0
    eager = eqx.tree_at(lambda s: s.alpha, before, jnp.float32(1.0))
    assert one_update(METHOD, config, state=eager)[1].alpha == 1.0  # it never exceeds max_alpha


def test_the_budget_becomes_a_discounted_sum() -> None:
    assert cpq.task_settings(get_task("BallCircle"), "cpu") == {"budget": 10.0}
    state = cpq.init(jax.random.key(0), tiny.SPEC, cpq.Config(hidden=(8,), cvae_hidden=(8,), budget=4.0))
    assert state.budget == pytest.approx(4 * (1 - 0.99**20) / 0.01 / 20)


@pytest.mark.learning
def test_on_the_ring_unknown_actions_come_to_cost_more_than_the_budget() -> None:
    """Learning from safe drivers only: no cost was ever seen, yet full speed is not believed to be free."""
    data = ring_data().within(0.0)
    assert not data.costs.any()
    spec = Spec.of(data)
    config = small(METHOD, batch_size=128, budget=2.0, hidden=(32, 32), cvae_hidden=(32, 32), target_rate=0.05,
                   actor_learning_rate=1e-3, candidates=10)  # fmt: skip
    table = jnp.asarray(base.table(data, config))

    @jax.jit
    def run(state: cpq.State) -> cpq.State:
        def one(state: cpq.State, key: Array) -> tuple[cpq.State, None]:
            first, second = jax.random.split(key)
            return cpq.update(state, base.draw(table, first, spec, config), second)[0], None

        return jax.lax.scan(one, state, jax.random.split(jax.random.key(1), 600))[0]

    learned = run(cpq.init(jax.random.key(0), spec, config))
    seen = data.observations[::7]
    careful, wild = as_action(0.8 * limit(place_ahead(seen))), np.ones((len(seen), 1), np.float32)
    cost_of = [
        np.asarray(
            qlearning.combine_twins(learned.cost.q.net, learned.normaliser(jnp.asarray(seen)), jnp.asarray(actions))
        )
        for actions in (careful, wild)
    ]
    assert np.mean(cost_of[0] <= learned.budget) > 0.95
    assert np.mean(cost_of[1] > learned.budget) > 0.95
