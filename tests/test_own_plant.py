"""docs/own-plant.md as it stands: a plant is recorded, learned from and measured, in Python and by the verbs."""

import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cli import TINY, Cli

import lspc
from lspc.runs import Run, layout

ROOT = Path(__file__).parents[1]
SMALL = "steps=300, hidden=(32, 32), latent_dim=4, batch_size=64"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Path, dict[str, Any]]]:
    """The page's Python in a folder of its own, with small networks and without workers, which tests/sims has."""
    folder, names = tmp_path_factory.mktemp("plant"), {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own-plant.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 3
    text = "".join(blocks).replace("episodes=5)", "episodes=5, workers=0)").replace("steps=1000", SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(ROOT / "examples")
        exec(compile(text, "own-plant.md", "exec"), names)
        yield folder, names
    sys.modules.pop("heated_tank", None)


@pytest.mark.learning
def test_the_page_runs_and_the_policy_works_the_valve(plant: tuple[Path, dict[str, Any]]) -> None:
    folder, names = plant
    assert str(names["dataset"].action_bounds) == "[0, 100]"
    assert len(names["dataset"].episodes) == 60
    valves = names["policy"].act(names["dataset"].observations[::50])
    assert np.ptp(valves) > 10  # it answers in per cent, not 1.0 everywhere
    assert 0 <= valves.min() <= valves.max() <= 100
    records = Run.open(folder / "runs" / "tank").records()
    assert {record.task for record in records} == {"heated_tank:HeatedTank"}
    assert {record.length for record in records} == {60}
    row = names["row"]
    assert list(row.over_budget) == [2, 5]
    careful = [r for r in records if (r.policy, r.mode) == ("LSPC-S", "deterministic")]
    logged = names["dataset"].cost_returns.mean()
    assert np.mean([r.cost_return for r in careful]) < logged


@pytest.mark.learning
def test_the_verbs_take_the_environment_and_remember_budgets(
    plant: tuple[Path, dict[str, Any]], cli: Cli, tmp_path: Path
) -> None:
    run = plant[0] / "runs" / "tank"
    options = ["--policies", "LSPC-S", "--actions", "deterministic", "--episodes", "2", "--workers", "0"]
    told = cli("evaluate", run, "--on", "heated_tank:HeatedTank", "--budgets", "3", *options)
    assert told.returncode == 0, told.stderr
    assert "@3" in told.stdout
    assert "reward as it is" in told.stdout
    assert Run.open(run).budgets(None) == (3.0,)
    again = cli("evaluate", run, "--on", "heated_tank:HeatedTank", *options)
    assert "@3" in again.stdout
    filmed = cli("render", run, "--on", "heated_tank:HeatedTank", "--episodes", "1", "--horizon", "9", "--out",
                 tmp_path / "tank.gif")  # fmt: skip
    assert filmed.returncode == 0, filmed.stderr
    assert (tmp_path / "tank.gif").stat().st_size > 0
    page = cli("report", run, "--out", tmp_path / "page.html")
    assert page.returncode == 0, page.stderr
    assert re.search(r'"thresholds": ?\[3(\.0)?\]', (tmp_path / "page.html").read_text(encoding="utf-8"))


@pytest.mark.learning
@pytest.mark.parametrize(
    ("on", "told"),
    [
        (("nowhere:make",), "there is no module nowhere"),
        (("heated_tank:HeatedTank", "--cost-key", "heat"), "info has no 'heat' (it holds cost)"),
        (("gym:Pendulum-v1",), "has observations of size 3, the policy was trained on 2"),
        ((), "was not trained for a task: add --on TASK"),
    ],
)
def test_what_is_wrong_with_an_environment_is_one_line(
    plant: tuple[Path, dict[str, Any]], cli: Cli, on: tuple[str, ...], told: str
) -> None:
    refused = cli("evaluate", plant[0] / "runs" / "tank", *(["--on", *on] if on else []), "--workers", "0")
    assert refused.returncode == 1
    [line] = [line for line in refused.stderr.splitlines() if line.startswith("lspc: ")]
    assert told in line
    assert "Traceback" not in refused.stderr


@pytest.mark.learning
def test_a_function_that_no_process_can_import_runs_here(plant: tuple[Path, dict[str, Any]]) -> None:
    tank = plant[1]["HeatedTank"]
    options: dict[str, Any] = {"variants": ("LSPC-S",), "modes": ("deterministic",), "episodes": 1, "horizon": 5}
    rows = lspc.evaluate(plant[0] / "runs" / "tank", on=lambda: tank(), **options)
    assert [row.policy for row in rows] == ["data", "LSPC-S"]
    lengths = {r.length for r in Run.open(plant[0] / "runs" / "tank").records() if "lambda" in r.task}
    assert lengths == {5}


@pytest.mark.learning
def test_training_on_own_data_proposes_calibration(
    plant: tuple[Path, dict[str, Any]], cli: Cli, tmp_path: Path
) -> None:
    data = ["--data", plant[0] / "tank.hdf5"]
    told = cli("train", *data, *TINY, "--out", tmp_path / "run")
    assert told.returncode == 0, told.stderr
    assert f"done; next: lspc calibrate {tmp_path / 'run'} --budget COST" in told.stderr
    small = ["--algo", "bc", "--steps", "5", "--batch-size", "8", "--hidden", "8"]
    other = cli("train", *data, *small, "--out", tmp_path / "bc")
    assert f"done; next: lspc evaluate {tmp_path / 'bc'} --on MODULE:CALLABLE" in other.stderr
    narrow = cli("train", *data, *small, "--action-bounds", "0", "40", "--out", tmp_path / "narrow")
    assert narrow.returncode == 1
    assert "outside [0, 40]" in narrow.stderr
    assert not layout.is_run(tmp_path / "narrow")
