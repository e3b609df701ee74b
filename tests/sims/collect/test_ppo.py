"""PPO-Lagrangian: advantages by hand across both kinds of end, the multiplier, and who learns from which loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from helpers import tiny
from jaxtyping import Array

from lspc.sims.collect import ppo

CONFIG = ppo.Config(hidden=(8, 8), epochs=2, minibatches=2, learning_rate=1e-2)


def state(multiplier: float = 0.0, config: ppo.Config = CONFIG) -> ppo.State:
    return ppo.init(jax.random.key(0), tiny.OBSERVATION, tiny.ACTION, config, multiplier)


def log_probabilities(agent: ppo.Agent, observations: Array, actions: Array) -> Array:
    return ppo.gaussian_log_probability(actions, agent.policy(observations), agent.log_std)


def rollout(agent: ppo.Agent, rewards: Array | None = None, costs: Array | None = None) -> ppo.Rollout:
    """Eight steps of four simulators, each step its own episode: a bandit."""
    rng = np.random.default_rng(0)
    observations = jnp.asarray(rng.normal(size=(8, 4, tiny.OBSERVATION)), jnp.float32)
    actions = jnp.asarray(rng.normal(size=(8, 4, tiny.ACTION)), jnp.float32)
    nothing = jnp.zeros((8, 4))
    return ppo.Rollout(
        observations=observations,
        actions=actions,
        log_probabilities=log_probabilities(agent, observations, actions),
        rewards=actions[..., 0] if rewards is None else rewards,
        costs=nothing if costs is None else costs,
        next_observations=observations,
        terminated=nothing + 1,
        ended=nothing + 1,
    )


def test_log_probability_is_the_gaussians() -> None:
    actions, mean, std = np.asarray([[0.5, -1.0]]), np.asarray([[0.0, 1.0]]), np.asarray([0.5, 2.0])
    expected = scipy.stats.norm.logpdf(actions, mean, std).sum()
    got = ppo.gaussian_log_probability(jnp.asarray(actions), jnp.asarray(mean), jnp.log(jnp.asarray(std)))
    assert got[0] == pytest.approx(expected, rel=1e-5)


def test_generalised_advantage_by_hand() -> None:
    """Three steps: the first goes on, the second times out, the third is terminal; two simulators, one all zeros."""
    column = np.asarray([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [20.0, 40.0, 50.0]])  # signal, value, next value
    signal, values, next_values = (jnp.asarray(np.stack([row, 0 * row], axis=1), jnp.float32) for row in column)
    terminated = jnp.asarray([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    ended = jnp.asarray([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    third = 3 - 30  # nothing follows a terminal state
    second = 2 + 0.9 * 40 - 20  # a timeout looks at the value it reached, but no further
    first = (1 + 0.9 * 20 - 10) + 0.9 * 0.5 * second
    advantages = ppo.generalised_advantage(signal, values, next_values, terminated, ended, 0.9, 0.5)
    np.testing.assert_allclose(advantages[:, 0], [first, second, third], rtol=1e-5)
    assert not np.any(advantages[:, 1])


def test_advantage_without_an_end_looks_past_the_rollout_by_its_last_value() -> None:
    one, nothing = jnp.ones((2, 1)), jnp.zeros((2, 1))
    advantages = ppo.generalised_advantage(one, nothing, 10 * one, nothing, nothing, 0.9, 1.0)
    np.testing.assert_allclose(advantages[:, 0], [10 + 0.9 * 10, 10], rtol=1e-5)


def test_multiplier_rises_above_the_limit_falls_below_and_stays_positive() -> None:
    def updated(multiplier: float, cost: float, limit: float) -> float:
        return float(ppo.update_multiplier(jnp.asarray(multiplier), jnp.asarray(cost), limit, 0.1))

    assert updated(1.0, 30.0, 20.0) == pytest.approx(1.0 + 0.1 * 10 / 20)
    assert updated(1.0, 10.0, 20.0) == pytest.approx(1.0 - 0.1 * 10 / 20)
    assert updated(1.0, 20.0, 20.0) == 1.0
    assert updated(0.01, 0.0, 20.0) == 0.0
    assert updated(1.0, 1e9, 20.0) == pytest.approx(1.2)  # one wild episode is not the end
    assert updated(1.0, 5.0, 0.0) == pytest.approx(1.1)  # a limit of zero divides by nothing


def ppo_batch(agent: ppo.Agent, **changes: Array) -> ppo.Batch:
    batch = tiny.batch()
    probabilities = log_probabilities(agent, batch.observations, batch.actions)
    return ppo.Batch(
        batch.observations, batch.actions, probabilities, batch.rewards, 5 * jnp.ones(16), 7 * jnp.ones(16)
    )._replace(**changes)


def test_losses_by_hand() -> None:
    agent = state().agent
    old = ppo_batch(agent)
    ratio = np.linspace(0.5, 1.5, 16)
    batch = old._replace(log_probabilities=old.log_probabilities - jnp.log(jnp.asarray(ratio)))
    gain, value = np.asarray(batch.advantages), [
        np.asarray(net(batch.observations))[:, 0] for net in (agent.reward_value, agent.cost_value)
    ]  # fmt: skip
    policy = -np.mean(np.minimum(ratio * gain, np.clip(ratio, 0.8, 1.2) * gain))
    expected = policy + np.mean((value[0] - 5) ** 2) + np.mean((value[1] - 7) ** 2) - 0.1 * 2 * -0.5
    config = ppo.Config(clip=0.2, entropy=0.1, initial_log_std=-0.5)
    assert ppo._losses(agent, batch, config) == pytest.approx(expected, rel=1e-4)


def test_each_network_learns_from_its_own_loss_alone() -> None:
    agent = state().agent

    def slope(**changes: Array) -> ppo.Agent:
        return eqx.filter_grad(ppo._losses)(agent, ppo_batch(agent, **changes), CONFIG)

    plain = slope()
    other_gain = slope(advantages=jnp.linspace(-1, 1, 16))
    other_reward, other_cost = slope(reward_targets=jnp.zeros(16)), slope(cost_targets=jnp.zeros(16))
    parts = ("policy", "log_std", "reward_value", "cost_value")
    for other, changed in (
        (other_gain, ("policy", "log_std")),
        (other_reward, ("reward_value",)),
        (other_cost, ("cost_value",)),
    ):
        moved = tuple(part for part in parts if not tiny.same(getattr(plain, part), getattr(other, part)))
        assert moved == changed


def test_an_indifferent_rollout_moves_the_values_but_not_the_policy() -> None:
    old = state()
    quiet = eqx.tree_at(  # values of zero everywhere, so that equal rewards are equal advantages
        lambda a: (a.reward_value.layers[-1], a.cost_value.layers[-1]),
        old.agent,
        replace_fn=lambda layer: jax.tree.map(jnp.zeros_like, layer),
    )
    new = ppo.update(
        old._replace(agent=quiet), rollout(quiet, rewards=jnp.ones((8, 4))), jax.random.key(1), CONFIG
    ).agent
    tiny.close(new.policy, quiet.policy, atol=1e-4)
    assert not tiny.same(new.reward_value, quiet.reward_value)


def test_update_is_deterministic_in_its_key_and_leaves_the_multiplier() -> None:
    old = state(multiplier=0.7)
    experience = rollout(old.agent)
    a, b, c = (ppo.update(old, experience, jax.random.key(seed), CONFIG) for seed in (1, 1, 2))
    assert tiny.same(a, b)
    assert not tiny.same(a.agent, c.agent)
    assert a.multiplier == old.multiplier


@pytest.mark.parametrize(("multiplier", "direction"), [(0.0, 1), (10.0, -1)])
def test_the_mean_action_follows_reward_and_with_a_high_multiplier_flees_cost(
    multiplier: float, direction: int
) -> None:
    """A bandit whose reward and cost both are the first action: the multiplier decides which one is heard."""
    old = state(multiplier)
    experience = rollout(old.agent)
    experience = experience._replace(costs=experience.rewards)
    new = ppo.update(old, experience, jax.random.key(1), CONFIG)
    observations = experience.observations.reshape(-1, tiny.OBSERVATION)
    moved = np.asarray(new.agent.policy(observations) - old.agent.policy(observations)).mean(axis=0)
    assert direction * moved[0] > 0.01
    assert abs(moved[1]) < abs(moved[0])
