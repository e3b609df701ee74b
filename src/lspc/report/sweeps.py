"""The paper's ablations: what eps does to LSPC-O, what the converse order does, and what one setting does to all."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lspc.errors import UserError
from lspc.evaluation import usual_mode
from lspc.report.curves import (
    MARKERS,
    STYLES,
    Panels,
    draw_line,
    finish,
    make_point,
    policy_label,
    reward_and_cost,
    shared_task,
)
from lspc.report.figures import SERIES_COLOURS
from lspc.runs import Record, Run, layout
from lspc.runs.grouping import PolicyKey, group_by_policy, own_restriction
from lspc.runs.record import training_seeds
from lspc.tasks import Task

POLICIES = ("LSPC-O", "LSPC-S", "CVAE")
EPS = "eps: how far LSPC-O may look for reward"
SYMBOLS = {"cost_temperature": "λ", "expectile": "ξ"}
INSTEAD_OF = {"cost_temperature": "cost_share"}
"""A setting that has no effect unless the other one is none."""
Groups = dict[PolicyKey, list[Record]]
Measured = dict[Run, list[Record]]
"""Runs, each with its records."""


def restriction_sweep_figure(path: Path, out: Path) -> None:
    """LSPC-O over eps, between the bands of the policies that do not depend on it."""
    measured = _read([path])
    (run,), task = measured, shared_task(measured)
    groups = _group(measured, task)
    swept = _group_by_eps(groups, run, "LSPC-O")
    seeds = _seeds(swept)
    figure, panels = reward_and_cost(f"LSPC-O on {task.name} over eps, {_told(seeds)}", task, EPS)
    draw_line(panels, {eps: make_point(records, task) for eps, records in swept.items()}, "LSPC-O", 0)
    for place, policy in enumerate(POLICIES[1:], start=1):
        records = _select_seeds(_select_policy(groups, policy, run), seeds)
        if training_seeds(records) != seeds:
            raise UserError(
                f"{path} has no {usual_mode(policy)} {policy} of {_told(seeds)}: {_command(path, policy)}"
            )
        _draw_band(panels, records, task, policy, place)
    finish(figure, panels, out)


def converse_figure(path: Path, converse: Path, out: Path) -> None:
    """LSPC-O and the converse one, whose CVAE is fitted to reward and whose encoder looks for safety, over eps."""
    measured = _read([path, converse])
    runs = list(measured)
    for run, roles in zip(runs, ("safety-first", "converse"), strict=True):
        if run.config.get("roles", "safety-first") != roles:
            raise UserError(f"{run.path} is not a run with roles {roles}: lspc figure converse RUN CONVERSE_RUN")
    _check_alike(runs, ("roles", "restriction"))
    task = shared_task(measured)
    figure, panels = reward_and_cost(f"Safety first and the converse on {task.name}", task, "eps")
    for place, (run, policy) in enumerate(zip(runs, ("LSPC-O", "converse LSPC-O"), strict=True)):
        swept = _group_by_eps(_group({run: measured[run]}, task), run, policy)
        points = {eps: make_point(records, task) for eps, records in swept.items()}
        draw_line(panels, points, f"{policy}, {_told(_seeds(swept))}", place)
    finish(figure, panels, out)


def setting_figure(paths: Sequence[Path], setting: str, out: Path) -> None:
    """Every policy's reward and cost by the value of one setting, the only one in which the runs differ."""
    measured = _read(paths)
    values = _list_values(list(measured), setting)
    task = shared_task(measured)
    symbol = SYMBOLS[setting]
    figure, panels = reward_and_cost(f"What {symbol} does on {task.name}", task, f"{symbol} ({setting})")
    for place, policy in enumerate(POLICIES):
        groups = []
        for value in values:
            alike = {run: records for run, records in measured.items() if run.config[setting] == value}
            groups.append(_select_policy(_group(alike, task), policy, next(iter(alike))))
        _draw_points(panels, groups, task, policy, place)
    for axes in panels:
        axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)
    finish(figure, panels, out)


def _read(paths: Sequence[Path]) -> Measured:
    measured = {run: run.records() for run in map(Run.open, paths)}
    for run, records in measured.items():
        if not records:
            raise UserError(
                f"{run.path} has no {layout.EVALUATIONS}: measure it first with `lspc evaluate {run.path}`"
            )
    return measured


def _group(measured: Measured, task: Task) -> Groups:
    """What was measured without a guard: LSPC-O at any eps."""
    found, _, conflicts = group_by_policy(measured.items(), task.name)
    if conflicts:
        named = " and ".join(str(run.path) for run in measured)
        raise UserError(f"{named}: different results for the same episodes of a training seed, name one of them")
    return {
        key: records for key, records in found.items() if key.mode == usual_mode(key.policy) and key.guard is None
    }


def _select_policy(groups: Groups, policy: str, run: Run) -> list[Record]:
    """The records of one policy, with the run's own eps if it has one."""
    for key, records in groups.items():
        if key.policy == policy and key.restriction == own_restriction(run, policy):
            return records
    raise UserError(f"{run.path} has no {usual_mode(policy)} {policy}: {_command(run.path, policy)}")


def _group_by_eps(groups: Groups, run: Run, policy: str) -> dict[float, list[Record]]:
    """Records by eps: at every eps that all seeds were measured at, else of the seeds that were at every eps."""
    found = {
        key.restriction: records
        for key, records in sorted(groups.items(), key=lambda item: item[0].restriction or 0.0)
        if key.policy == policy and key.restriction is not None
    }
    if len(found) < 2:
        span = run.config.get("restriction_range")
        if span is None:
            raise UserError(f"{run.path} was trained for one eps alone: train with --restriction-range 0.02 2")
        several = " ".join(f"{span[1] * share:g}" for share in (0.25, 0.5, 1))
        command = f"{_command(run.path, policy)} --restrictions {several}"
        raise UserError(f"{run.path} has {policy} at {len(found)} eps, and a sweep needs two: {command}")
    # A mean over other seeds at one eps than at the next would make a false step.
    whole = {eps: records for eps, records in found.items() if training_seeds(records) == _seeds(found)}
    if len(whole) > 1:
        return whole
    seeds = set.intersection(*(training_seeds(records) for records in found.values()))
    if not seeds:
        raise UserError(f"{run.path} has no seed of {policy} that was measured at every eps")
    return {eps: _select_seeds(records, seeds) for eps, records in found.items()}


def _draw_band(panels: Panels, records: Sequence[Record], task: Task, policy: str, place: int) -> None:
    for axes, spread in zip(panels, make_point(records, task), strict=True):
        axes.axhspan(spread.low, spread.high, color=SERIES_COLOURS[place], alpha=0.18, linewidth=0)
        axes.axhline(spread.mean, color=SERIES_COLOURS[place], linestyle=STYLES[place], label=policy_label(policy))


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


def _seeds(swept: Mapping[float, Sequence[Record]]) -> set[int]:
    return set.union(*(training_seeds(records) for records in swept.values()))


def _select_seeds(records: Sequence[Record], seeds: set[int]) -> list[Record]:
    return [record for record in records if record.training_seed in seeds]


def _told(seeds: set[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))}"


def _command(run: Path, policy: str) -> str:
    return f"lspc evaluate {run} --policies {shlex.quote(policy)} --actions {usual_mode(policy)}"


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
        found = f"all have {values[0]:g}" if values else "there are none"
        raise UserError(f"name two runs or more that differ in {setting}: {found}")
    _check_alike(runs, (setting,))
    return values


def _check_alike(runs: Sequence[Run], but: Sequence[str]) -> None:
    """Refuse runs that differ in more than the settings `but`: the picture would not show what those do."""
    first = runs[0]
    for run in runs[1:]:
        here, there = _identify(first), _identify(run)
        for name in dict.fromkeys([*here, *there]):
            one, other = here.get(name, "nothing"), there.get(name, "nothing")
            if name not in (*but, "seeds") and one != other:
                raise UserError(f"{first.path} and {run.path} also differ in {name}: {one} and {other}")


def _identify(run: Run) -> dict[str, object]:
    return {"task": run.task, **run.identity(), "dataset": run.dataset.fingerprint[:12]}
