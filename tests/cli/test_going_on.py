"""`lspc train` again in the same folder: foreseen, finished, extended; and what `lspc runs` says of it."""

import json
from pathlib import Path

import pytest
from helpers.cli import Cli, contents

from lspc.runs import Run, layout

SMALL = ("--algo", "bc", "--hidden", "8", "8", "--batch-size", "32")


@pytest.fixture
def short(cli: Cli, data_file: Path, tmp_path: Path) -> Path:
    """A finished run of 300 updates."""
    out = tmp_path / "short"
    done = cli("train", "--data", data_file, "--out", out, *SMALL, "--steps", "300", "--seeds", "0", "1")
    assert done.returncode == 0, done.stderr
    return out


def test_a_dry_run_checks_everything_and_writes_nothing(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    asked = ("train", "--data", data_file, "--out", out, *SMALL, "--steps", "3", "--dry-run")
    done = cli(*asked)
    assert done.returncode == 0, done.stderr
    assert f"{out}: a new run of 3 updates" in done.stdout
    assert "hidden = (8, 8)  (user)" in done.stdout
    assert not out.exists()
    swept = cli(*asked, "--sweep", "learning_rate=0.1,0.2")
    assert [line.partition(":")[0] for line in swept.stdout.splitlines()[-2:]] == [
        f"{out}/learning_rate=0.1", f"{out}/learning_rate=0.2",
    ]  # fmt: skip
    assert cli(*asked, "--batch-size", "0").returncode == 1


def test_a_finished_run_says_so_and_stays_as_it_is(cli: Cli, short: Path, data_file: Path) -> None:
    before = contents(short)
    done = cli("train", "--data", data_file, "--out", short, *SMALL, "--steps", "300", "--seeds", "0", "1")
    assert done.returncode == 0
    assert f"{short}: already finished, with 300 updates; a larger --steps continues it" in done.stderr
    assert contents(short) == before


def test_more_steps_go_on_and_end_where_asking_at_once_ends(
    cli: Cli, short: Path, data_file: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    asked = ("--data", data_file, *SMALL, "--seeds", "0", "1")
    (short / layout.EVALUATIONS).write_text("")
    assert cli("train", "--out", whole, *asked, "--steps", "600").returncode == 0
    told = cli("train", "--out", short, *asked, "--steps", "600", "--dry-run")
    assert f"{short}: continues from update 300 to 600 (it was started with 300)" in told.stdout
    assert Run.open(short).steps == 300
    done = cli("train", "--out", short, *asked, "--steps", "600")
    assert done.returncode == 0, done.stderr
    for seed in (0, 1):
        weights = [layout.policy_folder(run, seed) / layout.WEIGHTS for run in (short, whole)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
    last = [Run.open(run).checkpoint_paths()[-1] for run in (short, whole)]
    assert last[0].read_bytes() == last[1].read_bytes()
    assert Run.open(short).config == Run.open(whole).config
    assert (short / "policy-at-300" / "seed-1" / layout.CARD).exists()
    assert (short / "evaluations-at-300.jsonl").exists()
    assert not (short / layout.EVALUATIONS).exists()
    refused = cli("train", "--out", short, *asked, "--steps", "400")
    assert refused.returncode == 1
    assert "holds another run (steps is 600 there, 400 now)" in refused.stderr.splitlines()[-1]


def test_runs_lists_what_they_are_and_in_what_they_differ(
    cli: Cli, short: Path, data_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    made = cli("train", "--data", data_file, "--out", other, *SMALL, "--steps", "3", "--learning-rate", "0.25")
    assert made.returncode == 0
    done = cli("runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "300/300" in done.stdout
    assert "learning_rate 0.25" in " ".join(done.stdout.split())
    first, second = json.loads(cli("runs", tmp_path, "--json").stdout)
    assert (first["path"], first["differs"]) == (str(other), {"learning_rate": 0.25})
    assert (second["seeds"], second["updates"], second["finished"], second["cost"]) == ([0, 1], 300, True, None)


def test_a_device_that_is_not_there_is_one_line(cli_process: Cli, data_file: Path, tmp_path: Path) -> None:
    """In a process of its own, where JAX has not chosen a device yet."""
    done = cli_process("train", "--data", data_file, "--out", tmp_path / "run", *SMALL, "--device", "tpu")
    assert done.returncode == 1
    told = "lspc: --device tpu: JAX finds none on this machine; `lspc doctor` shows what it finds"
    assert done.stderr.splitlines() == [told]
    assert not (tmp_path / "run").exists()
