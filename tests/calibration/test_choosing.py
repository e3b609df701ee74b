"""The choice of an eps for a budget, by hand: from the smallest upward, and the words for when there is none."""

from dataclasses import replace

import pytest
from helpers.calibrated import made, point

from lspc.errors import UserError
from lspc.runs.statistics import Interval


@pytest.mark.parametrize(
    ("budget", "eps"), [(12.0, 0.5), (11.99, 0.02), (17.0, 0.5), (18.0, 1.0), (60.0, 2.0), (1e6, 2.0)]
)
def test_of_the_eps_that_fit_the_one_that_earns_most_is_chosen(budget: float, eps: float) -> None:
    choice = made().choose(budget)
    assert choice.restriction == eps
    assert choice.cost is not None
    assert choice.cost.high <= budget
    assert choice.cost == next(p.cost for p in made().curve if p.restriction == eps)
    assert f"eps {eps:g}: cost estimated from logs {choice.cost.mean:g}" in choice.why
    assert ("the largest eps there is" in choice.why) == (eps == 2.0)


def test_nothing_beyond_the_first_that_does_not_fit_is_chosen() -> None:
    curve = tuple(point(eps, high) for eps, high in ((0.02, 5.0), (0.5, 8.0), (1.0, 15.0), (2.0, 10.0)))
    assert made(curve=curve).choose(12.0).restriction == 0.5
    assert made(curve=curve).choose(15.0).restriction == 2.0
    assert made(curve=curve[1:]).choose(7.0).restriction is None
    assert "the smallest, eps 0.5, may cost 8" in made(curve=curve[1:]).choose(7.0).why


def test_a_larger_eps_that_earns_less_is_left_alone() -> None:
    curve = list(made().curve)
    curve[1] = replace(curve[1], reward=Interval(500.0, 450.0, 550.0))
    choice = made(curve=tuple(curve)).choose(20.0)
    assert choice.restriction == 0.5
    assert "eps up to 1 fit, and are predicted to earn less" in choice.why


def test_when_no_eps_fits_it_says_so_and_how_far_off_it_is() -> None:
    choice = made().choose(5.9)
    assert (choice.restriction, choice.cost, choice.reward) == (None, None, None)
    assert "no eps fits: the smallest, eps 0.02, may cost 6 (estimated 3)" in choice.why


def test_data_without_episodes_near_the_budget_cannot_tell() -> None:
    """Nine cheap episodes among many costly ones, whatever the curve says."""
    cheap, costly = [1.0] * 9, [500.0] * 91
    choice = made(episode_costs=(*cheap, *costly)).choose(20.0)
    assert choice.restriction is None
    assert "the data cannot tell: only 9 of 100 episodes cost about 20 or less (10 are needed)" in choice.why
    assert made(episode_costs=(*cheap, 1.0, *costly)).choose(20.0).restriction == 1.0
    assert made(episode_costs=(*cheap, *costly)).choose(1e4).restriction == 2.0


def test_models_that_are_in_doubt_choose_nothing_for_any_budget() -> None:
    choice = made(doubt="the models know nothing").choose(1e6)
    assert (choice.restriction, choice.why) == (None, "the models know nothing")


@pytest.mark.parametrize("budget", [-0.1, float("nan"), float("inf"), float("-inf")])
def test_a_budget_that_makes_no_sense_is_refused(budget: float) -> None:
    with pytest.raises(UserError, match="a budget must be a number of 0 or more, not"):
        made().choose(budget)


def test_a_risk_is_judged_by_the_cost_that_few_episodes_exceed() -> None:
    """The mean fits 12 up to eps 0.5; one episode in twenty may cost more than 12 at eps 0.5 already."""
    tails = {0.02: 8.0, 0.5: 14.0, 1.0: 30.0, 2.0: 60.0}
    curve = tuple(
        replace(each, tails={"0.01": 2 * tails[each.restriction], "0.05": tails[each.restriction]})
        for each in made().curve
    )
    found = made(curve=curve)
    assert found.choose(12.0).restriction == 0.5
    assert found.choose(12.0, risk=0.05).restriction == 0.02
    assert found.choose(14.0, risk=0.07).restriction == 0.5  # 5 % is the next below
    choice = found.choose(12.0, risk=0.01)
    assert choice.restriction is None
    assert "may cost 16 in more than 1% of episodes" in choice.why
    assert "cost more than 8 in 5% of episodes at most" in found.choose(12.0, risk=0.05).why
    for risk in (0.001, 0.6, float("nan")):
        with pytest.raises(UserError, match=r"--risk must be from 0\.01 to 0\.5"):
            found.choose(12.0, risk=risk)
    with pytest.raises(UserError, match="has no figures for single episodes"):
        made().choose(12.0, risk=0.05)


def test_where_the_data_end_so_do_the_eps() -> None:
    curve = list(made().curve)
    curve[2] = replace(curve[2], cost=Interval(9.0, 5.0, 50.0), beyond=True)
    assert "beyond eps 0.5 it leaves what the data show" in made(curve=tuple(curve)).choose(20.0).why
    curve[0] = replace(curve[0], cost=Interval(3.0, 2.0, 50.0), beyond=True)
    refused = made(curve=tuple(curve)).choose(60.0)  # above any cost that was seen, and yet
    assert refused.restriction is None
    assert "may cost anything, as it leaves what the data show" in refused.why
