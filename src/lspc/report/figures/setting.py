"""The paper's ablations of one setting: what lambda, or the expectile, does to every policy."""

from collections.abc import Sequence

import numpy as np

from lspc.errors import UserError
from lspc.report.drawing import MARKERS, SERIES_COLOURS, Panels, finish, new_panels
from lspc.report.figures import Request
from lspc.report.measured import (
    POLICIES,
    check_alike,
    group_unguarded,
    make_point,
    policy_label,
    read_measured,
    select_policy,
    shared_task,
)
from lspc.runs import Record, Run
from lspc.tasks import Task

SETTINGS = {"lambda": ("cost_temperature", "λ"), "expectile": ("expectile", "ξ")}
"""The figure -> the setting and the paper's sign for it."""
INSTEAD_OF = {"cost_temperature": "cost_share"}
"""A setting that has no effect unless the other one is none."""


def draw(asked: Request) -> None:
    """Every policy's reward and cost by the value of one setting, the only one in which the runs differ."""
    setting, symbol = SETTINGS[asked.name]
    measured = read_measured(asked.runs)
    values = _list_values(list(measured), setting)
    task = shared_task(measured)
    figure, panels = new_panels(f"What {symbol} does on {task.name}", task, f"{symbol} ({setting})")
    for place, policy in enumerate(POLICIES):
        groups = []
        for value in values:
            alike = {run: records for run, records in measured.items() if run.config[setting] == value}
            groups.append(select_policy(group_unguarded(alike, task), policy, next(iter(alike))))
        _draw_points(panels, groups, task, policy, place)
    for axes in panels:
        axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)
    finish(figure, panels, asked.out)


def _draw_points(panels: Panels, groups: Sequence[list[Record]], task: Task, policy: str, place: int) -> None:
    """A group for each value, in which every policy has its own place."""
    across = np.arange(len(groups)) + 0.16 * (place - 1)
    points = [make_point(records, task) for records in groups]
    for axes, spreads in zip(panels, zip(*points, strict=True), strict=True):
        means, lows, highs = np.array([(spread.mean, spread.low, spread.high) for spread in spreads]).T
        axes.errorbar(
            across, means, yerr=[means - lows, highs - means], color=SERIES_COLOURS[place], marker=MARKERS[place],
            markersize=8, linestyle=":", linewidth=1, elinewidth=2, capsize=4, label=policy_label(policy),
        )  # fmt: skip


def _list_values(runs: Sequence[Run], setting: str) -> list[float]:
    """The setting's values, smallest first, if it is what tells these runs apart and nothing else is."""
    for run in runs:
        if setting not in run.config:
            raise UserError(f"{run.path} has no setting {setting}: it is a run of {run.method}")
        rival = INSTEAD_OF.get(setting)
        if rival and run.config.get(rival) is not None:
            raise UserError(
                f"{run.path} was trained with {rival} {run.config[rival]:g}, which overrules {setting}: "
                f"train with --{rival.replace('_', '-')} None"
            )
    values = sorted({run.config[setting] for run in runs})
    if len(values) < 2:
        raise UserError(f"name two runs or more that differ in {setting}: all have {values[0]:g}")
    check_alike(runs, (setting,))
    return values
