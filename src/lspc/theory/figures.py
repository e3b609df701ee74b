"""The pictures of docs/theory.md, each one function that writes one PNG."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from lspc.report.drawing import BUDGET_COLOUR, EPISODE_COLOUR, SERIES_COLOURS, TEXT_COLOUR, new_figure, save, tidy
from lspc.theory import bounds, examples
from lspc.theory.checks import Row
from lspc.theory.samples import Samples

MARKERS = "osD^v"
LEAST_RATIO, MOST_RATIO = 1e-5, 1e2


def ratios_figure(rows: Sequence[Row], path: str | Path) -> None:
    """For each statement the spread of left side over bound; right of 1 it fails."""
    shown = [row for row in rows if row.median is not None]
    figure = new_figure(11, 0.36 * len(shown) + 1.6)
    axes = figure.subplots()
    for height, row in enumerate(reversed(shown)):
        colour = EPISODE_COLOUR if row.correct else BUDGET_COLOUR
        low, median, high, worst = np.clip(
            np.quantile(row.ratios, (0.05, 0.5, 0.95, 1), method="lower"), LEAST_RATIO, MOST_RATIO
        )
        axes.plot([low, high], [height, height], color=colour, linewidth=6, alpha=0.35, solid_capstyle="butt")
        axes.plot(median, height, "o", color=colour, markersize=6)
        axes.plot(worst, height, marker="|" if row.correct else "X", color=colour, markersize=10, markeredgewidth=2)
        fails = f"fails in {row.cases - row.holds:,}" if not row.correct else ""
        axes.text(1.6 * MOST_RATIO, height, fails, va="center", color=BUDGET_COLOUR, fontweight="bold")
    axes.set_yticks(range(len(shown)), [f"{row.statement}, {row.form}" for row in reversed(shown)])
    axes.axvline(1, color=TEXT_COLOUR, linestyle="--", linewidth=1.2)
    axes.set_xscale("log")
    axes.set_xlim(LEAST_RATIO / 1.6, MOST_RATIO * 30)
    axes.set_xticks([10.0**power for power in range(-5, 3)])
    axes.set_xlabel("left side / bound: band 5 % to 95 %, dot median, mark worst; beyond the ends drawn at the end")
    axes.set_title("Blue always holds, orange fails right of the line", color=TEXT_COLOUR, fontweight="bold")
    tidy(axes)
    save(figure, path)


def door_figure(path: str | Path) -> None:
    """The counterexample to equation 17: what is promised and what happens, the seldomer the door is opened."""
    figure = new_figure(8, 4.6)
    axes = figure.subplots()
    opened = np.geomspace(1e-3, 1, 60)
    cases = [examples.door(share) for share in opened]
    truth = [bounds.equation_17(case).left[0] for case in cases]
    printed = [bounds.equation_17(case).bound[0] for case in cases]
    corrected = [bounds.equation_17(case, bounds.transferred_distance).bound[0] for case in cases]
    axes.plot(opened, corrected, color=EPISODE_COLOUR, linestyle="-.", linewidth=2, label="bound with max d*/d_b")
    axes.plot(opened, printed, color=BUDGET_COLOUR, linestyle="--", linewidth=2, label="bound as printed")
    axes.plot(opened, truth, color=TEXT_COLOUR, linewidth=2, label="true difference of values")
    broken = np.array(printed) < np.array(truth)
    axes.fill_between(opened, printed, truth, where=broken.tolist(), color=BUDGET_COLOUR, alpha=0.15, linewidth=0)
    axes.plot(1 / 15, 0.25, "o", color=BUDGET_COLOUR, markersize=8)
    axes.annotate("the example of the text", (1 / 15, 0.25), xytext=(8, -14), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("how often the data open the door")
    axes.set_ylabel("value")
    axes.set_title("Equation 17 promises less than what happens", color=TEXT_COLOUR, fontweight="bold")
    axes.legend(loc="best")
    tidy(axes)
    save(figure, path)


def samples_figure(samples: Samples, path: str | Path) -> None:
    """Left: the errors that more data cure. Right: those that they do not."""
    figure = new_figure(11, 4.6)
    left, right = figure.subplots(1, 2, sharey=True)
    curves = {
        "learnt_reward": "LSPC: reward, to its own limit",
        "learnt_cost": "LSPC: cost, to its own limit",
        "imitator_reward": "copying pi*: reward, to pi*",
        "imitator_cost": "copying pi*: cost over kappa",
    }
    _draw_errors(left, samples, curves)
    sizes = np.array(samples.sizes, float)
    for power, style in ((0.25, "--"), (0.5, ":")):
        left.plot(sizes, 0.1 * (sizes / sizes[0]) ** -power, style, color=TEXT_COLOUR, label=f"N^-{power:g}")
    left.set_title("What more data improve", color=TEXT_COLOUR, fontweight="bold")
    left.set_ylabel("share of the largest difference of values")
    _draw_errors(right, samples, {"gap_reward": "LSPC: reward, to pi*", "gap_cost": "LSPC: cost over kappa"})
    right.set_title("What they do not", color=TEXT_COLOUR, fontweight="bold")
    left.set_ylim(bottom=left.get_ylim()[0] / 30)
    left.legend(loc="lower left", fontsize=9, ncols=2)
    right.legend(loc="lower left", fontsize=9)
    save(figure, path)


def _draw_errors(axes: Axes, samples: Samples, curves: dict[str, str]) -> None:
    for (quantity, label), colour, marker in zip(curves.items(), SERIES_COLOURS, MARKERS, strict=False):
        means = samples.errors[quantity].mean(1)
        axes.plot(samples.sizes, means, color=colour, marker=marker, markersize=5, linewidth=1.6, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("samples N")
    tidy(axes)


def vacuity_figure(records: Sequence[dict[str, float]], path: str | Path, restriction: float = 0.25) -> None:
    """Theorem 2's bound over the most that it bounds, by restriction and by samples; from 1 on it says nothing."""
    figure = new_figure(11, 4.8)
    left, right = figure.subplots(1, 2, sharey=True)
    largest = max(record["samples"] for record in records)
    series = zip(sorted({record["discount"] for record in records}), SERIES_COLOURS, MARKERS, strict=False)
    for discount, colour, marker in series:
        style = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.6}
        here = [record for record in records if record["discount"] == discount]
        by_eps = [record for record in here if record["samples"] == largest]
        by_size = [record for record in here if record["restriction"] == restriction]
        for axes, chosen, what in ((left, by_eps, "restriction"), (right, by_size, "samples")):
            places = [record[what] for record in chosen]
            axes.plot(places, [r["bound"] for r in chosen], **style)
            axes.plot(places, [r["over"] for r in chosen], **style, linestyle=":", fillstyle="none")
            if what == "samples":
                axes.plot(places, [r["imitator"] for r in chosen], **style, linestyle="--")
        left.plot([], [], **style, label=f"gamma = {discount:g}")
    for axes in (left, right):
        axes.axhline(1, color=BUDGET_COLOUR, linewidth=1.5)
        axes.set_yscale("log")
        tidy(axes)
    left.text(3, 1.15, "says nothing above", color=BUDGET_COLOUR, ha="right", va="bottom", fontweight="bold")
    left.set_xlabel(f"restriction eps (N = {largest:,})")
    left.set_ylabel("cost over kappa / the most it could be")
    right.set_xscale("log")
    right.set_xlabel(f"samples N (eps = {restriction:g})")
    left.set_ylim(bottom=left.get_ylim()[0] / 30)
    left.legend(loc="lower left", fontsize=9)
    lines = [Line2D([], [], color=TEXT_COLOUR, linestyle=style) for style in ("-", "--", ":")]
    names = ["bound for LSPC", "bound for copying pi*", "LSPC's true excess (95 % of CMDPs are below)"]
    right.legend(lines, names, loc="lower left", fontsize=9)
    save(figure, path)
