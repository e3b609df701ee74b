"""`lspc tasks`, `algos`, `doctor` and `theory`: what they print."""

import json
from pathlib import Path

import pytest
from helpers.cli import Cli

from lspc import files


def test_tasks(cli: Cli) -> None:
    tasks = json.loads(cli("tasks", "--json").stdout)
    assert len(tasks) == 38
    keys = (
        "name suite episode_length observation_dim action_dim reward_min reward_max thresholds dataset_file installed"
    )
    assert all(list(task) == keys.split() for task in tasks)
    ball = next(task for task in tasks if task["name"] == "BallRun")
    assert ball["installed"] is True
    assert ball["thresholds"] == [10, 20, 40]
    table = cli("tasks").stdout
    assert all(task["name"] in table for task in tasks)
    assert "…" not in table


@pytest.mark.simulator
def test_doctor(cli_process: Cli) -> None:
    """In a process of its own: the simulators that it tries print what they like when they are imported."""
    done = cli_process("doctor", "--json")
    assert done.returncode == 0
    assert {"python", "jax", "simulator: bullet"} <= {check["name"] for check in json.loads(done.stdout)}
    assert "BallRun runs" in " ".join(cli_process("doctor", columns=120).stdout.split())


def test_algos_lists_every_method(cli: Cli) -> None:
    named = [row["name"] for row in json.loads(cli("algos", "--json").stdout)]
    assert {"lspc", "bc", "cdt"} <= set(named)
    table = cli("algos").stdout
    assert all(name in table for name in named)


@pytest.mark.slow
def test_theory_prints_its_table_and_keeps_its_records(cli: Cli, tmp_path: Path) -> None:
    done = cli("theory", "--count", "20", "--out", tmp_path / "theory")
    assert done.returncode == 0, done.stderr
    assert "Theorem 2" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80 + len(str(tmp_path))
    assert files.read_json(tmp_path / "theory" / "checks.json")["count"] == 20
    assert (tmp_path / "theory" / "theory-ratios.png").read_bytes().startswith(b"\x89PNG")
    refused = cli("theory", "--count", "0")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
    assert "count must be 1 or more" in refused.stderr
