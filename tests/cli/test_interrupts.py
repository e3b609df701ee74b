"""Ctrl-C at any moment of any verb: it stops, in one line, and leaves nothing half done."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import TINY
from helpers.environment import READ_ONLY

START = "import sys, lspc.cli; print('begins', flush=True); lspc.cli.main(sys.argv[1:])"
"""Until then Python itself is starting, and ends on Ctrl-C in its own way."""


def interrupt(arguments: list[object], delay: float) -> None:
    """Start `lspc`, interrupt it so many seconds after it began, and look how it ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, **READ_ONLY},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, f"after {delay:.2f} s: {process.returncode}, {told}"
    assert "Traceback" not in told
    assert told.splitlines()[-1].startswith("lspc: stopped")


@pytest.mark.process
def test_training_stops_in_its_first_seconds(tmp_path: Path, data_file: Path) -> None:
    for number, delay in enumerate(np.random.default_rng(0).uniform(0.02, 4.0, 8)):
        out = tmp_path / str(number)
        interrupt(["train", "--data", data_file, "--out", out, *TINY, "--steps", "1000000"], float(delay))


@pytest.mark.process
@pytest.mark.simulator
@pytest.mark.parametrize("verb", ["fit", "calibrate", "evaluate"])
def test_what_takes_long_stops_in_its_first_seconds(
    trained: tuple[Path, str], data_file: Path, tmp_path: Path, verb: str
) -> None:
    options = {
        "fit": [data_file, "--budget", "10", "--out", tmp_path / "model"],
        "calibrate": [trained[0], "--budget", "10", "--data", data_file],
        "evaluate": [trained[0], "--episodes", "10000"],
    }[verb]
    for delay in np.random.default_rng(1).uniform(0.02, 3.0, 4):
        interrupt([verb, *options], float(delay))


SWALLOWED = """
import os, sys, lspc.cli

class Strike:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                os.kill(os.getpid(), 2)
            except BaseException:
                os._exit(0)

sys.meta_path.insert(0, Strike())
lspc.cli.main(sys.argv[2:])
"""
"""Code that catches what it should not, and while standard error leads nowhere, as where simulators are made."""


@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("lspc.report.inspection", "inspect logs.csv"),
        ("lspc.sims.collect.population", "collect --task BallRun --out a.hdf5"),
        ("lspc.api", "fit logs.csv --budget 1"),
        ("lspc.evaluation", "evaluate run"),
        ("lspc.calibration.run", "calibrate run"),
        ("lspc.calibration.comparing", "choose run --budget 1"),
        ("lspc.calibration.certificate", "pilot run --budget 1"),
        ("lspc.deploy.export", "export run"),
        ("lspc.report.clips", "render run"),
        ("lspc.report.page", "report run"),
        ("lspc.bench.grid", "bench"),
    ],
)
def test_no_verb_lets_an_interrupt_be_swallowed(module: str, arguments: str) -> None:
    command = [sys.executable, "-c", SWALLOWED, module, *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "\nlspc: stopped\n")


WRITING = "import os, sys, lspc.cli; os.fsync = lambda file: os.kill(os.getpid(), 2); lspc.cli.main(sys.argv[1:])"


@pytest.mark.process
def test_what_is_half_written_does_not_stay(data_file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITING, "convert", str(data_file), str(tmp_path / "copy.npz")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 130
    assert list(tmp_path.iterdir()) == []


IMPORTING = """
import os, runpy, signal, sys

class Strike:
    def find_spec(self, name, *_):
        if name == "lspc.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Strike())
runpy.run_module("lspc", run_name="__main__")
"""
BEFORE_MAIN = "import os; from lspc.__main__ import main; os.kill(os.getpid(), 2); main()"
AFTER_MAIN = "import os; from lspc.__main__ import main; main(); os.kill(os.getpid(), 2)"


@pytest.mark.process
@pytest.mark.parametrize("program", [IMPORTING, BEFORE_MAIN, AFTER_MAIN])
def test_an_interrupt_around_the_command_line_shows_no_traceback(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program, "tasks"], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == ""
