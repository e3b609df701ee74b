"""The paper's picture of a dataset: cost against reward of its episodes, and how their costs spread."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from lspc.data import Dataset
from lspc.report.drawing import BUDGET_COLOUR, EPISODE_COLOUR, TEXT_COLOUR, new_figure, save, tidy
from lspc.report.figures import Request
from lspc.tasks import task_of, thresholds_of

MOST_BARS = 40


def draw(asked: Request) -> None:
    dataset = asked.dataset
    assert dataset is not None
    task = asked.task or task_of(dataset.metadata)
    title = task.name if task else Path(dataset.source).name
    dataset_profile_figure(dataset, thresholds_of(task), asked.out, title)


def dataset_profile_figure(dataset: Dataset, thresholds: Sequence[float], path: str | Path, title: str) -> None:
    """Left: cost against reward per episode. Right: how costs spread.

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
