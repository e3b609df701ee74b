"""Calibrating a run: its eps for each budget, from the data it learned from, checked in the simulator if wanted."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lspc import files, lanes
from lspc.calibration import check, dynamics, fitted_q, storage
from lspc.calibration.choosing import RULES, Calibration, Choice, check_budget, round_risk
from lspc.calibration.pipeline import calibrate_policy
from lspc.data import Dataset, cost_warning
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.runs import Run
from lspc.tasks import Task, get_task
from lspc.version import __version__

OnStage = Callable[[str, int, int], None]
"""Hears what is done, how much of it, and of how much."""


class CalibratedRun(NamedTuple):
    calibration: Calibration
    choices: list[Choice]
    """One for each budget."""
    verification: check.Verification | None
    task: Task | None
    stored: bool = False
    """Whether the curve was there already."""


def calibrate_run(
    run: str | Path,
    dataset: Dataset | None = None,
    *,
    budgets: Sequence[float] = (),
    risk: float | None = None,
    seed: int | None = None,
    updates: int = 6_000,
    verify: bool = False,
    episodes: int = 50,
    on_stage: OnStage = lambda what, done, total: None,
    on_warning: Callable[[str], None] = warnings.warn,
) -> CalibratedRun:
    """Predict cost and reward at every eps and choose one for each budget, the task's unless given.

    A budget is kept by the mean cost of an episode; with a `risk`, by all episodes but so many.
    `dataset` must be the one the run learned from; it is looked for where the run found it unless given. The curve
    does not depend on the budgets: one beside the policy, made by this version's rules with as many updates, is used
    again.
    `on_warning` hears what is odd about data that were looked for.
    """
    for budget in budgets:
        check_budget(budget)
    lanes.use_one_device_per_lane(fitted_q.Config.members)
    opened = Run.open(run)
    policy = load_policy(run, seed=seed)
    task = get_task(opened.task) if opened.task else None
    if verify and task is None:
        raise UserError(f"{run} was not trained for a task: there is no simulator to verify it in")
    if risk is not None:
        round_risk(risk)
    dataset = None if dataset is None else opened.bound_actions(dataset)
    found = _find_stored(policy, dataset, updates)
    if stored := found is not None:
        on_stage("stored curve", 1, 1)
        lacking = cost_warning(np.asarray(found.episode_costs), "episodes")
        if lacking and dataset is None:
            on_warning(f"{opened.dataset.source}: {lacking}")
    else:
        found = calibrate_policy(
            policy, dataset or opened.require_dataset(on_warning=on_warning),
            dynamics_config=dynamics.Config(updates=updates), fitted_q_config=fitted_q.Config(updates=updates),
            on_progress=on_stage,
        )  # fmt: skip
    opened.remember_budgets(budgets)
    budgets = budgets or opened.budgets(task)
    verified = _verify(opened.path, task, found, budgets, risk, episodes, on_stage) if verify and task else None
    return CalibratedRun(found, [found.choose(budget, risk) for budget in budgets], verified, task, stored)


def _find_stored(policy: TrainedPolicy, dataset: Dataset | None, updates: int) -> Calibration | None:
    """The curve beside the policy, if it is what would be made now."""
    learned_from = policy.card["dataset"]["fingerprint"]
    if policy.folder is None or (dataset is not None and dataset.fingerprint != learned_from):
        return None
    try:
        found = storage.load(policy.folder)
    except UserError:  # none, or one of another policy or version
        return None
    wanted = files.as_json(asdict(fitted_q.Config(updates=updates)))
    as_now = (found.lspc_version, found.rules, files.as_json(found.settings)) == (__version__, RULES, wanted)
    return found if as_now else None


def _verify(
    run: Path,
    task: Task,
    found: Calibration,
    budgets: Sequence[float],
    risk: float | None,
    episodes: int,
    on_stage: OnStage,
) -> check.Verification:
    stage, done, total = "", 0, 0

    def start(what: str, count: int) -> None:
        nonlocal stage, done, total
        stage, done, total = f"verifying {what}", 0, count
        on_stage(stage, done, total)

    def advance() -> None:
        nonlocal done
        done += 1
        on_stage(stage, done, total)

    return check.verify(run, task, found, budgets, risk=risk, episodes=episodes, on_start=start, on_episode=advance)
