"""What every verb takes before its own parser: --config and --quiet."""

from pathlib import Path

import pytest
from helpers.cli import Cli

from lspc.cli.arguments import take_common
from lspc.cli.options import settle_switches
from lspc.errors import UserError
from lspc.runs import Run


def test_the_files_options_come_before_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'steps = 500\nhidden = [8, 8]\nscale_signals = false\nsearch = 0.5\ndry_run = true\ndata = "a b.csv"\n'
    )
    options = ["--steps", "500", "--hidden", "8", "8", "--no-scale-signals", "--search", "0.5", "--dry-run"]
    options += ["--data", "a b.csv"]
    assert take_common(["--out", "here", "--config", str(file)]) == ([*options, "--out", "here"], False)
    assert take_common([f"--config={file}", "--quiet", "--steps", "5"]) == ([*options, "--steps", "5"], True)
    assert take_common(["runs/a", "--config", str(file), "--json"]).rest == ["runs/a", *options, "--json"]
    assert take_common(["a", "b"]) == (["a", "b"], False)


def test_what_a_file_turns_off_is_off(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "options.toml"
    file.write_text("json = false\n")
    assert "what it is" in cli("algos", "--config", file).stdout
    assert cli("algos", "--config", file, "--json").stdout.startswith("[")
    file.write_text("json = true\n")
    assert "what it is" in cli("algos", "--config", file, "--no-json").stdout
    file.write_text(f'data = "{data_file}"\ndrop_missing = false\ncontinuous = false\nscale_signals = false\n')
    told = cli("train", "--config", file, "--dry-run")
    assert told.returncode == 0, told.stderr
    assert "scale_signals = False  (user)" in told.stdout
    file.write_text("jsn = false\n")
    assert cli("algos", "--config", file).returncode == 2


def test_the_last_word_on_a_switch_counts() -> None:
    assert settle_switches("algos", ["--json", "--no-json", "--no-jsn"]) == ["--no-jsn"]
    assert settle_switches("algos", ["--no-json", "--json"]) == ["--json"]
    assert settle_switches("report", ["a", "--no-film", "--no-no-film"]) == ["a"]
    assert settle_switches("report", ["a", "--no-film"]) == ["a", "--no-film"]
    assert settle_switches("train", ["--no-scale-signals", "--no-offline"]) == ["--no-scale-signals"]


@pytest.mark.parametrize(
    ("text", "told"), [("steps = ", "not TOML"), ("[train]\nsteps = 5\n", "train is a table; write every option")]
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(UserError, match=rf"run\.toml: {told}"):
        take_common(["--config", str(tmp_path / "run.toml")])


def test_a_run_from_a_file_and_a_misspelt_option_in_it(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(f'data = "{data_file}"\nhidden = [8, 8]\nlatent_dim = 4\nbatch_size = 32\nsteps = 10\n')
    told = cli("train", "--config", file, "--steps", "5", "--dry-run")
    assert told.returncode == 0, told.stderr
    assert "runs/latest: a new run of 5 updates" in told.stdout.splitlines()[-1]
    file.write_text("stepps = 10\n")
    refused = cli("train", "--config", file)
    assert refused.returncode == 2
    assert "stepps" in refused.stderr + refused.stdout


def test_quiet_leaves_results_warnings_and_errors(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    small = ("--algo", "bc", "--hidden", "8", "8", "--batch-size", "32", "--steps", "10")
    done = cli("train", "--data", data_file, "--out", out, *small, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Run.open(out).is_finished()
    assert "BallRun" in cli("tasks", "--quiet").stdout
    assert cli("runs", tmp_path / "none", "--quiet").stderr.startswith("lspc: no run in ")
