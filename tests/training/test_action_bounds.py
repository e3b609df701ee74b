"""Actions in the plant's units, end to end: the same policy is learned whatever they are, and it answers in them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers.calibrated import SMALL_DYNAMICS, SMALL_FITTED_Q, add_calibration
from helpers.data import small_dataset
from helpers.exported import leave_run, open_session
from helpers.methods import small

from lspc import algos, training
from lspc.acting import Seen
from lspc.calibration import calibrate_policy
from lspc.data import Bounds, Dataset, save
from lspc.deploy.export import export
from lspc.errors import UserError
from lspc.policy import load_policy
from lspc.runs import Run
from lspc.tasks import get_task

SEEN = np.random.default_rng(1).normal(size=(64, 7)).astype(np.float32)
BOUNDS = Bounds.of([(0, 100), (-4, 12)])


def unit_data() -> Dataset:
    """Actions in steps of 1/64, so that mapping them to other units and back rounds nothing."""
    dataset = small_dataset()
    return replace(dataset, actions=(np.round(dataset.actions * 64) / 64).astype(np.float32))


def plant_data() -> Dataset:
    dataset = unit_data()
    return replace(dataset, actions=BOUNDS.to_plant(dataset.actions), action_bounds=BOUNDS)


def train(dataset: Dataset, out: Path, method: str = "lspc", **options: Any) -> Path:
    save(dataset, out.with_suffix(".hdf5"))
    dataset = replace(dataset, source=str(out.with_suffix(".hdf5")))
    config = small(algos.get(method), steps=10)
    return training.train(dataset, out, config, method=method, **options)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run on data in [-1, 1] and one on the same data in other units, each with the same calibration."""
    folder = tmp_path_factory.mktemp("pair")
    runs = train(unit_data(), folder / "unit"), train(plant_data(), folder / "plant")
    for run, dataset in zip(runs, (unit_data(), plant_data()), strict=True):
        add_calibration(run, dataset)
    return runs


def seen(observations: np.ndarray) -> Seen:
    size = len(observations)
    zeros, lanes = np.zeros(size, np.float32), np.arange(size)
    return Seen(observations, 1_000_000 + lanes, np.zeros(size, np.int64), zeros, zeros, lanes)


def test_the_same_weights_are_learned_in_any_units(pair: tuple[Path, Path]) -> None:
    weights = [(run / "policy" / "seed-0" / "weights.safetensors").read_bytes() for run in pair]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("variant", ["LSPC-O", "LSPC-S", "CVAE"])
def test_a_policy_answers_in_the_units_of_its_data(pair: tuple[Path, Path], variant: str) -> None:
    unit, plant = (load_policy(run, variant=variant) for run in pair)
    np.testing.assert_array_equal(plant.act(SEEN), BOUNDS.to_plant(unit.act(SEEN)))
    drawn = [policy.act(SEEN, np.random.default_rng(0)) for policy in (unit, plant)]
    np.testing.assert_array_equal(drawn[1], BOUNDS.to_plant(drawn[0]))
    in_pool = [policy.for_episodes(sampled=True)(seen(SEEN)) for policy in (unit, plant)]
    np.testing.assert_array_equal(in_pool[1], BOUNDS.to_plant(in_pool[0]))
    assert np.ptp(plant.act(SEEN), axis=0).min() > 0.01


def test_the_guard_answers_in_the_same_units(pair: tuple[Path, Path]) -> None:
    unit, plant = (load_policy(run).guard for run in pair)
    acts = [guard.act(SEEN, budget_left=12.5, steps_left=50) for guard in (unit, plant)]
    np.testing.assert_array_equal(acts[1], BOUNDS.to_plant(acts[0]))
    in_pool = [guard.for_episodes(12.5)(seen(SEEN)) for guard in (unit, plant)]
    np.testing.assert_array_equal(in_pool[1], BOUNDS.to_plant(in_pool[0]))
    assert unit.interventions == plant.interventions


def test_the_exported_graph_scales_inside(pair: tuple[Path, Path], tmp_path: Path) -> None:
    policy, outputs = load_policy(pair[1]), ["action", "safe_action", "cost", "safe_reward"]
    files = [export(run, tmp_path / f"{name}.onnx") for run, name in zip(pair, ("unit", "plant"), strict=True)]
    asked = {"observation": SEEN, "judge": np.array(True)}
    unit, plant = (open_session(model).run(outputs, asked) for model, _ in files)
    np.testing.assert_allclose(np.asarray(plant[0]), policy.act(SEEN), rtol=1e-5, atol=1e-5 * 100)
    np.testing.assert_allclose(
        np.asarray(plant[1]), load_policy(pair[1], variant="LSPC-S").act(SEEN), rtol=1e-5, atol=1e-3
    )
    for number in (2, 3):  # the critics are asked about actions as they know them
        np.testing.assert_allclose(np.asarray(plant[number]), np.asarray(unit[number]), rtol=1e-5)
    facts = {fact.key: fact.value for fact in onnx.load(files[1][0]).metadata_props}
    assert (json.loads(facts["action_low"]), json.loads(facts["action_high"])) == ([0, -4], [100, 12])
    assert "within [0, 100] x [-4, 12], in the data's units" in files[1][1].read_text()


@pytest.mark.parametrize("method", ["bc", "bcq_lag", "cpq", "fisor"])
def test_every_kind_of_graph_scales(tmp_path: Path, method: str) -> None:
    run = leave_run(tmp_path / "run", method, plant_data())
    model, _ = export(run, tmp_path / "policy.onnx")
    [action] = open_session(model).run(["action"], {"observation": SEEN})
    np.testing.assert_allclose(np.asarray(action), load_policy(run).act(SEEN), rtol=1e-5, atol=1e-3)


def test_a_policy_that_remembers_answers_in_units_too(tmp_path: Path) -> None:
    runs = [train(data, tmp_path / name, "cdt") for name, data in (("u", unit_data()), ("p", plant_data()))]
    acts = [load_policy(run).for_episodes(sampled=False) for run in runs]
    for _ in range(2):
        unit, plant = (act(seen(SEEN)) for act in acts)
        np.testing.assert_array_equal(plant, BOUNDS.to_plant(unit))


@pytest.mark.slow
def test_a_calibration_does_not_depend_on_the_units(pair: tuple[Path, Path]) -> None:
    found = [
        calibrate_policy(load_policy(run), data, dynamics_config=SMALL_DYNAMICS, fitted_q_config=SMALL_FITTED_Q)
        for run, data in zip(pair, (unit_data(), plant_data()), strict=True)
    ]
    assert found[0].curve == found[1].curve
    assert found[0].replays == found[1].replays
    assert found[1].dataset == plant_data().fingerprint
    for run, dataset in zip(pair, (unit_data(), plant_data()), strict=True):
        add_calibration(run, dataset)


def test_a_run_finds_its_data_again_whatever_bounds_the_file_says(tmp_path: Path) -> None:
    wide = replace(plant_data(), action_bounds=Bounds.of([(-10, 110), (-5, 15)]))
    run = Run.open(train(wide, tmp_path / "run"))
    assert run.spec.action_bounds == wide.action_bounds
    save(replace(wide, action_bounds=Bounds()), tmp_path / "run.hdf5")  # it says nothing now
    assert run.require_dataset().fingerprint == wide.fingerprint


def test_a_task_has_actions_in_unit_bounds(tmp_path: Path) -> None:
    task = get_task("BallRun")
    with pytest.raises(UserError, match=r"outside \[-1, 1\] in .* at row 0;"):
        training.fit_to_task(plant_data(), task)
    actions = unit_data().actions.copy()
    actions[::10] *= 2.5  # what a policy drew before the simulator clipped it
    drawn = training.fit_to_task(replace(unit_data(), actions=actions).bound_actions((-2.5, 2.5)), task)
    np.testing.assert_array_equal(drawn.actions, np.clip(actions, -1, 1))
    assert drawn.action_bounds.are_unit
    assert training.fit_to_task(plant_data(), None).action_bounds == BOUNDS
    assert training.fit_to_task(unit_data(), task).fingerprint == unit_data().fingerprint
