"""The ten methods on collected BallCircle and CarRun beside the paper's figures, as Markdown, from the raw records.

python scripts/methods.py        (the runs: scripts/run.sh; one seed of the baselines, three of LSPC)
"""

import csv

import numpy as np
from table import RESULTS, by_seed

from lspc import files
from lspc.tasks import Task, get_task, normalised_cost, normalised_reward

PAPER = RESULTS.parent / "tests" / "bench" / "paper_tables.csv"
CELLS = {
    "BC": "bc",
    "BC-Safe": "bc-{}",
    "BCQ-Lag": "bcq_lag-{}",
    "BEAR-Lag": "bear_lag-{}",
    "CPQ": "cpq-{}",
    "COptiDICE": "coptidice-{}",
    "CDT": "cdt-{}",
    "FISOR": "fisor",
}
"""Method -> its cell in the bench; {} is the budget it was trained for."""


def measured(task: Task, method: str) -> tuple[float, list[float]]:
    """Mean normalised reward over the budgets, and the mean raw cost of the policy for each budget."""
    rewards, costs = [], []
    for budget in task.thresholds:
        if method in CELLS:
            path, policy = RESULTS / task.name / "bench" / f"{CELLS[method].format(budget)}-seeds-0-0", None
        else:
            path, policy = RESULTS / task.name / "lspc", method
        records = [r for r in files.read_jsonl(path / "evaluations.jsonl") if r["task"] == task.name]
        policy = policy or records[0]["policy"]
        returned, paid = (by_seed(records, policy, field) for field in ("reward_return", "cost_return"))
        rewards.append(np.mean([normalised_reward(task, r.mean()) for r in returned]))
        costs.append(float(np.mean([c.mean() for c in paid])))
    return float(np.mean(rewards)), costs


def main() -> None:
    with PAPER.open() as file:
        paper = {(r["task"], r["method"]): r for r in csv.DictReader(file) if r["table"] == "bullet"}
    print(
        "| task | method | reward | cost | cost of an episode at budget 10 / 20 / 40 | paper: reward | paper: cost |"
    )
    print("|---|---|---|---|---|---|---|")
    for task in map(get_task, ("BallCircle", "CarRun")):
        for method in (*CELLS, "LSPC-S", "LSPC-O"):
            reward, costs = measured(task, method)
            cost = np.mean([normalised_cost(c, k) for c, k in zip(costs, task.thresholds, strict=True)])
            ours, theirs = "**" if cost < 1 else "", paper[task.name, method]
            mark = "**" if float(theirs["norm_cost"]) < 1 else ""
            each = " / ".join(f"{c:.1f}" for c in costs)
            print(
                f"| {task.name} | {ours}{method}{ours} | {reward:.2f} | {ours}{cost:.2f}{ours} | {each} "
                f"| {float(theirs['norm_reward']):.2f} | {mark}{float(theirs['norm_cost']):.2f}{mark} |"
            )


if __name__ == "__main__":
    main()
