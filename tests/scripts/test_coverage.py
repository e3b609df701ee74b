"""The coverage of the calibration on random plants: how a choice is judged, by hand, and what plants are made of."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from helpers.calibrated import made, point

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Under another name: there is a package that is called coverage."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    spec = importlib.util.spec_from_file_location("coverage_of_plants", ROOT / "scripts" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_choice_is_judged_by_the_truth(script: ModuleType) -> None:
    """The bound of share x is 20 x; truly it costs 30 x and earns 10 x: 0.25 is chosen for 5, and costs 7.5."""
    found = made(curve=tuple(point(float(share), float(20 * share)) for share in script.GRID))
    truth = np.stack([10 * script.GRID, 30 * script.GRID], axis=-1)[:, None].repeat(4, axis=1)
    judged = script.check_choice(found, truth, 5.0, None, lowest=0.0)
    assert (judged["chosen"], judged["best"], judged["kept"], judged["contested"]) == (5, 3, False, True)
    generous = script.check_choice(found, truth / 3, 5.0, None, lowest=0.0)
    assert (generous["chosen"], generous["best"], generous["kept"], generous["lost"]) == (5, 10, True, 0.5)
    told = script.row("all", [judged, generous])
    assert told == "| all | 2 | 50% | 50% | 0% | 50% | 50% |"


def test_what_costs_too_much_is_not_certified_and_sets_the_alarm_off(script: ModuleType) -> None:
    truth = np.stack([np.ones((21, 4)), np.full((21, 4), 40.0)], axis=-1)
    rng = np.random.default_rng(0)
    tried = truth.repeat(50, axis=1)
    assert script.run_pilot(tried, 5.0, rng)["passed"] == []
    assert script.run_alarm(tried, 5.0, rng)["needed"] < 20
    free = script.run_pilot(0 * tried, 5.0, rng)
    assert (free["passed"], free["wrong"]) == ([0.0, 0.25, 0.5, 0.75, 1.0], False)


@pytest.mark.learning
def test_plants_are_told_by_their_number(script: ModuleType) -> None:
    plants = script.plants
    first, again, other = (plants.make_plant(number, 0) for number in (3, 3, 7))
    assert first.log.fingerprint == again.log.fingerprint != other.log.fingerprint
    assert first.labels["noise"] == other.labels["noise"] == "heavy"
    assert len(first.log.episodes) == int(first.labels["size"])
    truth = plants.play(first.plant, np.array([0.0, 1.0]), 50, seed=0)
    assert truth[1, :, 1].mean() >= truth[0, :, 1].mean()  # the greedy one costs more
