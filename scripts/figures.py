"""What the figures of docs/figures.md show, in numbers, from the raw records in results/.

python scripts/figures.py [TASK ...]

A line for each run, policy and eps: mean reward and cost, and the cost of each training seed.
"""

import sys
from typing import Any

import numpy as np
from table import RESULTS

from lspc import files
from lspc.evaluation import usual_mode
from lspc.runs.layout import EVALUATIONS
from lspc.tasks import get_task, normalised_reward


def main() -> None:
    print("| task | run | policy | eps | reward | cost | cost of each seed |")
    print("|---|---|---|---|---|---|---|")
    for task in map(get_task, sys.argv[1:] or ("BallCircle", "CarRun")):
        for path in sorted((RESULTS / task.name / "figures").glob(f"*/{EVALUATIONS}")):
            groups: dict[tuple[str, Any], dict[int, list[dict[str, Any]]]] = {}
            for record in files.read_jsonl(path):
                if record["mode"] == usual_mode(record["policy"]):
                    group = groups.setdefault((record["policy"], record["restriction"]), {})
                    group.setdefault(record["training_seed"], []).append(record)
            for (policy, eps), seeds in groups.items():
                reward = np.mean([np.mean([r["reward_return"] for r in some]) for some in seeds.values()])
                costs = [float(np.mean([r["cost_return"] for r in some])) for some in seeds.values()]
                print(
                    f"| {task.name} | {path.parent.name} | {policy} | {'' if eps is None else f'{eps:g}'} "
                    f"| {normalised_reward(task, float(reward)):.2f} | {np.mean(costs):.1f} "
                    f"| {', '.join(f'{cost:.1f}' for cost in costs)} |"
                )


if __name__ == "__main__":
    main()
