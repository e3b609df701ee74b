"""The paper's transfer figure: policies trained on one road and traffic, measured on all of them."""

import numpy as np
from matplotlib.axes import Axes

from lspc.errors import UserError
from lspc.evaluation import Summary, summarise
from lspc.report.drawing import BUDGET_COLOUR, SERIES_COLOURS, TEXT_COLOUR, new_figure, save, tidy
from lspc.report.figures import Request
from lspc.runs import Run, layout
from lspc.runs.record import group
from lspc.tasks import all_tasks, get_task


def draw(asked: Request) -> None:
    """Bars for each task (reward plain, cost hatched) and each run; lines are the cost budgets."""
    runs, policy = asked.runs, asked.policy
    opened = [Run.open(run) for run in runs]
    measured = [_summarise(run, policy) for run in opened]
    tasks = [task for task in all_tasks() if any(task.name in rows for rows in measured)]
    for run, rows in zip(runs, measured, strict=True):
        missing = [task.name for task in tasks if task.name not in rows]
        if missing:
            raise UserError(
                f"{run} has no {policy} on {', '.join(missing)}: lspc evaluate {run} --on {' '.join(missing)}"
            )
    figure = new_figure(2 + 1.1 * len(tasks), 4.2)
    axes: Axes = figure.subplots()
    width = 0.8 / (2 * len(runs))
    top = tasks[0].thresholds[-1]
    for number, (run, rows) in enumerate(zip(opened, measured, strict=True)):
        colour = SERIES_COLOURS[number % len(SERIES_COLOURS)]
        summaries = [rows[task.name] for task in tasks]
        rewards = np.array([[s.reward.mean, s.reward.low, s.reward.high] for s in summaries])
        costs = np.array([[s.raw_cost.mean, s.raw_cost.low, s.raw_cost.high] for s in summaries]) / top
        places = np.arange(len(tasks)) + (2 * number - len(runs) + 0.5) * width
        trained = run.task or run.name
        for values, shift, hatch, what in ((rewards, 0.0, "", "reward"), (costs, width, "///", "cost")):
            spread = np.abs(values[:, 1:].T - values[:, 0])
            axes.bar(places + shift, values[:, 0], width, color=colour if not hatch else "white", edgecolor=colour,
                     hatch=hatch, yerr=spread, ecolor="#888888", label=f"{what}, trained on {trained}")  # fmt: skip
    for threshold in tasks[0].thresholds:
        axes.axhline(threshold / top, color=BUDGET_COLOUR, linestyle="--", linewidth=1.2)
        axes.annotate(f"budget {threshold}", (1.0, threshold / top), xycoords=("axes fraction", "data"),
                      xytext=(4, -3), textcoords="offset points", color=BUDGET_COLOUR, fontsize=9)  # fmt: skip
    axes.set_xticks(range(len(tasks)), [task.name for task in tasks], rotation=20, ha="right")
    axes.set_ylabel(f"normalised reward; cost / {top}")
    axes.set_title(f"{policy}: zero-shot transfer", color=TEXT_COLOUR, fontweight="bold")
    tidy(axes)
    axes.legend(ncols=2, framealpha=0.95)
    save(figure, asked.out)


def _summarise(run: Run, policy: str) -> dict[str, Summary]:
    """Task name to what was measured of the deterministic policy there."""
    path = run.path / layout.EVALUATIONS
    if not path.exists():
        raise UserError(f"{run.path} has no {path.name}: measure it first with `lspc evaluate {run.path}`")
    chosen = [record for record in run.records() if (record.policy, record.mode) == (policy, "deterministic")]
    if not chosen:
        raise UserError(f"{path} holds nothing about {policy}")
    by_task = group(chosen, lambda record: record.task)
    return {name: summarise(records, get_task(name))[0] for name, records in by_task.items()}
