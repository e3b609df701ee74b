"""What the figures share: colours, a fresh canvas, plain axes, two panels for reward and cost, saving.

It uses matplotlib's object interface, never pyplot, so drawing leaves no state behind and needs no screen.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lspc.files import atomic_path
from lspc.runs.statistics import Interval
from lspc.tasks import Task, normalised_cost

# Okabe and Ito's blue and vermilion: told apart by every common kind of colour vision.
EPISODE_COLOUR = "#0072B2"
BUDGET_COLOUR = "#D55E00"
SERIES_COLOURS = (EPISODE_COLOUR, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""The rest of their palette, for what is compared side by side."""
TEXT_COLOUR = "#333333"
MARKERS = "osD^vPX"
STYLES = ("-", "--", ":", "-.")
DPI: int = 150
LEGEND_WIDTH = 125
"""Letters in a row below the panels."""
Panels = tuple[Axes, Axes]
"""Reward, and cost beside it."""


def new_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    with atomic_path(path) as temporary:
        # Without the library's version in it, the same data gives the same file.
        figure.savefig(temporary, format="png", dpi=DPI, metadata={"Software": None})


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=TEXT_COLOUR)
    axes.xaxis.label.set_color(TEXT_COLOUR)
    axes.yaxis.label.set_color(TEXT_COLOUR)


class Point(NamedTuple):
    """One policy at one place of the horizontal axis; cost in units of the task's largest budget.

    The ends are the lowest and the highest training seed's.
    """

    reward: Interval
    cost: Interval


def new_panels(title: str, task: Task, across: str) -> tuple[Figure, Panels]:
    """A figure with normalised reward on the left and cost, with the task's budgets, on the right."""
    figure = new_figure(11, 4.8)
    figure.suptitle(title, fontsize=14, fontweight="bold", color=TEXT_COLOUR)
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.06})
    top = task.thresholds[-1]
    left.set_ylabel("normalised reward")
    right.set_ylabel(f"normalised cost: cost of an episode / {top}")
    for axes in (left, right):
        axes.set_xlabel(across)
        tidy(axes)
    for threshold in task.thresholds:
        height = normalised_cost(float(threshold), top)
        right.axhline(height, color=BUDGET_COLOUR, linestyle=(0, (6, 3)), linewidth=1.2)
        right.annotate(f"budget {threshold}", (1.0, height), xycoords=("axes fraction", "data"), xytext=(4, -3),
                       textcoords="offset points", color=BUDGET_COLOUR, fontsize=9)  # fmt: skip
    return figure, (left, right)


def draw_line(panels: Panels, points: Mapping[Any, Point], name: str, place: int, style: str = "-") -> None:
    """One policy's means with the band of its seeds, in both panels; `place` settles colour and marker."""
    colour, marker = SERIES_COLOURS[place % len(SERIES_COLOURS)], MARKERS[place % len(MARKERS)]
    for axes, spreads in zip(panels, zip(*points.values(), strict=True), strict=True):
        means, lows, highs = zip(*((spread.mean, spread.low, spread.high) for spread in spreads), strict=True)
        axes.fill_between(list(points), lows, highs, color=colour, alpha=0.18, linewidth=0)
        axes.plot(list(points), means, color=colour, linestyle=style, marker=marker, markersize=5, label=name)


def finish(figure: Figure, panels: Panels, out: Path) -> None:
    """One legend for both panels, below them, and no empty space under a cost of zero."""
    panels[1].set_ylim(bottom=-0.03 * panels[1].get_ylim()[1])
    handles, labels = panels[0].get_legend_handles_labels()
    columns = max(1, LEGEND_WIDTH // (max(map(len, labels)) + 8))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), columns), frameon=False)
    save(figure, out)
