"""A calibration against the simulator: were the predictions right, and what did choosing without trying cost?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lspc import evaluation
from lspc.calibration.choosing import Calibration
from lspc.runs import layout
from lspc.runs.record import Record, group
from lspc.tasks import Task


@dataclass(frozen=True)
class Truth:
    """What LSPC-O does at one eps in the simulator."""

    restriction: float
    cost: float
    reward: float
    cost_inside: bool
    """Whether the mean cost lies in the predicted interval."""
    reward_inside: bool
    costs: tuple[float, ...] = ()
    """Of the single episodes."""

    def keeps(self, budget: float, risk: float | None) -> bool:
        """On average; with a `risk`, in all episodes but so many."""
        return self.cost <= budget if risk is None else float(np.mean(np.array(self.costs) > budget)) <= risk


@dataclass(frozen=True)
class Verdict:
    """One budget: what was chosen from data alone, beside the best choice made with the simulator."""

    budget: float
    restriction: float | None
    cost: float | None
    reward: float | None
    kept: bool
    """The chosen eps keeps the budget, on average or at the risk asked for; true when none was chosen."""
    best_restriction: float | None
    best_reward: float | None
    reward_lost: float | None
    """Share of the best choice's normalised reward that was missed."""


@dataclass(frozen=True)
class Verification:
    episodes: int
    truths: tuple[Truth, ...]
    verdicts: tuple[Verdict, ...]
    cost_coverage: float
    reward_coverage: float


def verify(
    run: str | Path,
    task: Task,
    calibration: Calibration,
    budgets: Sequence[float],
    *,
    risk: float | None = None,
    episodes: int = 50,
    workers: int | None = None,
    on_start: Callable[[str, int], None] | None = None,
    on_episode: Callable[[], None] | None = None,
) -> Verification:
    """Roll LSPC-O out at every eps of the curve; the raw episodes go to the run's verification.jsonl."""
    records = evaluation.evaluate(
        run, task, episodes=episodes, variants=("LSPC-O",), modes=("deterministic",),
        restrictions=[point.restriction for point in calibration.curve], seeds=[calibration.training_seed],
        records_file=layout.VERIFICATION, workers=workers, on_start=on_start, on_episode=on_episode,
    )  # fmt: skip
    return compare(records, task, calibration, budgets, risk)


def compare(
    records: Sequence[Record],
    task: Task,
    calibration: Calibration,
    budgets: Sequence[float],
    risk: float | None = None,
) -> Verification:
    """What was predicted beside what these episodes were, at every eps and for every budget."""
    truths, measured = [], group(records, lambda record: record.restriction)
    for point in calibration.curve:
        own = measured[point.restriction]
        cost = float(np.mean([record.cost_return for record in own]))
        reward = float(np.mean([record.reward_return for record in own]))
        inside = point.cost.low <= cost <= point.cost.high, point.reward.low <= reward <= point.reward.high
        truths.append(Truth(point.restriction, cost, reward, *inside, tuple(record.cost_return for record in own)))
    return Verification(
        episodes=len(records) // len(truths),
        truths=tuple(truths),
        verdicts=tuple(_compare_choice(budget, task, calibration, truths, risk) for budget in budgets),
        cost_coverage=float(np.mean([truth.cost_inside for truth in truths])),
        reward_coverage=float(np.mean([truth.reward_inside for truth in truths])),
    )


def _compare_choice(
    budget: float, task: Task, calibration: Calibration, truths: Sequence[Truth], risk: float | None
) -> Verdict:
    chosen = calibration.choose(budget, risk).restriction
    own = next((truth for truth in truths if truth.restriction == chosen), None)
    best = max((truth for truth in truths if truth.keeps(budget, risk)), key=lambda t: t.reward, default=None)
    lost = None
    if best is not None and own is not None and best.reward > task.reward_min:
        lost = max(0.0, (best.reward - own.reward) / (best.reward - task.reward_min))
    return Verdict(
        budget=budget,
        restriction=chosen,
        cost=own.cost if own else None,
        reward=own.reward if own else None,
        kept=own is None or own.keeps(budget, risk),
        best_restriction=best.restriction if best else None,
        best_reward=best.reward if best else None,
        reward_lost=lost,
    )
