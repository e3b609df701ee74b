"""The pilot's procedure: by hand, its order, its refusals, and how often it certifies what is false."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lspc.calibration import bounds, pilot
from lspc.calibration.pilot import Claim, Trial
from lspc.data import Dataset
from lspc.errors import UserError

CLAIM = Claim(budget=10.0, bound=50.0, bound_from="stated", confidence=0.9, test=pilot.BETTING)
"""A fifth of the bound: thirteen free episodes prove it."""
FIXED = replace(CLAIM, test=pilot.HOEFFDING_BENTKUS)
"""Eleven free episodes prove it."""


class Plant:
    """Episodes of known cost at each eps, and a book of what was asked for."""

    def __init__(self, cost_of: Callable[[float, int], float]) -> None:
        self._cost_of, self.asked = cost_of, list[tuple[float, int]]()

    def __call__(self, restriction: float, first: int, count: int) -> list[Trial]:
        self.asked += [(restriction, number) for number in range(first, first + count)]
        costs = [self._cost_of(restriction, number) for number in range(first, first + count)]
        return [Trial(cost, 100 * restriction) for cost in costs]


def test_free_episodes_pass_at_the_first_moment_they_can() -> None:
    plant = Plant(lambda eps, number: 0.0)
    first, second = pilot.run_sequence(CLAIM, {1.0: 40, 0.5: 40}, plant)
    assert (first.restriction, second.restriction) == (0.5, 1.0)
    assert first.passed
    assert second.passed
    assert len(first.costs) == len(second.costs) == CLAIM.fewest_episodes() == 13
    assert (first.mean_cost, first.mean_reward, second.mean_reward) == (0.0, 50.0, 100.0)
    assert first.p_value == pytest.approx(1.2**-13)
    assert first.upper_bound <= 10.0
    assert "eps 0.5: mean cost 0 in 13 real episodes; on average at most 10 with 90% confidence" in first.explain(
        CLAIM
    )


def test_no_larger_eps_runs_before_a_smaller_one_has_passed_and_none_after_one_has_failed() -> None:
    plant = Plant(lambda eps, number: 0.0 if eps < 0.7 else 9.5)
    stages = pilot.run_sequence(CLAIM, dict.fromkeys((1.5, 0.2, 0.7, 0.5), 30), plant, batch=4)
    assert [(stage.restriction, stage.passed) for stage in stages] == [(0.2, True), (0.5, True), (0.7, False)]
    order = [restriction for restriction, _ in plant.asked]
    assert order == sorted(order)
    assert 1.5 not in order
    assert [number for eps, number in plant.asked if eps == 0.5] == list(range(16))  # a batch is run as a whole


def test_what_is_plainly_too_costly_is_stopped_early() -> None:
    plant = Plant(lambda eps, number: 40.0)
    (stage,) = pilot.run_sequence(CLAIM, {0.5: 100, 1.0: 100}, plant)
    assert not stage.passed
    assert stage.too_costly
    assert len(stage.costs) <= 4
    assert stage.more is None
    assert "on average above 10 with 90% confidence" in stage.explain(CLAIM)


def test_what_cannot_pass_any_more_is_not_tried_to_the_end() -> None:
    """Costs just below the budget: neither claim is proved, and free episodes would have to follow."""
    plant = Plant(lambda eps, number: 9.5)
    (stage,) = pilot.run_sequence(CLAIM, {0.5: 40}, plant)
    assert not stage.passed
    assert not stage.too_costly
    assert 13 < len(stage.costs) < 40
    free = np.concatenate([np.array(stage.costs) / 50, np.zeros(40 - len(stage.costs))])
    assert bounds.betting_p_value(free, 0.2) > 0.1
    assert stage.more is not None
    assert stage.more > 100
    assert f"about {stage.more} more like these would do" in stage.explain(CLAIM)


def test_costs_above_the_budget_have_no_hope() -> None:
    (stage,) = pilot.run_sequence(CLAIM, {0.5: 15}, Plant(lambda eps, number: 10.5))
    assert (stage.passed, stage.too_costly, stage.more) == (False, False, None)
    assert "no number of episodes like these would prove a mean of at most 10" in stage.explain(CLAIM)


def test_a_fixed_number_is_run_to_its_end_and_judged_there() -> None:
    plant = Plant(lambda eps, number: 1.0)
    (stage,) = pilot.run_sequence(FIXED, {0.5: 30}, plant)
    assert stage.passed
    assert len(stage.costs) == 30
    assert stage.p_value == pytest.approx(float(bounds.hoeffding_bentkus_p_value(np.full(30, 0.02), 0.2)))
    assert FIXED.fewest_episodes() == 11
    assert (
        bounds.hoeffding_bentkus_p_value(np.zeros(11), 0.2)
        <= 0.1
        < bounds.hoeffding_bentkus_p_value(np.zeros(10), 0.2)
    )
    (short,) = pilot.run_sequence(FIXED, {0.5: 30}, lambda eps, first, count: plant(eps, first, count)[: 20 - first])
    assert (len(short.costs), short.passed) == (20, False)  # fewer than were promised prove nothing


def test_an_episode_beyond_the_bound_ends_everything() -> None:
    for cost in (50.1, -1.0, math.nan):
        with pytest.raises(
            UserError, match=r"said to be 50 \(stated\): without a true bound there is no certificate"
        ):
            pilot.run_sequence(CLAIM, {0.5: 20}, Plant(lambda eps, number, cost=cost: cost))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"budget": 0.0}, "no number of episodes proves a mean of 0"),
        ({"budget": 50.0}, "above 0 and below 50"),
        ({"budget": math.nan}, "above 0 and below 50"),
        ({"bound": math.inf}, "below inf"),
        ({"confidence": 1.0}, "--confidence must be from 0.5 to below 1"),
        ({"test": "guessing"}, "the test must be betting or hoeffding-bentkus"),
    ],
)
def test_claims_that_make_no_sense_are_refused(changes: dict, told: str) -> None:
    with pytest.raises(UserError, match=told):
        replace(CLAIM, **changes)


def test_logs_are_named_by_eps() -> None:
    assert pilot.parse_logs(["0.5=a.hdf5", "1=b=c.hdf5"]) == {0.5: Path("a.hdf5"), 1.0: Path("b=c.hdf5")}
    for wrong in ("a.hdf5", "x=a.hdf5", "0.5=", "nan=a.hdf5"):
        with pytest.raises(UserError, match="write EPS=FILE"):
            pilot.parse_logs([wrong])
    with pytest.raises(UserError, match="names eps 1 twice"):
        pilot.parse_logs(["1=a", "1.0=b"])


def recorded(costs: list[float], steps: int = 3, *, ended: bool = False) -> Dataset:
    """Episodes of these costs, each paid in its first step."""
    rows = len(costs) * steps
    column, last = np.zeros((rows, 1), np.float32), np.tile(np.arange(steps) == steps - 1, len(costs))
    paid = np.tile(np.arange(steps) == 0, len(costs)) * np.repeat(np.array(costs, np.float32), steps)
    return Dataset(column, column, paid + 1, paid, column, last & ended, last & (not ended))


def test_recorded_episodes_come_in_their_order() -> None:
    tried = pilot.try_logs({0.5: recorded([1.0, 2.0, 4.0]), 1.0: recorded([8.0])}, 3)
    assert [trial.cost for trial in tried(0.5, 0, 2)] == [1.0, 2.0]
    assert tried(0.5, 2, 5) == [Trial(4.0, 7.0)]
    assert tried(1.0, 1, 5) == []


def test_an_episode_that_was_cut_is_refused_and_one_that_ended_is_not() -> None:
    cut = r"2 of 2 episodes were cut before the 3 steps of a whole one \(the first, episode 0, after 2\)"
    with pytest.raises(UserError, match=cut):
        pilot.try_logs({0.5: recorded([1.0]), 1.0: recorded([1.0, 1.0], steps=2)}, 3)
    assert pilot.try_logs({0.5: recorded([1.0]), 1.0: recorded([1.0], steps=2, ended=True)}, 3)(1.0, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("means", [(0.21, 0.3, 0.5), (0.1, 0.205, 0.05), (0.02, 0.05, 0.2001)])
@pytest.mark.parametrize("claim", [CLAIM, FIXED])
def test_the_whole_procedure_certifies_what_is_false_rarely_enough(means: tuple, claim: Claim) -> None:
    """Three eps of all-or-nothing episodes, with an unsafe one in each place; looks after every eighth episode."""
    runs, delta, wrong = 200, 0.1, 0
    rng = np.random.default_rng(5)
    for _ in range(runs):
        drawn = dict(zip((0.5, 1.0, 1.5), (rng.random((3, 40)) < np.array(means)[:, None]) * 50.0, strict=True))

        def look_up(restriction: float, first: int, count: int, drawn: dict = drawn) -> list[Trial]:
            return [Trial(float(cost), 0.0) for cost in drawn[restriction][first : first + count]]

        stages = pilot.run_sequence(claim, dict.fromkeys(drawn, 40), look_up, batch=8)
        passed = [stage.passed for stage in stages]
        wrong += any(ok and mean > 0.2 for ok, mean in zip(passed, means, strict=False))
    assert wrong / runs <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)


@pytest.mark.slow
def test_what_is_safe_is_usually_certified() -> None:
    rng, passed = np.random.default_rng(6), 0
    for _ in range(100):
        costs = (rng.beta(1, 19, (3, 60)) * 50).tolist()  # a mean of 2.5
        stages = pilot.run_sequence(
            CLAIM,
            {0.0: 60, 1.0: 60, 2.0: 60},
            lambda eps, first, count, own=costs: [Trial(cost, 0.0) for cost in own[int(eps)][first : first + count]],
            batch=5,
        )
        passed += len(stages) == 3 and stages[-1].passed
    assert passed >= 97
