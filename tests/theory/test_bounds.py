"""Each inequality on CMDPs that hypothesis makes up and shrinks; each form that fails, by a counterexample."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lspc.theory import bounds, examples
from lspc.theory.bounds import STATEMENTS, Case, Statement
from lspc.theory.checks import holds, ratio
from lspc.theory.cmdp import CMDP, Array, normalised, value
from lspc.theory.optimum import constrained_optimum


def _whole_numbers(*shape: int, low: int = 0, high: int = 5) -> st.SearchStrategy[Array]:
    return arrays(np.float64, (1, *shape), elements=st.integers(low, high).map(float))


def _chances(*shape: int) -> st.SearchStrategy[Array]:
    return _whole_numbers(*shape).map(normalised)


@st.composite
def made_up_cases(draw: st.DrawFn) -> Case:
    """From whole numbers, so that a failure shrinks to one that can be read."""
    s, a = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    cost = draw(_whole_numbers(s, a))
    cost[0, 0, 0] += 1
    cmdp = CMDP(
        transition=draw(_chances(s, a, s)),
        reward=draw(_whole_numbers(s, a, low=-5)),
        cost=cost,
        discount=np.array([draw(st.sampled_from([0.0, 0.5, 0.9, 0.99]))]),
        initial=draw(_chances(s)),
    )
    behaviour, safe, policy, within = (draw(_chances(s, a)) for _ in range(4))
    # Some policy has this cost, so the budget can be kept.
    kappa = value(cmdp, within, cmdp.cost) + 1e-7
    return Case("near", cmdp, behaviour, safe, policy, constrained_optimum(cmdp, kappa), kappa)


def _negative_rewards() -> Case:
    case = examples.toll(0.4, 0.3)
    return replace(case, cmdp=replace(case.cmdp, reward=case.cmdp.reward - 1))


def _budget_for_all() -> Case:
    road = examples.road()
    return replace(road, kappa=np.array([10.0]), optimum=np.broadcast_to([0.0, 1.0], road.optimum.shape))


COUNTEREXAMPLES = {
    ("Lemma 2", "printed: R_m = max r"): _negative_rewards(),
    ("Lemma 3", "printed, eps' mean in d_b"): examples.door(),
    ("Theorem 2", "printed, pi* = best reward"): examples.toll_without_budget(),
    ("Eq. 17, step", "printed"): examples.door(),
    ("Eq. 17, ends", "printed"): examples.door(),
    ("Eq. 20", "printed: KL(pi_s || pi*)"): examples.toll(0.5, 0.75),
    ("Theorem 3", "LSPC, endless data: no gap"): examples.road(),
    ("Theorem 4", "LSPC, endless data: safe"): examples.road(restriction=np.inf),
    ("Remark", "pi_s nearer pi* than pi_b"): _budget_for_all(),
    ("Remark", "pi_s nearer pi than pi_b"): examples.road(restriction=np.inf),
}
NAMED = {(s.name, s.form): s for s in STATEMENTS}
SOUND = [s for key, s in NAMED.items() if key not in COUNTEREXAMPLES]


def test_every_statement_has_a_name_of_its_own() -> None:
    assert len(NAMED) == len(STATEMENTS)
    assert len(SOUND) == len(STATEMENTS) - len(COUNTEREXAMPLES)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=100)
@given(case=made_up_cases())
def test_all_others_hold(case: Case) -> None:
    """At once: making a case up takes longer than trying every statement on it."""

    def fails(statement: Statement) -> bool:
        gap = statement.gap(case)
        return bool(np.isnan(gap.left + gap.bound).any() or not holds(gap).all())

    assert [(each.name, each.form) for each in SOUND if fails(each)] == []


@pytest.mark.parametrize("key", COUNTEREXAMPLES, ids=", ".join)
def test_it_fails(key: tuple[str, str]) -> None:
    gap = NAMED[key].gap(COUNTEREXAMPLES[key])
    assert not holds(gap).any()
    assert np.all(ratio(gap) > 1)


def test_the_door_by_hand() -> None:
    """gamma = 1/2; the data open the door once in 15 steps and so are behind it for 1/16 of the time, pi* for 1/2."""
    door = examples.door()
    np.testing.assert_allclose(door.in_data, [[15 / 16, 1 / 16]])
    np.testing.assert_allclose(door.at_optimum, [[1 / 2, 1 / 2]])
    np.testing.assert_allclose(bounds.concentrability(door), 8)
    step = bounds.equation_17_step(door)
    np.testing.assert_allclose([step.left, step.bound], [[1 / 4], [1 / 32]])
    ends = bounds.equation_17(door)
    np.testing.assert_allclose([ends.left, ends.bound], [[1 / 2], [1 / 4]])
    np.testing.assert_allclose(bounds.equation_17(door, bounds.transferred_distance).bound, 2)
    # The cost is over the budget by more than the printed step would allow, too.
    np.testing.assert_allclose(bounds.theorem_2(door).left, 1 / 2)
    np.testing.assert_allclose(bounds.where_data_are(door), np.sqrt(np.log(2) / 32))


def test_a_state_outside_the_data_makes_the_corrected_bound_infinite() -> None:
    shut = examples.door(opened=0)
    assert bounds.equation_17(shut).bound == 0
    assert bounds.equation_17(shut, bounds.transferred_distance).bound == np.inf


def test_the_constants_cannot_be_smaller() -> None:
    cliff, coin = examples.cliff(), examples.toll(0.499, 0.498)
    assert ratio(bounds.lemma_1(cliff))[0] > 0.999
    assert ratio(bounds.lemma_2(cliff))[0] > 0.999
    assert ratio(bounds.lemma_4(cliff, bounds.half_range))[0] > 0.999
    assert ratio(bounds.lemma_3(coin))[0] > 0.999


def test_kl_to_a_deterministic_optimum_is_infinite_and_total_variation_is_not() -> None:
    cliff = examples.cliff()
    assert bounds.at_worst_state(cliff) == np.inf
    assert bounds.theorem_2(cliff).bound == np.inf
    np.testing.assert_allclose(bounds.by_total_variation(cliff), 1e-4)
