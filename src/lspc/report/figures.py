"""Pictures made from data and results, each one function that writes one file.

They use matplotlib's object interface, never pyplot, so drawing leaves no state behind and needs no screen.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lspc.data import Dataset
from lspc.files import atomic_path

# Okabe and Ito's blue and vermilion: told apart by every common kind of colour vision.
EPISODE_COLOUR = "#0072B2"
BUDGET_COLOUR = "#D55E00"
SERIES_COLOURS = (EPISODE_COLOUR, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""The rest of their palette, for what is compared side by side."""
TEXT_COLOUR = "#333333"
MOST_BARS = 40


def dataset_profile_figure(dataset: Dataset, thresholds: Sequence[float], path: str | Path, title: str) -> None:
    """Write the paper's picture of a dataset, a PNG: cost against reward per episode, and how costs spread.

    Dashed lines are the cost budgets; the legend says what share of the episodes is inside each.
    """
    figure = new_figure(11, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1])
    figure.suptitle(title, fontsize=14, fontweight="bold", color=TEXT_COLOUR)
    _draw_episodes(left, dataset)
    _draw_costs(right, dataset)
    largest = max([float(dataset.cost_returns.max()), *thresholds]) or 1.0
    for axes in (left, right):
        axes.set_xlim(-0.03 * largest, 1.04 * largest)
        _draw_budgets(axes, thresholds)
        tidy(axes)
    _name_budgets(right, dataset, thresholds)
    save(figure, path)


def maps_figure(path: str | Path) -> None:
    """Write the roads of MetaDrive's three block sequences side by side."""
    from lspc.sims.metadrive import ROADS, map_picture

    figure = new_figure(12, 4.4)
    for axes, (name, road) in zip(figure.subplots(1, len(ROADS)), ROADS.items(), strict=True):
        axes.imshow(map_picture(road.blocks))
        axes.set_title(f"{name}: {road.blocks}", color=TEXT_COLOUR, fontweight="bold")
        axes.set_axis_off()
    save(figure, path)


def new_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    with atomic_path(path) as temporary:
        # Without the library's version in it, the same data gives the same file.
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})


def _draw_episodes(axes: Axes, dataset: Dataset) -> None:
    # Many episodes overlap: smaller and fainter dots let their density show.
    room = min(1.0, 300 / len(dataset.episodes))
    axes.scatter(
        dataset.cost_returns,
        dataset.returns,
        s=10 + 20 * room,
        alpha=0.35 + 0.4 * room,
        color=EPISODE_COLOUR,
        linewidths=0,
    )
    axes.set_xlabel("cost return of an episode")
    axes.set_ylabel("reward return of an episode")


def _draw_costs(axes: Axes, dataset: Dataset) -> None:
    largest = float(dataset.cost_returns.max())
    # Bars of whole width: most costs are counts, and a fractional width would draw false stripes.
    width = float(math.ceil(largest / MOST_BARS)) or 1.0
    edges = np.arange(0.0, largest + 2 * width, width)
    axes.hist(dataset.cost_returns, bins=edges.tolist(), color=EPISODE_COLOUR, edgecolor="white", linewidth=0.6)
    axes.set_xlabel("cost return of an episode")
    axes.set_ylabel("episodes")


def _draw_budgets(axes: Axes, thresholds: Sequence[float]) -> None:
    for threshold in thresholds:
        axes.axvline(threshold, color=BUDGET_COLOUR, linestyle="--", linewidth=1.5)
        axes.annotate(
            f"{threshold:g}",
            xy=(threshold, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=10,
            fontweight="bold",
            color=BUDGET_COLOUR,
        )


def _name_budgets(axes: Axes, dataset: Dataset, thresholds: Sequence[float]) -> None:
    shares = [float((dataset.cost_returns <= threshold).mean()) for threshold in thresholds]
    line = Line2D([], [], color=BUDGET_COLOUR, linestyle="--", linewidth=1.5)
    labels = [f"{share:.1%} cost at most {threshold:g}" for threshold, share in zip(thresholds, shares, strict=True)]
    if labels:
        counts = f"{len(dataset.episodes):,} episodes, of which"
        legend = axes.legend([line] * len(labels), labels, title=counts, loc="best", framealpha=0.95)
        legend.get_title().set_color(TEXT_COLOUR)


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=TEXT_COLOUR)
    axes.xaxis.label.set_color(TEXT_COLOUR)
    axes.yaxis.label.set_color(TEXT_COLOUR)
