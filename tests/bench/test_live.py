"""What the terminal shows while a bench runs."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from lspc.bench.cell import Progress
from lspc.bench.grid import Plan, make_jobs
from lspc.bench.live import Grid, cost_table
from lspc.bench.running import Cost
from lspc.report import terminal

PLAN = Plan({"BallRun": "f", "CarRun": "g"}, ("bc", "lspc"), "cpu")


def shown(what: object) -> str:
    written = io.StringIO()
    Console(width=80, file=written).print(what)
    return " ".join(written.getvalue().split())


def test_the_cost_tells_what_is_known_and_what_is_not() -> None:
    known = Cost("bc", 8, 2, 36_000, 10.0)
    assert "bc 8 2 36,000 10.0 1.0" in shown(cost_table([known], PLAN, 1))
    assert "about 1.0 hours of training with 1 at a time. Evaluation" in shown(cost_table([known], PLAN, 1))
    both = shown(cost_table([known, Cost("lspc", 2, 0, 8_000, None)], PLAN, 2))
    assert "lspc 2 0 8,000 ? ?" in both
    assert "about 30 minutes of training with 2 at a time, without lspc, whose speed is not known yet" in both
    none = shown(cost_table([Cost("lspc", 2, 0, 8_000, None)], PLAN, 2))
    assert "how long training will take is not known yet (`--plan` measures it). Evaluation" in none
    assert "minutes" not in none
    assert "about 0 minutes" in shown(cost_table([Cost("lspc", 2, 2, 0, None)], PLAN, 2))


def test_the_grid_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    console = Console(width=80, file=written)
    monkeypatch.setattr(terminal, "errors", lambda: console)
    made = {job.name: job for job in make_jobs(PLAN, tmp_path, {})}
    first, second = made["BallRun/bc-seeds-0-2"], made["BallRun/bc-10-seeds-0-2"]
    with Grid(list(made.values())) as grid:
        grid.on_progress(first, Progress("training", 50, 100))
        assert "BallRun 0/4 45% 0/1 CarRun 0/4 0/1" in shown(grid._render())
        grid.on_progress(first, Progress("training", 75, 100, alarms=["seed 1: V_c is the same in every state"]))
        grid.on_progress(first, Progress("measuring", 1, 1))
        grid.on_end(first, None)
        grid.on_end(second, "training diverged in [/]a\x1b[2Jb")
        text = shown(grid._render())
    assert "BallRun 1/4 failed 0/1" in text
    assert "1 of 10 cells done, about" in text
    assert r"BallRun/bc-10-seeds-0-2: training diverged in [/]a\x1b[2Jb" in written.getvalue()
    assert "BallRun/bc-seeds-0-2: seed 1: V_c is the same in every state" in written.getvalue()
