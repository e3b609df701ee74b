"""The tables of docs/results.md and docs/simulators.md as Markdown, computed from the raw records in results/.

python scripts/table.py [TASK ...]        (without a task: the four of Bullet)
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from lspc import files
from lspc.runs.statistics import Interval, bootstrap
from lspc.tasks import Task, get_task, normalised_cost, normalised_reward

RESULTS = Path(__file__).parents[1] / "results"
TASKS = ("BallCircle", "BallRun", "CarRun", "CarCircle")
LABELS = {
    "lspc": "",
    "mask": ", mask 0.02",
    "default": ", `default` (0.1)",
    "paper": ", `paper` (0.1)",
    "official": ", `official` (0.1)",
}
"""Run folder -> what it is called after the policy's name; 0.1 is the version that made it."""
Groups = dict[float, list[np.ndarray]]
"""Threshold -> one array of values per training seed."""


def by_seed(records: list[dict[str, Any]], policy: str, field: str) -> list[np.ndarray]:
    """One array for each training seed, of the policy's deterministic actions."""
    chosen = [r for r in records if r["policy"] == policy and r["mode"] == "deterministic"]
    chosen = [r for r in chosen if r.get("restriction") is None and r.get("guard") is None]
    seeds = sorted({r["training_seed"] for r in chosen})
    return [np.array([r[field] for r in chosen if r["training_seed"] == seed]) for seed in seeds]


def row(name: str, task: Task, returns: Groups, costs: Groups, best: dict[str, float | None]) -> str:
    """One line: for each threshold the policy made for it, then the average over the thresholds."""
    reward = _mean_over_thresholds({k: [normalised_reward(task, g) for g in returns[k]] for k in task.thresholds})
    cost = _mean_over_thresholds({k: [normalised_cost(g, k) for g in costs[k]] for k in task.thresholds})
    each = [np.concatenate(costs[k]) for k in task.thresholds]
    at = " / ".join(f"{normalised_cost(float(c.mean()), k):.2f}" for c, k in zip(each, task.thresholds, strict=True))
    over = " / ".join(f"{100 * (c > k).mean():.0f}" for c, k in zip(each, task.thresholds, strict=True))
    raw = np.mean([c.mean() for c in each])
    tightest = task.thresholds[0]
    yardstick = best[str(tightest)]
    share = "-"
    if yardstick is not None:
        mean = np.mean([normalised_reward(task, float(g.mean())) for g in returns[tightest]])
        share = f"{100 * mean / normalised_reward(task, yardstick):.0f} %"
    mark = "**" if cost.mean < 1 else ""
    return (
        f"| {task.name} | {mark}{name}{mark} | {_show(reward)} | {mark}{_show(cost)}{mark} | {at} | {raw:.1f} "
        f"| {over} | {share} |"
    )


def _mean_over_thresholds(groups: Groups) -> Interval:
    per_seed = [np.mean(seed, axis=0) for seed in zip(*groups.values(), strict=True)]
    return bootstrap(per_seed)


def _show(interval: Interval) -> str:
    return f"{interval.mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def same(values: list[np.ndarray], task: Task) -> Groups:
    """A policy that does not depend on the threshold serves for all of them."""
    return dict.fromkeys(task.thresholds, values)


def rows(task: Task) -> list[str]:
    folder = RESULTS / task.name
    best = files.read_json(folder / "data.json")["best_return_within_threshold"]
    lines = []
    for run, label in LABELS.items():
        path = folder / run / "evaluations.jsonl"
        if not path.exists():
            continue
        records = [record for record in files.read_jsonl(path) if record["task"] == task.name]
        for policy in ("LSPC-S", "LSPC-O"):
            returns, costs = (by_seed(records, policy, f) for f in ("reward_return", "cost_return"))
            lines.append(row(policy + label, task, same(returns, task), same(costs, task), best))
    runs = {k: folder / f"bc-{k}" / "evaluations.jsonl" for k in ("all", *task.thresholds)}
    if all(path.exists() for path in runs.values()):
        read = {k: files.read_jsonl(path) for k, path in runs.items()}

        def field(k: float | str, name: str) -> list[np.ndarray]:
            return by_seed(read[k], read[k][0]["policy"], name)

        returns, costs = field("all", "reward_return"), field("all", "cost_return")
        lines.append(row("BC", task, same(returns, task), same(costs, task), best))
        safe_returns: Groups = {k: field(k, "reward_return") for k in task.thresholds}
        safe_costs: Groups = {k: field(k, "cost_return") for k in task.thresholds}
        lines.append(row("BC-Safe", task, safe_returns, safe_costs, best))
    return lines


def main() -> None:
    print("| task | policy | reward | cost | cost at each budget | raw cost | % over each budget | of best |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or TASKS:
        if (RESULTS / name / "data.json").exists():
            print("\n".join(rows(get_task(name))))


if __name__ == "__main__":
    main()
