"""What the figures read of runs: records by policy, eps and seed, and which runs may be compared.

A mean is that of the training seeds' own means; its ends are the lowest seed and the highest.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from lspc.errors import UserError
from lspc.evaluation import usual_mode
from lspc.report.drawing import Point
from lspc.runs import Record, Run, layout
from lspc.runs.grouping import PolicyKey, group_by_policy, own_restriction
from lspc.runs.record import returns_by_seed, training_seeds
from lspc.runs.statistics import Interval
from lspc.tasks import Task, normalised_cost, normalised_reward

POLICIES = ("LSPC-O", "LSPC-S", "CVAE")
"""In the order of their colours."""
Groups = dict[PolicyKey, list[Record]]
Measured = dict[Run, list[Record]]
"""Runs, each with its records."""


def read_measured(paths: Sequence[Path]) -> Measured:
    measured = {run: run.records() for run in map(Run.open, paths)}
    for run, records in measured.items():
        if not records:
            raise UserError(
                f"{run.path} has no {layout.EVALUATIONS}: measure it first with `lspc evaluate {run.path}`"
            )
    return measured


def group_unguarded(measured: Measured, task: Task) -> Groups:
    """What was measured without a guard: LSPC-O at any eps."""
    found, _, conflicts = group_by_policy(measured.items(), task.name)
    if conflicts:
        named = " and ".join(str(run.path) for run in measured)
        raise UserError(f"{named}: different results for the same episodes of a training seed, name one of them")
    return {
        key: records for key, records in found.items() if key.mode == usual_mode(key.policy) and key.guard is None
    }


def select_policy(groups: Groups, policy: str, run: Run) -> list[Record]:
    """The records of one policy, with the run's own eps if it has one."""
    for key, records in groups.items():
        if key.policy == policy and key.restriction == own_restriction(run, policy):
            return records
    raise UserError(f"{run.path} has no {usual_mode(policy)} {policy}: {evaluate_command(run.path, policy)}")


def group_by_eps(groups: Groups, run: Run, policy: str) -> dict[float, list[Record]]:
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
        command = f"{evaluate_command(run.path, policy)} --restrictions {several}"
        raise UserError(f"{run.path} has {policy} at {len(found)} eps, and a sweep needs two: {command}")
    # A mean over other seeds at one eps than at the next would make a false step.
    whole = {eps: records for eps, records in found.items() if training_seeds(records) == list_seeds(found)}
    if len(whole) > 1:
        return whole
    seeds = set.intersection(*(training_seeds(records) for records in found.values()))
    if not seeds:
        raise UserError(f"{run.path} has no seed of {policy} that was measured at every eps")
    return {eps: select_seeds(records, seeds) for eps, records in found.items()}


def list_seeds(swept: Mapping[float, Sequence[Record]]) -> set[int]:
    return set.union(*(training_seeds(records) for records in swept.values()))


def select_seeds(records: Sequence[Record], seeds: set[int]) -> list[Record]:
    return [record for record in records if record.training_seed in seeds]


def name_seeds(seeds: set[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))}"


def evaluate_command(run: Path, policy: str) -> str:
    return f"lspc evaluate {run} --policies {shlex.quote(policy)} --actions {usual_mode(policy)}"


def check_alike(runs: Sequence[Run], but: Sequence[str]) -> None:
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


def shared_task(measured: Mapping[Run, Sequence[Record]]) -> Task:
    """The task that all these runs are about: the one they were trained for, else the one they were measured on."""
    names = {run: run.task or records[0].task for run, records in measured.items()}
    first, *others = names
    for run in others:
        if names[run] != names[first]:
            raise UserError(
                f"{run.path} is about {names[run]}, {first.path} about {names[first]}: draw them one by one"
            )
    return first.find_task(names[first])


def run_name(run: Run, among: Mapping[Run, object]) -> str:
    """The folder's name, or its whole path where several are called the same."""
    return run.name if [other.name for other in among].count(run.name) == 1 else str(run.path)


def policy_label(policy: str) -> str:
    return policy if usual_mode(policy) == "deterministic" else f"{policy}, sampled"


def make_point(records: Sequence[Record], task: Task) -> Point:
    def spread(what: Literal["reward", "cost"]) -> tuple[float, float, float]:
        means = [float(np.mean(values)) for values in returns_by_seed(records, what)]
        return float(np.mean(means)), min(means), max(means)

    reward = (normalised_reward(task, value) for value in spread("reward"))
    cost = (normalised_cost(value, task.thresholds[-1]) for value in spread("cost"))
    return Point(Interval(*reward), Interval(*cost))
