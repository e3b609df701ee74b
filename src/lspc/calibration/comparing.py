"""Policies of any runs and methods judged by the same models, from data alone: which one for a budget?

LSPC-O is judged at every eps, and its eps count from the smallest up to the first that does not fit; every other
policy of a run is judged as it is. All of it is an estimate: the more policies are compared, the likelier one of them
is underrated, and nothing here corrects for their number.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lspc import lanes
from lspc.algos.lspc import LspcPolicy
from lspc.calibration import dynamics
from lspc.calibration.choosing import Estimate, explain_lack
from lspc.calibration.families import LspcFamily, OnePolicy
from lspc.calibration.pipeline import POINTS, OffPolicyEvaluator, Progress, fit_evaluator
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.runs import Run
from lspc.runs.statistics import Interval


@dataclass(frozen=True)
class Candidate:
    """One policy, what is estimated of it, and whether it keeps the budget as far as the logs tell."""

    run: str
    method: str
    policy: str
    """Which of the run's: LSPC-O, LSPC-S, or what the method calls it."""
    restriction: float | None
    """LSPC-O's eps."""
    cost: Interval
    reward: Interval
    beyond: bool
    """Whether it leaves what the data know."""
    fits: bool = False


@dataclass(frozen=True)
class Comparison:
    budget: float
    chosen: Candidate | None
    candidates: tuple[Candidate, ...]
    """In the order of their runs; LSPC-O from its smallest eps upward."""
    why: str


def choose_policy(
    runs: Sequence[str | Path],
    budget: float,
    dataset: Dataset | None = None,
    *,
    seed: int | None = None,
    updates: int = 6_000,
    on_progress: Progress | None = None,
    on_warning: Callable[[str], None] = warnings.warn,
) -> Comparison:
    """Of all the runs' policies that are estimated to keep the budget, the one with the most predicted reward.

    All runs must have learned from the same data, which are looked for where the first found them unless given:
    `on_warning` then hears what is odd about them.
    """
    if not np.isfinite(budget) or budget < 0:
        raise UserError(f"a budget must be a number of 0 or more, not {budget}")
    lanes.use_one_device_per_lane(dynamics.Config.members)
    opened = [Run.open(run) for run in runs]
    if not opened:
        raise UserError("name one run or more to choose from")
    for other in opened[1:]:
        if other.dataset.fingerprint != opened[0].dataset.fingerprint:
            raise UserError(f"{other.path} did not learn from the data of {opened[0].path}: they cannot be compared")
    data = opened[0].bound_actions(dataset) if dataset else opened[0].require_dataset(on_warning=on_warning)
    if data.fingerprint != opened[0].dataset.fingerprint:
        raise UserError(f"{data.source} is not the data that the runs learned from: their fingerprints differ")
    evaluator = fit_evaluator(
        data.scale_actions(), held_out=_find_held_out(opened, on_warning),
        config=dynamics.Config(updates=updates), on_progress=on_progress,
    )  # fmt: skip
    lacking = evaluator.doubt or explain_lack(data.cost_returns.tolist(), budget, evaluator.cost_margin.unit)
    estimates = [estimate_policies(evaluator, load_policy(run.path, seed=seed), run.name) for run in opened]
    candidates = tuple(candidate for some in estimates for candidate in mark_fitting(some, budget))
    fitting = [candidate for candidate in candidates if candidate.fits]
    best = None if lacking else max(fitting, key=lambda candidate: candidate.reward.mean, default=None)
    return Comparison(budget, best, candidates, lacking or explain(best, candidates))


def _find_held_out(runs: Sequence[Run], on_warning: Callable[[str], None]) -> float:
    """The share of episodes that none of the runs has seen: another share is of other episodes, not of more."""
    shares = sorted({run.dataset.held_out for run in runs})
    if len(shares) == 1:
        return shares[0]
    on_warning(
        f"the runs held out different shares of the episodes ({', '.join(f'{share:g}' for share in shares)}), so "
        "none are held out here: the models are checked on episodes that policies have learned from"
    )
    return 0.0


def estimate_policies(evaluator: OffPolicyEvaluator, policy: TrainedPolicy, name: str) -> list[Candidate]:
    """Every policy in one run; LSPC-O from its smallest eps upward."""

    def describe(variant: str, eps: float | None, told: Estimate) -> Candidate:
        return Candidate(name, policy.card["method"], variant, eps, told.cost, told.reward, told.beyond)

    found, net = [], policy.net
    for variant in net.variants:
        if isinstance(net, LspcPolicy) and variant == "LSPC-O" and "LSPC-S" in net.variants:
            family = LspcFamily(net)
            low, high = family.range
            grid = np.linspace(low, high, POINTS if low < high else 1)
            told = evaluator.estimate(family, grid)
            found += [describe(variant, round(float(eps), 6), each) for eps, each in zip(grid, told, strict=True)]
        else:
            found.append(describe(variant, None, evaluator.estimate(OnePolicy(net, variant), np.zeros(1))[0]))
    return found


def mark_fitting(candidates: Sequence[Candidate], budget: float) -> list[Candidate]:
    """Those of one run; of LSPC-O's eps only those before the first that does not fit."""
    marked, goes_on = list[Candidate](), True
    for each in candidates:
        fits = not each.beyond and each.cost.high <= budget
        if each.restriction is not None:
            goes_on = fits = goes_on and fits
        marked.append(replace(each, fits=fits))
    return marked


def explain(best: Candidate | None, candidates: Sequence[Candidate]) -> str:
    if best is None:
        safest = min(candidates, key=lambda candidate: candidate.cost.high)
        return f"none fits: the safest, {name_policy(safest)}, may cost {safest.cost.high:.3g} by estimates from logs"
    return (
        f"{name_policy(best)}: cost estimated from logs {best.cost.mean:.3g} (at most {best.cost.high:.3g}), reward "
        f"{best.reward.mean:.4g}; an estimate, best of {len(candidates)}: `lspc pilot` proves what LSPC-O costs"
    )


def name_policy(candidate: Candidate) -> str:
    eps = "" if candidate.restriction is None else f" at eps {candidate.restriction:.3g}"
    return f"{candidate.run}'s {candidate.policy}{eps}"
