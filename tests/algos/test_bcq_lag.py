"""BCQ-Lag: perturbed actions and the actor's loss by hand, who hears of what, and the multiplier on the ring."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.methods import LagrangianTests, RingRun

from lspc.algos import bcq_lag
from lspc.algos.parts import lagrangian
from lspc.tasks import get_task


class TestCommon(LagrangianTests):
    method = "bcq_lag"


# One observation s, two latents, one action: the CVAE does tanh(s + z1), the actor says 2 a + 0.1.
DECODER = tiny.linear([[1.0], [1.0], [0.0]], [0.0])
ACTOR = tiny.linear([[0.0], [2.0]], [0.1])
SEEN = jnp.asarray([[0.2], [3.0]])
NOISE = jnp.asarray([[0.3, 9.0], [2.0, 0.0]])


def by_hand() -> np.ndarray:
    proposed = np.tanh([[0.5], [3.5]])  # the second latent is pulled back to 0.5
    return np.clip(proposed + 0.05 * np.tanh(2 * proposed + 0.1), -1, 1)


def test_actions_are_the_cvaes_moved_a_little() -> None:
    actions = bcq_lag.perturb(ACTOR, DECODER, SEEN, NOISE, 0.05)
    np.testing.assert_allclose(actions, by_hand(), rtol=1e-5)
    assert actions[1, 0] == 1.0  # and clipped
    assert np.abs(actions - np.tanh([[0.5], [3.5]])).max() <= 0.05


def test_actor_loss_by_hand() -> None:
    reward = tiny.linear([[0.0], [1.0]], [0.0]), tiny.linear([[0.0], [1.0]], [0.5])  # a and a + 0.5
    cost = tiny.linear([[1.0], [4.0]], [0.0]), tiny.linear([[1.0], [4.0]], [2.0])  # s + 4 a and 2 more
    config, budget = bcq_lag.Config(gains=(0.5, 0.0, 0.0)), jnp.asarray(1.0)
    loss, (pid, metrics) = bcq_lag.actor_loss(
        ACTOR, DECODER, reward, cost, lagrangian.init(), budget, SEEN, NOISE, config
    )
    actions = by_hand()
    excess = np.mean(np.asarray(SEEN) + 4 * actions) - 1
    assert metrics["excess"] == pytest.approx(excess, rel=1e-5)
    assert metrics["multiplier"] == pytest.approx(0.5 * excess, rel=1e-5)
    assert loss == pytest.approx(-actions.mean() + 0.5 * excess**2, rel=1e-5)
    assert pid.excess == pytest.approx(excess, rel=1e-5)


def test_the_budget_is_the_smallest_of_the_task_and_becomes_a_discounted_sum() -> None:
    assert bcq_lag.task_settings(get_task("BallCircle"), "default") == {"budget": 10.0}
    assert bcq_lag.task_settings(get_task("easysparse"), "default") == {"budget": 10.0, "steps": 200_000}
    state = bcq_lag.init(jax.random.key(0), tiny.SPEC, bcq_lag.Config(hidden=(8,), cvae_hidden=(8,), budget=4.0))
    assert state.budget == pytest.approx(4 * (1 - 0.99**20) / 0.01 / 20)  # episodes have 20 steps


@pytest.mark.learning
def test_on_the_ring_the_multiplier_rises_while_the_cost_is_over_budget(tmp_path: Path) -> None:
    """The CVAE's mean action costs 13 of 20. Perturbing it by 5 % cannot meet a budget of 2, but lowers the cost."""
    learned = RingRun(
        tmp_path, "bcq_lag", steps=750, batch_size=128, budget=2.0, hidden=(32, 32), cvae_hidden=(32, 32),
        target_rate=0.05,
    )  # fmt: skip
    assert np.all(learned.metrics["lagrangian/excess"][1:] > 0)
    assert np.all(np.diff(learned.metrics["lagrangian/multiplier"]) > 0)
    reward, cost = learned.measure()
    assert cost < 8
    assert reward > 0.6
