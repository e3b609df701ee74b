"""The paper's ablation of eps: what LSPC-O earns and costs, the further it may look for reward."""

from collections.abc import Sequence

from lspc.errors import UserError
from lspc.evaluation import usual_mode
from lspc.report.drawing import SERIES_COLOURS, STYLES, Panels, draw_line, finish, new_panels
from lspc.report.figures import Request
from lspc.report.measured import (
    POLICIES,
    evaluate_command,
    group_by_eps,
    group_unguarded,
    list_seeds,
    make_point,
    name_seeds,
    policy_label,
    read_measured,
    select_policy,
    select_seeds,
    shared_task,
)
from lspc.runs import Record
from lspc.runs.record import training_seeds
from lspc.tasks import Task

EPS = "eps: how far LSPC-O may look for reward"


def draw(asked: Request) -> None:
    """LSPC-O over eps, between the bands of the policies that do not depend on it."""
    measured = read_measured(asked.runs)
    (run,), task = measured, shared_task(measured)
    groups = group_unguarded(measured, task)
    swept = group_by_eps(groups, run, "LSPC-O")
    seeds = list_seeds(swept)
    figure, panels = new_panels(f"LSPC-O on {task.name} over eps, {name_seeds(seeds)}", task, EPS)
    draw_line(panels, {eps: make_point(records, task) for eps, records in swept.items()}, "LSPC-O", 0)
    for place, policy in enumerate(POLICIES[1:], start=1):
        records = select_seeds(select_policy(groups, policy, run), seeds)
        if training_seeds(records) != seeds:
            missing = f"{run.path} has no {usual_mode(policy)} {policy} of {name_seeds(seeds)}"
            raise UserError(f"{missing}: {evaluate_command(run.path, policy)}")
        _draw_band(panels, records, task, policy, place)
    finish(figure, panels, asked.out)


def _draw_band(panels: Panels, records: Sequence[Record], task: Task, policy: str, place: int) -> None:
    for axes, spread in zip(panels, make_point(records, task), strict=True):
        axes.axhspan(spread.low, spread.high, color=SERIES_COLOURS[place], alpha=0.18, linewidth=0)
        axes.axhline(spread.mean, color=SERIES_COLOURS[place], linestyle=STYLES[place], label=policy_label(policy))
