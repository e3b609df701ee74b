"""Ctrl-C in the first seconds of `lspc train`, whatever it is doing: it stops, in one line."""

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


@pytest.mark.process
def test_an_interrupt_in_the_first_seconds_always_stops(tmp_path: Path, data_file: Path) -> None:
    rng = np.random.default_rng(0)
    for number, delay in enumerate(rng.uniform(0.02, 4.0, 10)):
        arguments = ["train", "--data", data_file, "--out", tmp_path / str(number), *TINY, "--steps", "1000000"]
        process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, **READ_ONLY},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(float(delay))
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130, f"after {delay:.2f} s: {process.returncode}, {told}"
        assert "Traceback" not in told
        assert told.splitlines()[-1].startswith("lspc: stopped")


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
