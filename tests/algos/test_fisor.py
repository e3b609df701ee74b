"""FISOR: feasibility and weights by hand, the policy's choice among candidates, and safety on the ring."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.methods import DATA, MethodTests, RingRun, one_update, small, with_columns
from jaxtyping import Array

from lspc import algos
from lspc.algos import fisor
from lspc.algos.base import Spec
from lspc.algos.parts import diffusion, iql
from lspc.errors import UserError

METHOD = algos.get("fisor")


class TestCommon(MethodTests):
    method = "fisor"
    fixed = ("normaliser", "reward_scale", "largest_reward")


def test_feasibility_looks_for_the_worst_to_come() -> None:
    config = fisor.Config(discount=0.9)
    h, following = jnp.asarray([-1.0, -1.0, 25.0, -1.0, -1.0]), jnp.asarray([-0.5, 10.0, -1.0, 99.0, 10.0])
    target = fisor.feasibility_target(h, following, jnp.asarray([0.0, 0, 0, 0, 1]), config)
    expected = [
        0.1 * -1 + 0.9 * -0.5,
        0.1 * -1 + 0.9 * 10,  # a violation ahead counts, however safe this step
        25.0,  # a violation now counts, however safe the future
        0.1 * -1 + 0.9 * 25,  # nothing is worse than a violation
        -1.0,  # nothing follows the end
    ]
    np.testing.assert_allclose(target, expected, rtol=1e-5)


def test_weights_by_hand() -> None:
    config = fisor.Config(reward_temperature=3.0, cost_temperature=5.0)
    advantage = jnp.asarray([0.5, 0.5, 9.0, 0.5, 0.5, -9.0])
    v_h = jnp.asarray([-1.0, -1.0, 0.0, 2.0, 2.0, 9.0])
    q_h = jnp.asarray([-0.5, 0.1, 0.0, 1.5, 2.5, 1.0])
    expected = [
        np.exp(1.5),  # feasible, and the action keeps it so: reward counts
        0.0,  # feasible, but the action gives that up
        100.0,  # clipped
        np.exp(2.5),  # infeasible: what violates less
        np.exp(-2.5),  # infeasible: what violates more
        150.0,  # clipped
    ]
    np.testing.assert_allclose(fisor.feasibility_weights(advantage, v_h, q_h, config), expected, rtol=1e-5)


def test_v_h_is_a_lower_expectile_of_q_h() -> None:
    """V_h is too low for every Q_h: errors count a tenth. Too high: nine tenths."""
    critic = iql.init(jax.random.key(0), tiny.OBSERVATION, tiny.ACTION, (8, 8))
    batch, config = tiny.batch(), small(METHOD, expectile=0.9)
    for offset, weight in ((-50.0, 0.1), (50.0, 0.9)):
        shifted = eqx.tree_at(lambda c: c.value.net.layers[-1].bias, critic, jnp.asarray([offset]))
        _, metrics = jax.jit(fisor.update_feasibility, static_argnums=6)(
            shifted, batch.observations, batch.actions, batch.costs, batch.next_observations, batch.terminated, config
        )
        q = iql.twin(critic.target_q, batch.observations, batch.actions, is_cost=True)
        v = shifted.value.net(batch.observations)[:, 0]
        assert metrics["value_loss"] == pytest.approx(float(weight * jnp.mean((q - v) ** 2)), rel=1e-4)
        assert metrics["feasible_share"] == (1.0 if offset < 0 else 0.0)


def test_cost_means_violation_whatever_its_size() -> None:
    """Only whether a step costs something matters: h is +25 or -1."""
    larger = with_columns(costs=7 * DATA.costs)
    assert tiny.same(*(one_update(METHOD, small(METHOD), data)[1] for data in (DATA, larger)))


def test_rewards_are_scaled_to_a_spread_of_one_per_step() -> None:
    state = fisor.init(jax.random.key(0), tiny.SPEC, small(METHOD, discount=0.9))
    assert state.reward_scale == pytest.approx(20 / 50)
    assert state.largest_reward == pytest.approx(3 * 0.4 * 10)


def test_rewards_and_costs_do_not_hear_of_each_other() -> None:
    _, plain, _ = one_update(METHOD, small(METHOD))
    _, richer, _ = one_update(METHOD, small(METHOD), with_columns(rewards=5 * DATA.rewards))
    _, costlier, _ = one_update(METHOD, small(METHOD), with_columns(costs=1 - DATA.costs))
    assert tiny.same(plain.cost, richer.cost)
    assert tiny.same(plain.reward, costlier.reward)
    assert not tiny.same(plain.reward, richer.reward)
    assert not tiny.same(plain.cost, costlier.cost)
    assert not tiny.same(plain.actor, costlier.actor)


@pytest.mark.slow
def test_the_critics_learn_from_the_first_transitions_and_the_actor_in_several_steps() -> None:
    config = small(METHOD, critic_batch_size=2, actor_steps=2)
    state = fisor.init(jax.random.key(0), tiny.SPEC, config)
    batch = tiny.batch(8)
    update = jax.jit(fisor.update)
    plain, _ = update(state, batch, jax.random.key(1))
    other = batch._replace(rewards=batch.rewards.at[2:].add(9.0), actions=batch.actions.at[2:].multiply(-1))
    elsewhere, _ = update(state, other, jax.random.key(1))
    assert tiny.same((plain.reward, plain.cost), (elsewhere.reward, elsewhere.cost))
    assert not tiny.same(plain.actor, elsewhere.actor)
    assert plain.actor.adam.count == 2
    with pytest.raises(UserError, match="batch_size 8 is not a multiple of actor_steps, 3"):
        fisor.init(jax.random.key(0), tiny.SPEC, small(METHOD, actor_steps=3))


@eqx.filter_jit
def act(policy: fisor.FisorPolicy, seen: Array, noise: Array) -> Array:
    return policy(seen, noise, "FISOR")


def test_the_policy_takes_the_candidate_with_the_least_cost() -> None:
    spec = Spec.of(DATA)
    policy = fisor.policy(fisor.init(jax.random.key(0), spec, small(METHOD, candidates=6)))
    assert policy.noise_dim == 6 * 5 * spec.action_dim
    seen = jnp.asarray(DATA.observations[:4])
    noise = jax.random.normal(jax.random.key(1), (4, policy.noise_dim))
    chosen = act(policy, seen, noise)
    inputs = policy.normaliser(seen)
    many = jnp.repeat(inputs[:, None], 6, axis=1)
    candidates = jax.jit(diffusion.sample)(policy.actor, many, noise.reshape(4, 6, 5, spec.action_dim))
    costs = iql.twin(policy.q_h, many, candidates, is_cost=True)
    assert len(np.unique(np.argmin(costs, axis=1))) > 1
    for row in range(4):
        np.testing.assert_allclose(chosen[row], candidates[row, np.argmin(costs[row])], rtol=1e-3, atol=1e-5)


def test_without_noise_it_still_chooses_among_candidates_always_the_same() -> None:
    policy = fisor.policy(fisor.init(jax.random.key(0), Spec.of(DATA), small(METHOD, candidates=6)))
    seen = jnp.asarray(DATA.observations[:4])
    quiet = act(policy, seen, jnp.zeros((4, policy.noise_dim)))
    frozen = jnp.tile(jax.random.normal(jax.random.key(0), (policy.noise_dim,)), (4, 1))
    np.testing.assert_array_equal(quiet, act(policy, seen, frozen))


@pytest.mark.learning
def test_on_the_ring_it_tells_feasible_states_and_is_safe(tmp_path: Path) -> None:
    learned = RingRun(
        tmp_path, "fisor", steps=1000, batch_size=128, actor_steps=1, hidden=(32, 32), actor_width=32, actor_blocks=1,
        discount=0.9, learning_rate=3e-3, target_rate=0.1, actor_target_rate=0.01,
    )  # fmt: skip
    assert 0.05 < learned.metrics["cost/feasible_share"][-1] < 0.5  # a third of the data's steps are within the limit
    reward, cost = learned.measure()
    assert cost <= 0.5
    assert reward > 0.5
