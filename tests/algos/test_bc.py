"""Behaviour cloning: its loss by hand, what it learns from, the mean of what was done, and BC-Safe on the ring."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.methods import RingRun

from lspc.algos import bc
from lspc.algos.base import Spec
from lspc.data import Dataset
from lspc.errors import UserError

CONFIG = bc.Config(hidden=(8, 8), learning_rate=1e-2)


def test_cloning_loss_by_hand() -> None:
    net = tiny.linear([[1.0, 0.0]], [0.0, 0.5])
    loss = bc.cloning_loss(net, jnp.asarray([[0.3], [-1.0]]), jnp.asarray([[0.0, 0.0], [1.0, -1.0]]))
    first = np.tanh(0.3) ** 2 + np.tanh(0.5) ** 2
    second = (np.tanh(-1.0) - 1) ** 2 + (np.tanh(0.5) + 1) ** 2
    assert loss == pytest.approx((first + second) / 2, rel=1e-6)  # summed over the action, averaged over the batch


def test_a_step_changes_the_net_and_hears_of_nothing_but_observations_and_actions() -> None:
    old = bc.init(jax.random.key(0), tiny.SPEC, CONFIG)
    new, metrics = bc.update(old, tiny.batch(), jax.random.key(1))
    assert not tiny.same(old.learner.net, new.learner.net)
    assert tiny.same(old.normaliser, new.normaliser)
    assert set(metrics) == {"policy/loss"}
    blind = tiny.batch(
        rewards=np.zeros(16), costs=np.ones(16), next_observations=np.zeros((16, 3)), terminated=np.ones(16)
    )
    assert tiny.same(new, bc.update(old, blind, jax.random.key(2))[0])


def test_it_finds_the_mean_action() -> None:
    """Half the data does 0.8 and half -0.2: cloning does 0.3, whatever it costs."""
    actions = np.where(np.arange(16)[:, None] % 2 == 0, 0.8, -0.2) * np.ones((1, tiny.ACTION))
    batch, state = tiny.batch(actions=actions, observations=np.ones((16, 3))), bc.init(
        jax.random.key(0), tiny.SPEC, CONFIG
    )  # fmt: skip
    step = jax.jit(bc.update)
    for i in range(300):
        state, _ = step(state, batch, jax.random.key(i))
    policy = bc.policy(state)
    action = policy(batch.observations, jnp.ones((16, policy.noise_dim)), "BC")
    np.testing.assert_allclose(action, np.full((16, 2), 0.3), atol=0.02)
    np.testing.assert_array_equal(action, policy(batch.observations, jnp.zeros((16, policy.noise_dim)), "BC"))


def test_observations_are_normalised_unless_told_otherwise() -> None:
    net = bc.init(jax.random.key(0), tiny.SPEC, CONFIG)
    raw = bc.init(jax.random.key(0), tiny.SPEC, bc.Config(hidden=(8, 8), normalise_observations=False))
    observations = tiny.batch().observations
    by_hand = (np.asarray(observations) - tiny.SPEC.observation_mean) / tiny.SPEC.observation_std
    by_hand = jnp.asarray(by_hand, jnp.float32)
    zero_noise = jnp.zeros((16, 1))
    np.testing.assert_allclose(
        bc.policy(net)(observations, zero_noise, "BC"), bc.policy(raw)(by_hand, zero_noise, "BC"), rtol=1e-5
    )


def test_a_budget_keeps_the_episodes_within_it() -> None:
    observations = np.arange(6, dtype=np.float32)[:, None]
    dataset = Dataset(
        observations=observations,
        actions=np.zeros((6, 1), np.float32),
        rewards=np.ones(6, np.float32),
        costs=np.asarray([0, 1, 5, 5, 1, 1], np.float32),
        next_observations=observations + 1,
        terminated=np.zeros(6, bool),
        truncated=np.asarray([0, 1, 0, 1, 0, 1], bool),
    )
    assert bc.prepare(dataset, bc.Config()).transitions == 6
    kept = bc.prepare(dataset, bc.Config(budget=2.0))
    assert kept.observations[:, 0].tolist() == [0, 1, 4, 5]  # a cost of exactly the budget is within it
    assert Spec.of(kept).observation_mean == (2.5,)
    with pytest.raises(UserError, match=r"no episode costs 0\.5 or less"):
        bc.prepare(dataset, bc.Config(budget=0.5))


@pytest.mark.learning
def test_on_the_ring_bc_safe_is_safe_but_below_the_optimum(tmp_path: Path) -> None:
    """It does the mean of the drivers within the limit, and the mean is slower than the best of them."""
    reward, cost = RingRun(tmp_path, "bc", steps=750, batch_size=128, hidden=(32, 32), budget=2.0).measure()
    assert cost <= 2.0
    assert 0.6 < reward < 0.9
