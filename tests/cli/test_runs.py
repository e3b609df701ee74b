"""`lspc train`, `evaluate`, `render` and `figure` on a tiny run."""

import json
from pathlib import Path

import pytest
from helpers.cli import TINY, Cli

from lspc import files, sims
from lspc.cli.train import _next_command
from lspc.runs import Run
from lspc.tasks import get_task


def test_train_says_where_each_setting_came_from(trained: tuple[Path, str]) -> None:
    out, said = trained
    assert "  steps = 10  (user)" in said
    assert "  restriction = 0.6  (task BallRun)" in said
    assert "  scale_signals = False  (preset paper)" in said
    assert "done; next: lspc evaluate" in said
    described = Run.open(out)
    assert described.task == "BallRun"
    assert described.seeds == (0, 2)
    assert described.provenance["latent_dim"] == "user"


@pytest.mark.parametrize(
    ("algo", "task", "installed", "expected"),
    [
        ("lspc", "BallRun", True, "lspc evaluate a b"),
        ("lspc", "BallRun", False, "lspc calibrate a --budget COST"),
        ("lspc", None, True, "lspc calibrate a --budget COST"),
        ("bc", None, True, "lspc evaluate a b --on MODULE:CALLABLE"),
    ],
)
def test_what_train_proposes_next_works_here(
    algo: str, task: str | None, installed: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sims, "is_installed", lambda task: installed)
    assert _next_command(algo, get_task(task) if task else None, [Path("a"), Path("b")]) == expected


@pytest.mark.simulator
def test_evaluate_prints_the_table_and_json(cli: Cli, trained: tuple[Path, str]) -> None:
    out, _ = trained
    done = cli("evaluate", out, "--episodes", "2", "--actions", "deterministic", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["policy"] for row in rows] == ["data", "LSPC-O", "LSPC-S", "CVAE"]
    assert all(set(row["cost"]) == {"10", "20", "40"} for row in rows)
    assert [row["episodes"] for row in rows] == [20, 4, 4, 4]
    assert rows[0]["reached"]["10"] is not None
    assert len(files.read_jsonl(out / "evaluations.jsonl")) == 12
    table = cli("evaluate", out, "--episodes", "1", "--policies", "LSPC-S", "--actions", "sampled", "--workers", "0")
    assert table.returncode == 0
    lines = table.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in table.stdout
    assert [line.split()[0] for line in lines if line.startswith((" data", " LSPC", " sampled"))] == [
        "data", "LSPC-S", "sampled",
    ]  # fmt: skip
    assert len(files.read_jsonl(out / "evaluations.jsonl")) == 14


@pytest.mark.simulator
def test_a_policy_is_measured_on_another_task_and_filmed(cli: Cli, trained: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = trained
    few = ("--episodes", "1", "--policies", "LSPC-O", "--actions", "deterministic")
    done = cli("evaluate", out, "--on", "BallRun", "CarRun", *few, "--json")
    assert done.returncode == 0, done.stderr
    tables = json.loads(done.stdout)
    assert [row["policy"] for row in tables["BallRun"]] == ["data", "LSPC-O"]
    assert [row["policy"] for row in tables["CarRun"]] == ["LSPC-O"]  # the data says nothing about another task
    records = files.read_jsonl(out / "evaluations.jsonl")
    assert {(r["task"], r["trained_on"]) for r in records} >= {("BallRun", "BallRun"), ("CarRun", "BallRun")}

    picture = tmp_path / "transfer.png"
    done = cli("figure", "transfer", out, "--out", picture)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["picture:", str(picture)]
    assert picture.read_bytes().startswith(b"\x89PNG")

    clip = tmp_path / "clip.gif"
    done = cli("render", out, "--episodes", "1", "--policy", "LSPC-S", "--seed", "2", "--out", clip)
    assert done.returncode == 0, done.stderr
    assert clip.read_bytes().startswith(b"GIF89a")


@pytest.mark.simulator
def test_figures_and_clips_refuse_what_they_cannot_do(cli: Cli, trained: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = trained
    cli("evaluate", out, "--episodes", "1", "--policies", "LSPC-S", "--actions", "deterministic", "--workers", "0")
    bare = tmp_path / "bare"
    files.write_json(bare / "config.json", files.seal(Run.open(out).describe()))
    for arguments, told in [
        (["figure", "transfer"], "transfer was given 0 runs; the command is: lspc figure transfer RUN ..."),
        (["figure", "transfer", bare], "has no evaluations.jsonl: measure it first"),
        (["figure", "transfer", out, "--policy", "BC"], "holds nothing about BC"),
        (["render", out, "--out", "clip.avi"], "clip.avi: give it a name that ends in .gif or .mp4"),
        (["render", out, "--on", "PointGoal1"], "observations of size 7, PointGoal1 has 60"),
        (["render", out, "--episodes", "0"], "a clip needs 1 episode or more, not 0"),
    ]:
        done = cli(*arguments)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert told in done.stderr.splitlines()[-1]


def test_evaluate_refuses_what_it_cannot_do(cli: Cli, trained: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = trained
    half = tmp_path / "half"
    files.write_json(half / "config.json", files.seal(Run.open(out).describe()))
    other = tmp_path / "other"
    files.write_json(other / "config.json", files.seal({**Run.open(out).describe(), "task": "CarRun"}))
    for arguments, told in [
        ([half], "training has not finished"),
        ([out, other], "was trained for CarRun"),
        ([out, "--policies", "BC"], "has no policy 'BC': choose one of LSPC-O, LSPC-S, CVAE"),
        ([out, "--on", "BallCircle"], "observations of size 7, BallCircle has 8"),
        ([out, "--on", "PointGoal1"], "observations of size 7"),
    ]:
        done = cli("evaluate", *arguments)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert told in done.stderr.splitlines()[-1]
    assert cli("evaluate", out, "--actions", "guessed").returncode == 2


def test_a_folder_with_another_run_is_refused(cli: Cli, trained: tuple[Path, str], data_file: Path) -> None:
    done = cli("train", "--data", data_file, "--out", trained[0], "--seeds", "0", "2", *TINY)
    assert done.returncode == 1
    assert "holds another run" in done.stderr.splitlines()[-1]
