"""Exact evaluation against sums written out, the optimum against brute force, and a cheap import."""

import subprocess
import sys
from itertools import combinations, product

import numpy as np
import pytest

from lspc.theory import examples
from lspc.theory.cmdp import (
    Array,
    action_values,
    kl,
    normalised,
    occupancy,
    random_cmdps,
    random_policies,
    state_values,
    total_variation,
    value,
)
from lspc.theory.optimum import constrained_optimum, floored, unconstrained_optimum, with_floor


def test_values_and_visits_equal_the_sum_over_time() -> None:
    rng = np.random.default_rng(0)
    cmdp = random_cmdps(rng, 4, 3, 2, [0.5])
    policy = random_policies(rng, cmdp)
    where, visits, total = cmdp.initial, np.zeros((4, 3)), np.zeros(4)
    for t in range(60):
        visits += 0.5 * 0.5**t * where
        total += 0.5**t * np.einsum("ns,nsa,nsa->n", where, policy, cmdp.reward)
        where = np.einsum("ns,nsa,nsat->nt", where, policy, cmdp.transition)
    np.testing.assert_allclose(occupancy(cmdp, policy), visits, atol=1e-12)
    np.testing.assert_allclose(value(cmdp, policy, cmdp.reward), total, atol=1e-12)


def test_state_values_solve_the_bellman_equation() -> None:
    rng = np.random.default_rng(1)
    cmdp = random_cmdps(rng, 5, 4, 3)
    policy = random_policies(rng, cmdp)
    v = state_values(cmdp, policy, cmdp.cost)
    np.testing.assert_allclose((policy * action_values(cmdp, v, cmdp.cost)).sum(-1), v, rtol=1e-9)


def test_distances() -> None:
    p, q = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    assert total_variation(p, q) == 0.5
    assert kl(p, q) == np.inf
    assert kl(q, p) == pytest.approx(np.log(2))
    assert kl(p, p) == 0
    np.testing.assert_array_equal(normalised(np.array([[0.0, 0.0], [1.0, 3.0]])), [[0.5, 0.5], [0.25, 0.75]])


def best_by_brute_force(cmdp_rewards: Array, cmdp_costs: Array, kappa: float) -> float:
    """The deterministic policies span all others: the best is one of them, or a mixture of two that costs kappa."""
    points = list(zip(cmdp_rewards, cmdp_costs, strict=True))
    best = max((r for r, c in points if c <= kappa), default=-np.inf)
    for (r1, c1), (r2, c2) in combinations(points, 2):
        if min(c1, c2) < kappa < max(c1, c2):
            share = (kappa - c2) / (c1 - c2)
            best = max(best, share * r1 + (1 - share) * r2)
    return float(best)


@pytest.mark.parametrize(("states", "actions"), [(1, 3), (2, 2), (3, 2), (2, 3)])
def test_constrained_optimum_equals_brute_force(states: int, actions: int) -> None:
    rng = np.random.default_rng(states)
    cmdp = random_cmdps(rng, 12, states, actions)
    every = [np.eye(actions)[list(choice)] for choice in product(range(actions), repeat=states)]
    tables = [np.broadcast_to(policy, cmdp.reward.shape) for policy in every]
    rewards = np.array([value(cmdp, policy, cmdp.reward) for policy in tables])
    costs = np.array([value(cmdp, policy, cmdp.cost) for policy in tables])
    kappa = costs.min(0) + rng.uniform(0.1, 1.1, 12) * (costs.max(0) - costs.min(0))
    optimum = constrained_optimum(cmdp, kappa)
    scale = cmdp.horizon * np.abs(cmdp.reward).max((1, 2))
    expected = [best_by_brute_force(rewards[:, i], costs[:, i], kappa[i]) for i in range(12)]
    np.testing.assert_allclose(value(cmdp, optimum, cmdp.reward) / scale, expected / scale, atol=1e-7)
    assert np.all(value(cmdp, optimum, cmdp.cost) <= kappa + 1e-7 * cmdp.horizon * cmdp.cost.max((1, 2)))
    greedy = unconstrained_optimum(cmdp, cmdp.reward)
    np.testing.assert_allclose(value(cmdp, greedy, cmdp.reward) / scale, rewards.max(0) / scale, atol=1e-7)


def test_examples_name_their_optimum_rightly() -> None:
    for case in examples.cases():
        if case.kind == "argmax":
            optimum = unconstrained_optimum(case.cmdp, case.cmdp.reward)
        else:
            optimum = constrained_optimum(case.cmdp, case.kappa)
        best, named = (value(case.cmdp, policy, case.cmdp.reward) for policy in (optimum, case.optimum))
        np.testing.assert_allclose(named, best, atol=1e-7)
        if case.kind != "argmax":
            assert value(case.cmdp, case.optimum, case.cmdp.cost) <= case.kappa + 1e-12


def test_a_budget_below_every_policy_is_an_error() -> None:
    cliff = examples.cliff()
    with pytest.raises(ValueError, match="no policy of CMDP 0 keeps its cost within -1"):
        constrained_optimum(cliff.cmdp, np.array([-1.0]))


def test_a_floor_on_every_action_is_a_cmdp_of_its_own() -> None:
    rng = np.random.default_rng(3)
    cmdp = random_cmdps(rng, 3, 3, 2)
    policy, floor = random_policies(rng, cmdp), np.array([0, 0.1, 0.5])
    inside, outside = value(with_floor(cmdp, floor), policy, with_floor(cmdp, floor).reward), floored(policy, floor)
    np.testing.assert_allclose(value(cmdp, outside, cmdp.reward), inside, rtol=1e-9)
    assert np.all(outside.min((1, 2)) >= floor - 1e-12)


@pytest.mark.process
def test_importing_waits_for_nothing_heavy() -> None:
    look = "import sys, lspc.theory; print({'scipy', 'matplotlib', 'jax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
