"""Training curves and the two panels they share with other figures, against means computed by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.made_runs import episodes, make_run
from matplotlib.figure import Figure

from lspc.errors import UserError
from lspc.report import drawing
from lspc.report.figures import draw
from lspc.report.figures.training_curves import group_by_updates
from lspc.report.measured import make_point
from lspc.runs import Record, layout, record
from lspc.runs.statistics import Interval
from lspc.tasks import get_task

BALL = get_task("BallRun")
SPAN = BALL.reward_max - BALL.reward_min


def after(updates: int, policy: str, costs: list[float], **more: Any) -> list[Record]:
    return [replace(each, updates=updates) for each in episodes(policy, costs, **more)]


def curve(folder: Path, data_file: Path, records: list[Record], **more: Any) -> Path:
    run = make_run(folder, data_file, **more)
    record.write(run / layout.CURVE, records)
    return run


def two_seeds(shift: float = 0.0) -> list[Record]:
    """Costs of LSPC-O after 100 updates: 10 and 30 by seed; after 200: 0 and 8."""
    return [
        *after(200, "LSPC-O", [0 + shift]), *after(200, "LSPC-O", [6 + shift, 10 + shift], seed=1),
        *after(100, "LSPC-O", [5 + shift, 15 + shift]), *after(100, "LSPC-O", [30 + shift], seed=1),
        *after(100, "LSPC-O", [999], mode="sampled"),
    ]  # fmt: skip


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    monkeypatch.setattr(drawing, "save", lambda figure, path: figures.append(figure))
    return figures


def series(figure: Figure) -> list[dict[str, tuple[list[float], list[float]]]]:
    """For the reward panel and the cost panel: label to the line's xs and ys."""
    return [
        {
            str(line.get_label()): (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
            for line in axes.get_lines()
        }
        for axes in figure.axes
    ]


def test_what_is_drawn(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    draw("training-curves", tmp_path / "unused.png", runs=[curve(tmp_path / "run", data_file, two_seeds())])
    reward, cost = series(drawn[0])
    assert cost["LSPC-O"] == ([100, 200], pytest.approx([20 / 40, 4 / 40]))
    assert reward["LSPC-O"] == (
        [100, 200],
        pytest.approx([(520 - BALL.reward_min) / SPAN, (504 - BALL.reward_min) / SPAN]),
    )
    bands = [axes.collections[0].get_paths()[0].get_extents() for axes in drawn[0].axes]
    assert (bands[1].y0, bands[1].y1) == pytest.approx((0, 30 / 40))
    assert (bands[0].y0, bands[0].y1) == pytest.approx(
        ((500 - BALL.reward_min) / SPAN, (530 - BALL.reward_min) / SPAN)
    )
    lines = [ys[0] for label, (_, ys) in cost.items() if label != "LSPC-O"]
    assert lines == [10 / 40, 20 / 40, 40 / 40]
    assert [text.get_text() for text in drawn[0].axes[1].texts] == ["budget 10", "budget 20", "budget 40"]
    assert list(drawn[0].axes[0].texts) == []


def test_the_cvae_is_drawn_sampled_and_says_so(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    """Without noise it takes LSPC-S's action: its deterministic records would hide that line."""
    records = [
        *after(100, "LSPC-S", [4]), *after(100, "CVAE", [4]), *after(100, "CVAE", [8], mode="sampled"),
    ]  # fmt: skip
    draw("training-curves", tmp_path / "unused.png", runs=[curve(tmp_path / "run", data_file, records)])
    named = {label: ys for label, (_, ys) in series(drawn[0])[1].items() if not label.startswith("_")}
    assert named == {"LSPC-S": pytest.approx([4 / 40]), "CVAE, sampled": pytest.approx([8 / 40])}


def test_runs_are_told_apart_by_name_and_dashes_policies_by_colour(
    tmp_path: Path, data_file: Path, drawn: list[Figure]
) -> None:
    one = curve(tmp_path / "one", data_file, two_seeds() + after(100, "LSPC-S", [0]))
    two = curve(tmp_path / "two", data_file, two_seeds(4))
    draw("training-curves", tmp_path / "unused.png", runs=[one, two])
    lines = {str(line.get_label()): line for line in drawn[0].axes[0].get_lines()}
    assert list(lines) == ["LSPC-O, one", "LSPC-S", "LSPC-O, two"]  # a run is named where its policy is not alone
    colours = [line.get_color() for line in lines.values()]
    assert colours[0] == colours[2] != colours[1]
    assert lines["LSPC-O, one"].get_linestyle() != lines["LSPC-O, two"].get_linestyle()
    assert lines["LSPC-O, one"].get_marker() != lines["LSPC-S"].get_marker()


def test_runs_of_one_name_have_their_whole_path(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    runs = [curve(tmp_path / seed / "run", data_file, two_seeds()) for seed in "ab"]
    draw("training-curves", tmp_path / "unused.png", runs=runs)
    assert [line.get_label() for line in drawn[0].axes[0].get_lines()] == [f"LSPC-O, {run}" for run in runs]


def test_only_updates_that_every_seed_reached_and_the_later_of_two_records() -> None:
    records = [
        *after(100, "LSPC-O", [1]), *after(100, "LSPC-O", [2], seed=1), *after(200, "LSPC-O", [3]),
        *after(100, "LSPC-O", [7]),
    ]  # fmt: skip
    groups = group_by_updates(records)
    assert list(groups) == [100]
    assert sorted(each.cost_return for each in groups[100]) == [2, 7]


def test_a_mean_is_that_of_the_seeds_means() -> None:
    found = make_point(episodes("LSPC-O", [0, 0, 0, 0]) + episodes("LSPC-O", [40], seed=1), BALL)
    assert found.cost == Interval(mean=0.5, low=0.0, high=1.0)


def test_refusals(tmp_path: Path, data_file: Path) -> None:
    out = tmp_path / "unused.png"
    bare = make_run(tmp_path / "bare", data_file)
    ball = curve(tmp_path / "ball", data_file, two_seeds())
    car = curve(tmp_path / "car", data_file, two_seeds(), task="CarRun")
    torn = curve(tmp_path / "torn", data_file, [*after(100, "LSPC-O", [1]), *after(200, "LSPC-O", [1], seed=1)])
    sampled = curve(tmp_path / "sampled", data_file, after(100, "LSPC-O", [1], mode="sampled"))
    for runs, told in [
        ([], "training-curves was given 0 runs; the command is: lspc figure training-curves RUN ..."),
        ([bare], f"{bare} has no curve.jsonl: train with --evaluate-every"),
        ([ball, car], f"{car} is about CarRun, {ball} about BallRun"),
        ([torn], "no update at which LSPC-O was measured for every seed"),
        ([sampled], "holds nothing to draw"),
    ]:
        with pytest.raises(UserError, match=told):
            draw("training-curves", out, runs=runs)
    assert not out.exists()


def test_the_same_records_give_the_same_file(tmp_path: Path, data_file: Path) -> None:
    run = curve(tmp_path / "run", data_file, two_seeds())
    for name in ("a.png", "b.png"):
        draw("training-curves", tmp_path / name, runs=[run])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_without_a_task_is_about_what_it_was_measured_on(tmp_path: Path, data_file: Path) -> None:
    run = curve(tmp_path / "run", data_file, two_seeds(), task=None)
    draw("training-curves", tmp_path / "a.png", runs=[run])
    assert (tmp_path / "a.png").exists()
