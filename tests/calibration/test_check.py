"""A calibration against the simulator: truths, coverage and the price of not trying, by hand and once for real."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.calibrated import UPPER, add_calibration, finished_run, made, point
from helpers.made_runs import make_record

from lspc.calibration.check import compare, verify
from lspc.data import Dataset
from lspc.runs import Record, Run, layout
from lspc.tasks import get_task

TASK = replace(get_task("BallRun"), reward_min=0.0, reward_max=200.0)


def records(costs: dict[float, list[float]], rewards: dict[float, float]) -> list[Record]:
    return [make_record(rewards[eps], cost, restriction=eps) for eps, own in costs.items() for cost in own]


def test_the_verdict_by_hand() -> None:
    """Predicted upper bounds 6, 12, 18 and 60; the second eps costs more than was predicted."""
    costs = {0.02: [2.0, 4.0], 0.5: [10.0, 16.0], 1.0: [8.0, 10.0], 2.0: [40.0, 44.0]}
    rewards = {0.02: 2.0, 0.5: 50.0, 1.0: 80.0, 2.0: 250.0}
    found = compare(records(costs, rewards), TASK, made(), [12.0, 20.0, 5.0, 60.0])
    assert found.episodes == 2
    assert [truth.restriction for truth in found.truths] == list(UPPER)
    assert [truth.cost for truth in found.truths] == [3.0, 13.0, 9.0, 42.0]
    assert [truth.cost_inside for truth in found.truths] == [True, False, True, True]  # from a quarter to the whole
    assert [truth.reward_inside for truth in found.truths] == [True, True, False, False]  # 10 % either way of 100 eps
    assert (found.cost_coverage, found.reward_coverage) == (0.75, 0.5)

    twelve, twenty, five, sixty = found.verdicts
    assert (twelve.restriction, twelve.cost, twelve.reward, twelve.kept) == (0.5, 13.0, 50.0, False)
    assert (twelve.best_restriction, twelve.best_reward) == (1.0, 80.0)
    assert twelve.reward_lost == pytest.approx(30 / 80)
    assert (twenty.restriction, twenty.kept, twenty.reward_lost) == (1.0, True, 0.0)
    assert (five.restriction, five.cost, five.kept, five.reward_lost) == (None, None, True, None)
    assert (five.best_restriction, five.best_reward) == (0.02, 2.0)  # what trying would have found
    assert (sixty.restriction, sixty.best_restriction, sixty.reward_lost) == (2.0, 2.0, 0.0)


def test_reward_lost_is_a_share_of_the_normalised_reward() -> None:
    rewards = {0.02: -60.0, 0.5: -50.0, 1.0: 0.0, 2.0: 100.0}
    found = compare(records({eps: [1.0] for eps in UPPER}, rewards), replace(TASK, reward_min=-100.0), made(), [12.0])
    assert found.verdicts[0].reward_lost == pytest.approx(150 / 200)


def test_a_choice_that_earns_more_than_the_best_allowed_has_lost_nothing() -> None:
    """It broke the budget, which is told by `kept`."""
    costs = {0.02: [1.0], 0.5: [20.0], 1.0: [30.0], 2.0: [40.0]}
    (found,) = compare(records(costs, {0.02: 5.0, 0.5: 50.0, 1.0: 60.0, 2.0: 70.0}), TASK, made(), [12.0]).verdicts
    assert (found.kept, found.reward_lost, found.best_restriction) == (False, 0.0, 0.02)


def test_when_nothing_keeps_the_budget_there_is_no_best() -> None:
    (found,) = compare(
        records({eps: [99.0] for eps in UPPER}, dict.fromkeys(UPPER, 1.0)), TASK, made(), [12.0]
    ).verdicts
    assert (found.best_restriction, found.best_reward, found.reward_lost, found.kept) == (None, None, None, False)


@pytest.mark.simulator
def test_every_eps_is_tried_in_the_simulator(dataset: Dataset, tmp_path: Path) -> None:
    run = finished_run(dataset, tmp_path / "run")
    calibration = add_calibration(run, dataset, curve=(point(0.02, 200.0), point(2.0, 300.0)))
    started: list[str] = []
    ended: list[int] = []
    found = verify(
        run, get_task("BallRun"), calibration, [250.0, 400.0], episodes=2, workers=0,
        on_start=lambda what, _: started.append(what), on_episode=lambda: ended.append(1),
    )  # fmt: skip
    assert len(started) == 2
    assert len(ended) == 4
    assert found.episodes == 2
    assert [verdict.restriction for verdict in found.verdicts] == [0.02, 2.0]
    stored = Run.open(run).records(layout.VERIFICATION)
    assert [(r.policy, r.mode, r.restriction) for r in stored] == [
        ("LSPC-O", "deterministic", eps) for eps in (0.02, 0.02, 2.0, 2.0)
    ]
    means = [sum(r.cost_return for r in stored[i : i + 2]) / 2 for i in (0, 2)]
    assert [truth.cost for truth in found.truths] == pytest.approx(means)
    assert not (run / "evaluations.jsonl").exists()  # tables of the run's policies are not mixed with this
