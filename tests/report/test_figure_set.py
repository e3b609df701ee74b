"""`lspc figure all`: everything trained, measured and drawn; stopped, it goes on; complete, it only draws."""

from pathlib import Path
from typing import Any

import pytest
from helpers.cli import Cli

from lspc.data import Dataset
from lspc.report import figure_set
from lspc.report.figure_set import Stage
from lspc.report.figures import FIGURES
from lspc.runs import Run, layout

TINY: dict[str, dict[str, Any]] = {
    "lspc": {"steps": 2, "batch_size": 32, "hidden": (8, 8), "latent_dim": 4},
    "bc": {"steps": 2, "batch_size": 32, "hidden": (8, 8)},
    "fisor": {"steps": 2, "batch_size": 8, "hidden": (8, 8), "actor_width": 8, "actor_blocks": 1, "candidates": 2},
}


@pytest.mark.simulator
@pytest.mark.process
def test_the_whole_set_of_a_task(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_set, "RESTRICTIONS", (0.5, 1.0))
    monkeypatch.setattr(figure_set, "CURVE_EPISODES", 1)
    # Every made episode costs more than the task's smallest budget.
    monkeypatch.setattr(figure_set, "_safe", lambda method, task: {"budget": 1000.0} if method == "bc" else {})

    class Stopped(Exception):
        pass

    def stop(stage: Stage) -> None:
        if stage.what == "measuring lambda=2":
            raise Stopped

    def draw(on_stage: Any) -> list[Path]:
        return figure_set.draw_set(
            dataset, tmp_path, task="BallRun", seeds=(0,), episodes=1, overrides=TINY, on_stage=on_stage
        )

    with pytest.raises(Stopped):
        draw(stop)
    assert not list(tmp_path.glob("*.png"))
    seen: list[Stage] = []
    pictures = draw(seen.append)
    assert not any("training" in stage.what for stage in seen)
    assert pictures == [tmp_path / f"{name}.png" for name, figure in FIGURES.items() if figure.set_runs is not None]
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    runs = tmp_path / "runs"
    assert {run.name for run in runs.iterdir() if (run / layout.CURVE).exists()} == {"lspc", "bc-safe", "fisor"}
    measured = Run.open(runs / "converse").records()
    assert {(r.policy, r.restriction) for r in measured} == {
        ("converse LSPC-O", None), ("converse CVAE", None), ("converse LSPC-O", 0.5), ("converse LSPC-O", 1.0),
    }  # fmt: skip
    seen.clear()
    draw(seen.append)
    assert [stage.what for stage in seen] == ["drawing"]


def test_it_needs_data_of_a_task(cli: Cli, tmp_path: Path, data_file: Path) -> None:
    for arguments, told in (
        (["--task", "CarRun"], "name the dataset: lspc figure all --task CarRun --data FILE"),
        (["runs/a", "--data", data_file], "the command is: lspc figure all [--data FILE]"),
        (["--data", data_file, "--task", "Nowhere"], "Nowhere"),
    ):
        done = cli("figure", "all", *arguments, "--out", tmp_path)
        assert done.returncode == 1
        assert told in done.stderr
        assert "Traceback" not in done.stderr
