"""Reward and cost side by side: the two panels of several figures, and the training curves drawn in them.

A mean is that of the training seeds' own means; a band or bar runs from the lowest seed to the highest.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lspc.errors import UserError
from lspc.evaluation import usual_mode
from lspc.report.figures import BUDGET_COLOUR, SERIES_COLOURS, TEXT_COLOUR, new_figure, save, tidy
from lspc.runs import Record, Run, layout
from lspc.runs.record import group, returns_by_seed, training_seeds
from lspc.runs.statistics import Interval
from lspc.tasks import Task, get_task, normalised_cost, normalised_reward

MARKERS = "osD^vPX"
STYLES = ("-", "--", ":", "-.")
LEGEND_WIDTH = 125
"""Letters in a row below the panels."""
Panels = tuple[Axes, Axes]


class Point(NamedTuple):
    """One policy at one place of the horizontal axis; cost in units of the task's largest budget.

    The ends are the lowest and the highest training seed's.
    """

    reward: Interval
    cost: Interval


def training_curves_figure(runs: Sequence[Path], out: Path) -> None:
    """Reward and cost against updates, a line for each policy and run: colours tell policies, dashes tell runs."""
    if not runs:
        raise UserError("name the runs to draw: lspc figure training-curves runs/latest")
    curves = {run: _read_curve(run) for run in map(Run.open, runs)}
    task = shared_task(curves)
    figure, panels = reward_and_cost(f"Training on {task.name}", task, "updates")
    policies = list(dict.fromkeys(record.policy for records in curves.values() for record in records))
    for number, (run, records) in enumerate(curves.items()):
        for policy, own in group(records, lambda record: record.policy).items():
            groups = group_by_updates(own)
            if not groups:
                path = run.path / layout.CURVE
                raise UserError(f"{path} has {policy} of every seed after no number of updates: train on")
            points = {updates: make_point(some, task) for updates, some in groups.items()}
            place = policies.index(policy)
            several = sum(any(r.policy == policy for r in other) for other in curves.values()) > 1
            name = policy_label(policy) + (f", {run_name(run, curves)}" if several else "")
            draw_line(panels, points, name, place, style=STYLES[number % len(STYLES)])
    finish(figure, panels, out)


def _read_curve(run: Run) -> list[Record]:
    path = run.path / layout.CURVE
    if not path.exists():
        raise UserError(
            f"{run.path} has no {path.name}: train with --evaluate-every N to measure the policies on the way"
        )
    found = [record for record in run.records(path.name) if record.mode == usual_mode(record.policy)]
    if not found:
        raise UserError(f"{path} holds nothing to draw")
    return found


def policy_label(policy: str) -> str:
    return policy if usual_mode(policy) == "deterministic" else f"{policy}, sampled"


def group_by_updates(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Records by updates, where every training seed has some: a mean over fewer seeds would make a false step."""
    # A run that was interrupted may have measured an episode twice: the later one counts.
    episodes = {(record.updates, record.training_seed, record.seed): record for record in records}
    found, seeds = group(episodes.values(), lambda record: record.updates), training_seeds(records)
    return {updates: some for updates, some in sorted(found.items()) if training_seeds(some) == seeds}


def shared_task(measured: Mapping[Run, Sequence[Record]]) -> Task:
    """The task that all these runs are about: the one they were trained for, else the one they were measured on."""
    names = {run: run.task or records[0].task for run, records in measured.items()}
    first, *others = names
    for run in others:
        if names[run] != names[first]:
            raise UserError(
                f"{run.path} is about {names[run]}, {first.path} about {names[first]}: draw them one by one"
            )
    return get_task(names[first])


def run_name(run: Run, among: Mapping[Run, object]) -> str:
    """The folder's name, or its whole path where several are called the same."""
    return run.name if [other.name for other in among].count(run.name) == 1 else str(run.path)


def make_point(records: Sequence[Record], task: Task) -> Point:
    def spread(what: Literal["reward", "cost"]) -> tuple[float, float, float]:
        means = [float(np.mean(values)) for values in returns_by_seed(records, what)]
        return float(np.mean(means)), min(means), max(means)

    reward = (normalised_reward(task, value) for value in spread("reward"))
    cost = (normalised_cost(value, task.thresholds[-1]) for value in spread("cost"))
    return Point(Interval(*reward), Interval(*cost))


def reward_and_cost(title: str, task: Task, across: str) -> tuple[Figure, Panels]:
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
