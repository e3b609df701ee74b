"""`lspc calibrate` and `export` on a tiny run."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import TINY, Cli

from lspc import files
from lspc.data import Dataset, save
from lspc.runs import Run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unlimited_reach")]


@pytest.fixture(scope="module")
def calibrated(
    cli: Cli, data_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A tiny run trained over a range of eps, and what calibrating it said."""
    out = tmp_path_factory.mktemp("runs") / "calibrated"
    done = cli("train", "--data", data_file, "--out", out, *TINY)
    assert done.returncode == 0, done.stderr
    done = cli("calibrate", out, "--budget", "1", "1e6", "--updates", "20", "--json")
    return out, done


def test_calibrate_tells_every_budget_its_eps(calibrated: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    out, done = calibrated
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told) == {"choices", "calibration"}
    refused, chosen = told["choices"]
    assert (refused["budget"], refused["restriction"], refused["cost"]) == (1.0, None, None)
    assert "the data cannot tell" in refused["why"]
    best = max(told["calibration"]["curve"], key=lambda point: point["reward"]["mean"])
    assert (chosen["budget"], chosen["restriction"]) == (1e6, best["restriction"])
    assert chosen["cost"]["low"] <= chosen["cost"]["mean"] <= chosen["cost"]["high"]
    eps = [point["restriction"] for point in told["calibration"]["curve"]]
    assert (eps[0], eps[-1]) == (0.02, 2.0)
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG")
    stored = files.read_json(out / "policy" / "seed-0" / "calibration.json")
    assert {name: stored[name] for name in stored if "sha256" not in name} == told["calibration"]


def test_another_budget_uses_the_curve_that_is_there(
    cli: Cli, calibrated: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    run = tmp_path / "moved"
    shutil.copytree(calibrated[0], run)
    description = files.read_json(run / "config.json")
    gone = {**description["dataset"], "source": str(tmp_path / "gone.hdf5")}
    files.write_json(run / "config.json", files.seal({**description, "dataset": gone}))
    done = cli("calibrate", run, "--budget", "2e6", "--updates", "20", "--json")
    assert done.returncode == 0, done.stderr  # the curve needs no data
    assert "using the stored curve: nothing was learned again" in done.stderr
    assert json.loads(done.stdout)["calibration"] == json.loads(calibrated[1].stdout)["calibration"]
    again = cli("calibrate", run, "--budget", "2e6", "--updates", "21")
    assert "gone.hdf5 any more: add --data FILE" in again.stderr.splitlines()[-1]
    curve = run / "policy" / "seed-0" / "calibration.json"
    files.write_json(curve, files.seal({**files.read_json(curve), "lspc_version": "0.1.0"}))
    again = cli("calibrate", run, "--budget", "2e6", "--updates", "20")  # what another version made is made anew
    assert "gone.hdf5 any more: add --data FILE" in again.stderr.splitlines()[-1]
    for wrong in ("-1", "nan"):
        refused = cli("calibrate", run, "--budget", wrong, "--updates", "21")
        assert f"a budget must be a number of 0 or more, not {wrong}" in refused.stderr.splitlines()[-1]


def test_data_without_any_cost_say_so_wherever_they_are_judged(cli: Cli, dataset: Dataset, tmp_path: Path) -> None:
    data, run = tmp_path / "free.hdf5", tmp_path / "run"
    save(replace(dataset, costs=np.zeros_like(dataset.costs)), data)
    assert cli("train", "--data", data, "--out", run, *TINY).returncode == 0
    told = [
        cli(*verb, "--budget", "1", "--updates", "20", columns=400)
        for verb in (["calibrate", run], ["calibrate", run, "--data", data], ["calibrate", run], ["choose", run])
    ]
    assert [each.returncode for each in told] == [0] * 4, told
    steps, episodes = f"{dataset.transitions:,} steps", f"{len(dataset.episodes)} episodes"
    for each, number in zip(told, (steps, steps, episodes, steps), strict=True):
        assert each.stderr.count(f"free.hdf5: costs: NONE of the {number} has a cost above 0") == 1


@pytest.mark.simulator
@pytest.mark.process
def test_calibrate_prints_a_table_that_fits_and_verifies(
    cli: Cli, calibrated: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    picture = tmp_path / "pictures" / "curve.png"
    asked = ("--budget", "10", "20", "40", "--updates", "20", "--verify", "--episodes", "1", "--figure", picture)
    done = cli("calibrate", calibrated[0], *asked)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert "…" not in done.stdout
    words = " ".join(done.stdout.split())
    assert "reward lost" in words
    assert "at most" in words
    assert [line.split()[0] for line in lines if re.match(r" +\d+ ", line)][-3:] == ["10", "20", "40"]
    assert done.stdout.split()[-2:] == ["picture:", str(picture)]
    assert picture.read_bytes().startswith(b"\x89PNG")
    records = files.read_jsonl(calibrated[0] / "verification.jsonl")
    assert len(records) == len({record["restriction"] for record in records}) > 10


def test_pilot_turns_recorded_episodes_into_a_certificate(
    cli: Cli, calibrated: tuple[Path, subprocess.CompletedProcess[str]], dataset: Dataset, tmp_path: Path
) -> None:
    """The data's own episodes stand in: twenty of the cheapest and of the dearest."""
    out, order = calibrated[0], dataset.cost_returns.argsort()
    cheap, dear = tmp_path / "cheap.hdf5", tmp_path / "dear.hdf5"
    save(dataset.select([order[0]] * 20), cheap)
    save(dataset.select([order[-1]] * 20), dear)
    done = cli("pilot", out, "--budget", "10", "--log", f"0.5={cheap}", f"1={dear}")
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "passed" in words
    assert "too costly" in words
    assert "certificate from 20 real episodes at 90%: LSPC-O at eps 0.5 costs at most 10 per episode" in words
    assert max(map(len, done.stdout.splitlines()[:-2])) <= 80
    path = out / "policy" / "seed-0" / "certificate-10.json"
    assert done.stdout.split()[-2:] == ["certificate:", str(path)]
    assert files.read_json(path)["restriction"] == 0.5

    table = tmp_path / "dear.csv"
    save(dataset.select([order[-1]] * 20), table)
    table.write_text(table.read_text().replace("cost", "leak", 1))
    done = cli("pilot", out, "--budget", "10", "--log", f"1={table}", "--columns", "cost=leaks", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["restriction"] is None
    done = cli("pilot", out, "--budget", "10", "--log", "dear.hdf5")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "lspc: --log dear.hdf5: write EPS=FILE, such as 0.5=pilot.hdf5"


def test_export_writes_policy_and_card(
    cli: Cli, calibrated: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    out = calibrated[0]
    done = cli("export", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["policy:", str(out / "policy.onnx"), "card:", str(out / "policy.md")]
    assert "with eps, the restriction, as an input" in (out / "policy.md").read_text()
    done = cli("export", out, "--budget", "1e6", "--out", tmp_path / "new" / "fixed.onnx")
    assert done.returncode == 0, done.stderr
    assert (
        "a mean cost of at most 1e+06 per episode, estimated from logs" in (tmp_path / "new" / "fixed.md").read_text()
    )


def test_calibrate_and_export_refuse_what_they_cannot_do(
    cli: Cli,
    calibrated: tuple[Path, subprocess.CompletedProcess[str]],
    trained: tuple[Path, str],
    dataset: Dataset,
    tmp_path: Path,
) -> None:
    out = calibrated[0]
    other, few, lost = tmp_path / "other.hdf5", tmp_path / "few.hdf5", tmp_path / "lost"
    save(dataset.select(range(1, 20)), other, metadata={"task": "BallRun"})
    description = Run.open(out).describe()
    described = {**description, "dataset": {**description["dataset"], "source": str(tmp_path / "gone.hdf5")}}
    shutil.copytree(out, lost)
    files.write_json(lost / "config.json", files.seal(described))
    nameless = tmp_path / "nameless"
    shutil.copytree(out, nameless)
    files.write_json(nameless / "config.json", files.seal({**description, "task": None}))
    few_run = tmp_path / "few"
    save(dataset.select(range(5)), few, metadata={"task": "BallRun"})
    assert cli("train", "--data", few, "--out", few_run, *TINY).returncode == 0
    cloned = tmp_path / "bc"
    data = description["dataset"]["source"]
    small = ("--hidden", "8", "8", "--batch-size", "32", "--steps", "2")
    assert cli("train", "--data", data, "--out", cloned, "--algo", "bc", *small).returncode == 0
    onnx = tmp_path / "policy.onnx"
    for arguments, told in [
        (["calibrate", out, "--data", other, "--updates", "2"], "is not the data that the policy learned from"),
        (["calibrate", out, "--data", "nowhere.hdf5"], "nowhere.hdf5: there is no such file"),
        (["calibrate", lost], "gone.hdf5 any more: add --data FILE"),
        (["calibrate", nameless, "--verify"], "was not trained for a task: there is no simulator to verify it in"),
        (["calibrate", few_run, "--updates", "2"], "5 episodes cannot support a calibration; 20 can"),
        (["calibrate", cloned, "--updates", "2"], "only LSPC has an eps to choose, and this is a policy of bc"),
        (["calibrate", out, "--seed", "4"], "has no seed 4: it has 0"),
        (["export", trained[0], "--budget", "10", "--out", onnx], "has no calibration: run `lspc calibrate`"),
        (["export", out, "--budget", "1", "--out", onnx], "budget 1: the data cannot tell"),
        (["export", out, "--budget", "-1", "--out", onnx], "a budget must be a number of 0 or more, not -1"),
        (["export", cloned, "--budget", "9", "--out", onnx], "a policy of bc has none to fix; export it without one"),
    ]:
        done = cli(*arguments)
        assert done.returncode == 1, arguments
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith("lspc: ")
        assert told in done.stderr.splitlines()[-1]
        assert done.stdout == ""
    assert not list(tmp_path.glob("policy*"))
