"""The command line as a whole: help, refusals, and how it ends."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.cli import Cli

VERBS = [
    "inspect", "convert", "collect", "fit", "train", "evaluate", "calibrate", "choose", "pilot", "export", "render",
    "report", "bench", "figure", "theory", "algos", "tasks", "runs", "completion", "doctor",
]  # fmt: skip


REFUSED = """
import lspc.cli
from lspc.errors import UserError

def answer(arguments):
    print("said before")
    raise UserError("refused")

lspc.cli._answer = answer
lspc.cli.main([])
"""


@pytest.mark.process
def test_help_needs_neither_jax_nor_numpy() -> None:
    look = (
        "import sys; from lspc.cli import main; main(['--help']); "
        "print(sorted({'jax', 'numpy', 'h5py', 'rich.table', 'pybullet'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"\n  {verb} " in done.stdout for verb in VERBS)


@pytest.mark.process
def test_listing_tasks_needs_no_jax() -> None:
    look = "import sys; from lspc.cli import main; main(['tasks']); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_within_80_columns(cli: Cli, verb: str) -> None:
    done = cli(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert f"usage: lspc {verb}" in done.stdout
    lines = done.stdout.splitlines()
    assert [line for line in lines[1:] if len(line) > 80] == []
    assert "{None}|STR" not in done.stdout
    assert "options options" not in done.stdout


def test_the_help_of_train_shows_the_presets_values(cli: Cli) -> None:
    def shown(*arguments: object) -> dict[str, str]:
        text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", cli("train", "--help", *arguments).stdout).split())
        return dict(re.findall(r"--([\w-]+) (?:(?! --\w).)*?\(default: ([^)]*)\)", text))

    paper = shown("--preset", "paper", "--task", "BallRun")
    assert paper["steps"] == "1000000"
    assert paper["batch-size"] == "1024"
    assert paper["restriction"] == "0.6"
    assert shown("--preset", "paper", "--task", "AntRun")["restriction"] == "0.25"
    assert shown("--preset", "paper", "--task", "easymean")["cost-mask"] == "0.02"
    assert "budget" in shown("--algo", "bc")
    assert "latent-dim" not in shown("--algo", "bc")


def test_version_and_no_arguments(cli: Cli) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?\n", cli("--version").stdout)
    assert "usage: lspc VERB" in cli().stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["fly"],
            f"unknown verb 'fly': choose one of {', '.join(VERBS)}",
        ),
        (["trian"], "unknown verb 'trian': did you mean train?"),
        (["runs", "nowhere"], "no run in nowhere: a run is a folder that `lspc train` made"),
        (["calibrate", "nowhere", "--budget", "-1"], "a budget must be a number of 0 or more, not -1"),
        (["tasks", "--config"], "--config needs the name of a TOML file, such as run.toml"),
        (["train", "--config", "nowhere.toml"], "nowhere.toml: there is no such file"),
        (["train", "--device", "tpu"], "--device tpu: "),
        (["collect", "--task", "BallRum", "--out", "a.hdf5"], "unknown task 'BallRum': did you mean BallRun"),
        (
            ["collect", "--task", "BallRun", "--out", "a.txt"],
            "a.txt: give it a name that ends in .hdf5 or .npz",
        ),
        (["train", "--task", "Nothing"], "unknown task 'Nothing'"),
        (["train", "--preset", "huge"], "unknown preset 'huge': choose one of default, cpu, paper, official"),
        (["train", "--algo", "magic"], "unknown method 'magic': choose one of lspc, bc"),
        (["train", "--data", "nowhere.hdf5"], "nowhere.hdf5: there is no such file"),
        (["evaluate"], "name at least one run folder"),
        (["evaluate", "nowhere"], "nowhere is not a run folder: it has no config.json"),
        (["calibrate", "nowhere"], "nowhere is not a run folder: it has no config.json"),
        (["export", "nowhere"], "nowhere holds no policy: is it the folder of a run?"),
        (["export", "nowhere", "--out", "policy.pt"], "policy.pt: name a file that ends in .onnx"),
        (["inspect", "nowhere.hdf5"], "nowhere.hdf5: there is no such file"),
    ],
)
def test_a_mistake_gives_one_line_and_exit_code_1(cli: Cli, arguments: list[str], told: str) -> None:
    done = cli(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("lspc: ")
    assert told in line


def test_a_misspelt_option_is_not_ignored(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    done = cli("train", "--data", data_file, "--out", tmp_path / "run", "--learning-rte", "1")
    assert done.returncode == 2
    assert "learning-rte" in done.stderr + done.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.process
def test_output_into_a_closed_pipe_is_no_disaster() -> None:
    done = subprocess.run(
        f"{sys.executable} -m lspc.cli tasks --json | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[\n"
    assert done.stderr == ""


@pytest.mark.process
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["--help", "--version", "completion bash", "tasks --json", "export --help"])
def test_a_reader_that_is_gone_is_no_disaster(arguments: str, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "lspc", *arguments.split()], stdout=writing, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered}, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_a_refusal_is_told_even_if_nobody_reads_the_output() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", REFUSED], stdout=writing, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""}, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "lspc: refused\n")


def test_a_path_that_cannot_be_written_is_one_line(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cli("train", "--data", data_file, "--out", tmp_path / "file", "--algo", "bc", "--steps", "1")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "file") in done.stderr.splitlines()[-1]
