"""The ablations' figures, against means computed by hand, and what may not be compared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data import small_dataset
from helpers.made_runs import episodes, make_run
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from lspc.data import Dataset
from lspc.errors import UserError
from lspc.report import drawing
from lspc.report.figures import draw
from lspc.runs import Record
from lspc.tasks import get_task

BALL = get_task("BallRun")
SPAN = BALL.reward_max - BALL.reward_min


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    monkeypatch.setattr(drawing, "save", lambda figure, path: figures.append(figure))
    return figures


def lines(figure: Figure, panel: int) -> dict[str, tuple[list[float], list[float]]]:
    found = [line for line in figure.axes[panel].get_lines() if not str(line.get_label()).startswith("_")]
    pairs = {str(line.get_label()): np.asarray(line.get_xydata()) for line in found}
    return {label: (points[:, 0].tolist(), points[:, 1].tolist()) for label, points in pairs.items()}


def errorbars(axes: Axes) -> dict[str, ErrorbarContainer]:
    return {str(bars.get_label()): bars for bars in axes.containers if isinstance(bars, ErrorbarContainer)}


def swept(policy: str = "LSPC-O", times: float = 1.0) -> list[Record]:
    """Two seeds: a cost of 8 eps and of 24 eps, at eps 0.5, 1 (the run's own) and 2."""
    return [
        record
        for eps in (2.0, 0.5, None)
        for seed, slope in ((0, 8.0), (1, 24.0))
        for record in episodes(policy, [times * slope * (eps or 1.0)] * 2, seed=seed, eps=eps)
    ]


def others() -> list[Record]:
    return [
        record
        for seed in (0, 1)
        for record in (
            *episodes("LSPC-S", [4.0 * seed], seed=seed),
            *episodes("CVAE", [0.0], seed=seed),
            *episodes("CVAE", [20.0 + 20 * seed], seed=seed, mode="sampled"),
        )
    ]


def test_reward_and_cost_over_eps(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    run = make_run(tmp_path / "run", data_file, swept() + others())
    draw("restriction-sweep", tmp_path / "unused.png", runs=[run])
    cost, reward = lines(drawn[0], 1), lines(drawn[0], 0)
    assert cost["LSPC-O"] == ([0.5, 1, 2], pytest.approx([8 / 40, 16 / 40, 32 / 40]))
    assert reward["LSPC-O"][1] == pytest.approx([(500 + c - BALL.reward_min) / SPAN for c in (8, 16, 32)])
    assert cost["LSPC-S"][1] == pytest.approx([2 / 40] * 2)
    assert cost["CVAE, sampled"][1] == pytest.approx([30 / 40] * 2)
    assert "seeds 0, 1" in drawn[0].get_suptitle()
    bands = [
        patch.get_extents().transformed(drawn[0].axes[1].transData.inverted()) for patch in drawn[0].axes[1].patches
    ]
    assert [(band.y0, band.y1) for band in bands] == [pytest.approx((0, 0.1)), pytest.approx((0.5, 1.0))]


def test_no_seed_joins_or_leaves_on_the_way(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    extra = episodes("LSPC-O", [400.0], seed=0, eps=1.5)
    both = make_run(tmp_path / "a", data_file, swept() + extra + others())
    draw("restriction-sweep", tmp_path / "unused.png", runs=[both])
    assert lines(drawn[0], 1)["LSPC-O"][0] == [0.5, 1, 2]  # both seeds, where both were measured

    alone = [r for r in swept() if r.training_seed == 0 or r.restriction is None]
    draw("restriction-sweep", tmp_path / "unused.png", runs=[make_run(tmp_path / "b", data_file, alone + others())])
    found = lines(drawn[1], 1)
    assert found["LSPC-O"] == ([0.5, 1, 2], pytest.approx([4 / 40, 8 / 40, 16 / 40]))  # seed 0 at every eps
    assert found["CVAE, sampled"][1] == pytest.approx([20 / 40] * 2)
    assert drawn[1].get_suptitle().endswith("over eps, seed 0")


def test_guarded_and_sampled_episodes_stay_out(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    watched = [replace(record, guard=10.0) for record in episodes("LSPC-O", [900], eps=0.5)]
    noisy = episodes("LSPC-O", [900], eps=0.5, mode="sampled")
    run = make_run(tmp_path / "run", data_file, watched + noisy + swept() + others())
    draw("restriction-sweep", tmp_path / "unused.png", runs=[run])
    assert lines(drawn[0], 1)["LSPC-O"][1] == pytest.approx([8 / 40, 16 / 40, 32 / 40])


def test_a_sweep_that_is_not_there_is_told_how_to_make(tmp_path: Path, data_file: Path) -> None:
    out = tmp_path / "unused.png"
    bare = make_run(tmp_path / "bare", data_file)
    own = make_run(tmp_path / "own", data_file, episodes("LSPC-O", [1]) + others())
    fixed = make_run(tmp_path / "fixed", data_file, episodes("LSPC-O", [1]), restriction_range=None)
    lonely = make_run(tmp_path / "lonely", data_file, swept())
    halves = [*episodes("LSPC-O", [1], eps=0.5), *episodes("LSPC-O", [1], eps=2.0, seed=1)]
    for run, told in [
        (bare, f"{bare} has no evaluations.jsonl: measure it first"),
        (own, f"lspc evaluate {own} --policies LSPC-O --actions deterministic --restrictions 0.5 1 2"),
        (fixed, "trained for one eps alone: train with --restriction-range"),
        (lonely, f"no deterministic LSPC-S: lspc evaluate {lonely} --policies LSPC-S --actions deterministic"),
        (make_run(tmp_path / "halves", data_file, halves), "no seed of LSPC-O that was measured at every eps"),
        (
            make_run(tmp_path / "noisy", data_file, swept() + [r for r in others() if r.mode != "sampled"]),
            "no sampled CVAE: lspc evaluate .* --policies CVAE --actions sampled",
        ),
        (
            make_run(tmp_path / "few", data_file, swept() + [r for r in others() if r.training_seed == 0]),
            "no deterministic LSPC-S of seeds 0, 1",
        ),
    ]:
        with pytest.raises(UserError, match=told):
            draw("restriction-sweep", out, runs=[run])


def test_the_converse_beside_it(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    usual = make_run(tmp_path / "run", data_file, swept())
    converse = make_run(tmp_path / "converse", data_file, swept("converse LSPC-O", 2.0), roles="converse")
    draw("converse", tmp_path / "unused.png", runs=[usual, converse])
    assert lines(drawn[0], 1) == {
        "LSPC-O, seeds 0, 1": ([0.5, 1, 2], pytest.approx([8 / 40, 16 / 40, 32 / 40])),
        "converse LSPC-O, seeds 0, 1": ([0.5, 1, 2], pytest.approx([16 / 40, 32 / 40, 64 / 40])),
    }
    with pytest.raises(UserError, match=f"{converse} is not a run with roles safety-first"):
        draw("converse", tmp_path / "unused.png", runs=[converse, usual])
    longer = make_run(tmp_path / "longer", data_file, swept("converse LSPC-O"), roles="converse", steps=900)
    with pytest.raises(UserError, match=f"{usual} and {longer} also differ in steps: 500 and 900"):
        draw("converse", tmp_path / "unused.png", runs=[usual, longer])
    few = make_run(tmp_path / "few", data_file, episodes("converse LSPC-O", [1]), roles="converse")
    with pytest.raises(UserError, match="--policies 'converse LSPC-O' --actions deterministic --restrictions"):
        draw("converse", tmp_path / "unused.png", runs=[usual, few])


def of_value(folder: Path, data: Path | Dataset, cost: float, **settings: Any) -> Path:
    records = [
        record
        for seed in (0, 1)
        for record in (
            *episodes("LSPC-O", [cost + 8 * seed], seed=seed),
            *episodes("LSPC-O", [777], seed=seed, eps=2.0),
            *episodes("LSPC-S", [cost / 2], seed=seed),
            *episodes("CVAE", [cost / 4], seed=seed, mode="sampled"),
        )
    ]
    return make_run(folder, data, records, **settings)


def test_points_by_the_value_of_a_setting(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    runs = [
        of_value(tmp_path / f"{xi}", data_file, cost, expectile=xi) for xi, cost in ((0.7, 8), (0.5, 16), (0.9, 4))
    ]
    draw("expectile", tmp_path / "unused.png", runs=runs)
    axes = drawn[0].axes[1]
    found = errorbars(axes)
    assert list(found) == ["LSPC-O", "LSPC-S", "CVAE, sampled"]
    means = {name: np.asarray(bars.lines[0].get_ydata()).tolist() for name, bars in found.items()}
    assert means["LSPC-O"] == pytest.approx([20 / 40, 12 / 40, 8 / 40])
    assert means["LSPC-S"] == pytest.approx([8 / 40, 4 / 40, 2 / 40])
    assert means["CVAE, sampled"] == pytest.approx([4 / 40, 2 / 40, 1 / 40])
    (spread,) = found["LSPC-O"].lines[2]
    ends = [(low[1], high[1]) for low, high in spread.get_segments()]
    assert np.array(ends) == pytest.approx(np.array([(16, 24), (8, 16), (4, 12)]) / 40)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5", "0.7", "0.9"]
    assert axes.get_xlabel() == "ξ (expectile)"


def test_runs_of_one_value_are_further_seeds_of_it(tmp_path: Path, data_file: Path, drawn: list[Figure]) -> None:
    def run(name: str, xi: float, seed: int, cost: float) -> Path:
        records = [r for p in ("LSPC-O", "LSPC-S") for r in episodes(p, [cost], seed=seed)]
        return make_run(
            tmp_path / name, data_file, records + episodes("CVAE", [0], seed=seed, mode="sampled"), expectile=xi
        )

    draw("expectile", tmp_path / "u.png", runs=[run("a", 0.5, 0, 4), run("b", 0.5, 1, 12), run("c", 0.7, 0, 40)])
    first, *_ = errorbars(drawn[0].axes[1]).values()
    assert np.asarray(first.lines[0].get_ydata()).tolist() == pytest.approx([8 / 40, 1])
    with pytest.raises(UserError, match=r"d and .*e: different results for the same episodes"):
        draw("expectile", tmp_path / "u.png", runs=[run("d", 0.5, 0, 4), run("e", 0.5, 0, 5), run("f", 0.7, 0, 1)])


def test_runs_that_differ_in_more_are_refused_by_name(tmp_path: Path, data_file: Path) -> None:
    base = of_value(tmp_path / "base", data_file, 8)
    xi = of_value(tmp_path / "xi", data_file, 8, expectile=0.5)
    longer = of_value(tmp_path / "longer", data_file, 8, expectile=0.5, steps=900)
    newer = of_value(tmp_path / "newer", data_file, 8, expectile=0.5, cost_mask=None)
    elsewhere = of_value(tmp_path / "elsewhere", small_dataset(seed=1), 8, expectile=0.5)
    other_task = of_value(tmp_path / "task", data_file, 8, expectile=0.5, task="CarRun")
    lam = [of_value(tmp_path / f"l{v}", data_file, 8, cost_temperature=v, cost_share=0.2) for v in (1.0, 2.0)]
    for runs, name, told in [
        ([base, base], "expectile", "name two runs or more that differ in expectile: all have 0.7"),
        ([base, longer], "expectile", f"{base} and {longer} also differ in steps: 500 and 900"),
        ([base, newer], "expectile", "also differ in cost_mask: nothing and None"),
        ([base, elsewhere], "expectile", "also differ in dataset"),
        ([base, other_task], "expectile", "also differ in task: BallRun and CarRun"),
        ([base, xi], "lambda", f"{base} has no setting cost_temperature: it is a run of lspc"),
        (lam, "lambda", "trained with cost_share 0.2, which overrules cost_temperature.*--cost-share None"),
        ([base, make_run(tmp_path / "bare", data_file)], "expectile", "has no evaluations.jsonl"),
        (
            [base, make_run(tmp_path / "part", data_file, episodes("LSPC-O", [1]), expectile=0.5)],
            "expectile",
            "part has no deterministic LSPC-S: lspc evaluate",
        ),
    ]:
        with pytest.raises(UserError, match=told):
            draw(name, tmp_path / "unused.png", runs=runs)


@pytest.mark.slow
def test_the_same_records_give_the_same_files(tmp_path: Path, data_file: Path) -> None:
    run = make_run(tmp_path / "run", data_file, swept() + others())
    converse = make_run(tmp_path / "converse", data_file, swept("converse LSPC-O"), roles="converse")
    lam = [
        of_value(tmp_path / f"{v}", data_file, 8 * v, cost_temperature=v, cost_share=None) for v in (1.0, 4.0, 2.0)
    ]
    for folder in ("a", "b"):
        draw("restriction-sweep", tmp_path / folder / "eps.png", runs=[run])
        draw("converse", tmp_path / folder / "converse.png", runs=[run, converse])
        draw("lambda", tmp_path / folder / "lambda.png", runs=lam)
    for name in ("eps.png", "converse.png", "lambda.png"):
        content = (tmp_path / "a" / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert content == (tmp_path / "b" / name).read_bytes()
