"""How many threads a seed gets, and how XLA is told."""

import os
from pathlib import Path
from typing import Any

import pytest

from lspc import algos
from lspc.errors import UserError
from lspc.training import devices

SMALL, LARGE = algos.get("lspc").Config(), algos.get("lspc").Config(batch_size=1024)


def on_a_machine(monkeypatch: pytest.MonkeyPatch, cores: int, busy: float) -> None:
    monkeypatch.setattr(devices, "usable_cores", lambda: cores)
    monkeypatch.setattr(devices, "busy_cores", lambda: busy)


@pytest.mark.parametrize(
    ("asked", "seeds", "config", "busy", "given"),
    [
        (None, 1, SMALL, 0.1, 8),
        (None, 3, SMALL, 0.1, 2),
        (None, 20, LARGE, 0.1, 1),
        (None, 1, SMALL, 6.0, 1),
        (None, 1, LARGE, 6.0, 8),
        (None, 1, algos.get("cdt").Config(), 6.0, 8),
        (3, 1, SMALL, 6.0, 3),
    ],
)
def test_threads_for_each_seed(
    monkeypatch: pytest.MonkeyPatch, asked: int | None, seeds: int, config: Any, busy: float, given: int
) -> None:
    on_a_machine(monkeypatch, 8, busy)
    assert devices.choose_threads(asked, seeds, config) == given


@pytest.mark.parametrize("asked", [0, -1])
def test_threads_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch, asked: int) -> None:
    on_a_machine(monkeypatch, 8, 0.0)
    with pytest.raises(UserError, match=f"threads is {asked}; choose 1 or more"):
        devices.choose_threads(asked, 1, SMALL)


def test_xla_is_told_unless_it_has_been_told_already(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_machine(monkeypatch, 8, 0.0)
    monkeypatch.setenv("XLA_FLAGS", "--xla_something=1")
    monkeypatch.setenv("NPROC", "")
    monkeypatch.delenv("NPROC")
    devices.use_threads(1, 2)
    assert os.environ["XLA_FLAGS"].startswith("--xla_something=1 --xla_cpu_multi_thread_eigen=false")
    before = os.environ["XLA_FLAGS"]
    devices.use_threads(1, 2)
    assert os.environ["XLA_FLAGS"] == before
    assert devices.describe_threads(2) == 1
    monkeypatch.setenv("XLA_FLAGS", "")
    assert devices.describe_threads(2) == 4
    devices.use_threads(2, 3)
    assert os.environ["NPROC"] == "6"
    assert devices.describe_threads(3) == 2
    devices.use_threads(4, 1)
    assert os.environ["NPROC"] == "6"


def test_a_run_goes_on_with_the_threads_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_machine(monkeypatch, 8, 0.0)
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setenv("NPROC", "4")
    run = tmp_path / "sweep" / "run"
    assert devices.recall_threads(run) is None
    devices.remember_threads(run, 1)
    assert devices.recall_threads(run) == devices.recall_threads(tmp_path / "sweep") == 4
    devices.remember_threads(run, 1)  # the same: a warning would be an error here
    monkeypatch.setenv("NPROC", "2")
    with pytest.warns(UserWarning, match=r"began with 4 thread\(s\) for each seed, continues with 2"):
        devices.remember_threads(run, 1)
    assert devices.recall_threads(run) == 4
