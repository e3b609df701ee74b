"""Policies of several runs judged by the same models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.calibrated import SMALL_DYNAMICS, finished_run
from helpers.data import small_dataset

from lspc import algos, api, training
from lspc.calibration import comparing
from lspc.calibration.choosing import Estimate
from lspc.calibration.comparing import choose_policy, estimate_policies, mark_fitting
from lspc.calibration.families import PolicyFamily
from lspc.calibration.pipeline import OffPolicyEvaluator, fit_evaluator
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import load_policy
from lspc.runs.statistics import Interval

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """LSPC, a clone, and a sequence model that remembers its episode."""
    folder = tmp_path_factory.mktemp("runs")
    made = [finished_run(dataset, folder / "lspc")]
    bc = algos.get("bc").Config(steps=2, batch_size=32, hidden=(8, 8))
    made.append(training.train(dataset, folder / "bc", bc, method="bc"))
    cdt = algos.get("cdt").Config(steps=1, batch_size=8, context=4, width=8, layers=1, heads=2)
    made.append(training.train(dataset, folder / "cdt", cdt, method="cdt"))
    return made


@pytest.fixture(scope="module")
def evaluator(dataset: Dataset) -> OffPolicyEvaluator:
    """Models that have learned next to nothing stray: here they may."""
    return fit_evaluator(dataset, config=SMALL_DYNAMICS)._replace(reach=float("inf"))


def test_every_policy_of_every_method_is_judged(runs: list[Path], evaluator: OffPolicyEvaluator) -> None:
    lspc, bc, cdt = (estimate_policies(evaluator, load_policy(run), run.name) for run in runs)
    assert [each.policy for each in lspc] == ["LSPC-O"] * 21 + ["LSPC-S", "CVAE"]
    assert [each.restriction for each in lspc][:21:20] == [0.02, 2.0]
    assert all(each.restriction is None for each in (*bc, *cdt))
    for each in (*lspc, *bc, *cdt):
        assert 0 <= each.cost.low <= each.cost.mean <= each.cost.high <= 50
        assert not each.beyond
    assert all(each.fits for each in mark_fitting(lspc, 1e6))
    assert len({each.reward.mean for each in (*lspc, *bc, *cdt)}) > 20


class Rising(OffPolicyEvaluator):
    """Says that each eps costs one more than the one before, but for the last, which costs nothing."""

    def estimate(self, family: PolicyFamily, parameters: np.ndarray) -> list[Estimate]:
        costs = [*range(len(parameters) - 1), 0]
        return [Estimate(Interval(c, c, c), Interval(0.0, 0.0, 0.0), {}, beyond=False) for c in map(float, costs)]


def test_eps_count_up_to_the_first_that_does_not_fit(runs: list[Path], evaluator: OffPolicyEvaluator) -> None:
    found = estimate_policies(Rising(*evaluator), load_policy(runs[0]), "lspc")
    assert [each.fits for each in mark_fitting(found, 4.0)[:21]] == [place <= 4 for place in range(21)]
    assert [each.fits for each in mark_fitting(found, 4.0)[21:]] == [
        True,
        True,
    ]  # LSPC-S and CVAE count by themselves


def test_what_leaves_the_data_fits_no_budget(runs: list[Path], evaluator: OffPolicyEvaluator) -> None:
    strict = evaluator._replace(reach=-1.0)
    found = [estimate_policies(strict, load_policy(run), "run") for run in runs[:2]]
    assert not any(each.fits for some in found for each in mark_fitting(some, 1e6))


@pytest.mark.usefixtures("unlimited_reach")
def test_the_best_that_fits_is_chosen(dataset: Dataset, runs: list[Path]) -> None:
    found = choose_policy(runs[:2], 1e6, dataset, updates=20)
    assert found.chosen == max(found.candidates, key=lambda each: each.reward.mean)
    assert "an estimate, best of" in found.why
    assert {each.run for each in found.candidates} == {"lspc", "bc"}


@pytest.mark.parametrize("shares", [(0.2, 0.2), (0.1, 0.2), (0.0, 0.2)])
def test_only_what_is_held_out_from_all_runs_is_held_out(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares: tuple[float, float]
) -> None:
    """Tenths and fifths of the episodes are chosen anew, so that what one run has not seen the other has."""
    settings: dict[str, Any] = {"algo": "bc", "steps": 2, "batch_size": 32, "hidden": (8, 8)}
    made = [
        api.train(dataset, tmp_path / str(number), hold_out=share, **settings) for number, share in enumerate(shares)
    ]
    asked, heard = list[float](), list[str]()

    def hear(*_: Any, held_out: float, **options: Any) -> OffPolicyEvaluator:
        asked.append(held_out)
        raise UserError("no need to go on")

    monkeypatch.setattr(comparing, "fit_evaluator", hear)
    with pytest.raises(UserError, match="no need to go on"):
        choose_policy(made, 10.0, dataset, on_warning=heard.append)
    assert asked == [0.2 if shares == (0.2, 0.2) else 0.0]
    told = [f"held out different shares of the episodes ({shares[0]:g}, {shares[1]:g})"] if asked == [0.0] else []
    assert [known in line and "\n" not in line for line, known in zip(heard, told, strict=True)] == [True] * len(told)


def test_other_data_and_no_runs_are_refused(dataset: Dataset, runs: list[Path], tmp_path: Path) -> None:
    other = finished_run(small_dataset(seed=1), tmp_path / "other")
    with pytest.raises(UserError, match="did not learn from the data of"):
        choose_policy([runs[0], other], 10.0, dataset)
    with pytest.raises(UserError, match="is not the data that the runs learned from"):
        choose_policy([runs[0]], 10.0, small_dataset(seed=1))
    with pytest.raises(UserError, match="a budget must be a number of 0 or more"):
        choose_policy([runs[0]], float("nan"), dataset)
    with pytest.raises(UserError, match="name one run or more"):
        choose_policy([], 10.0, dataset)
