"""The tables of docs/calibration.md as Markdown, from the JSON that `lspc calibrate --verify --json` printed.

python scripts/calibration.py [TASK ...]
"""

import sys
from pathlib import Path

import numpy as np

from lspc import files
from lspc.tasks import get_task, normalised_reward

RECORDS = Path(__file__).parents[1] / "results" / "calibration"
TASKS = ("BallCircle", "BallRun", "CarRun", "CarCircle", "HalfCheetahVelocity")


def main() -> None:
    names = [name for name in sys.argv[1:] or TASKS if (RECORDS / f"{name}.json").exists()]
    kept, lost, covered = [], [], []
    print("| task | budget | eps | predicted cost | true cost | reward | best eps | best reward | lost |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        task, found = get_task(name), files.read_json(RECORDS / f"{name}.json")
        for choice, verdict in zip(found["choices"], found["verification"]["verdicts"], strict=True):
            cells = [name, f"{choice['budget']:g}"]
            best = verdict["best_reward"]
            if choice["restriction"] is None:
                cells += ["none", "-", "-", "-"]
            else:
                cost = choice["cost"]
                told = f"{cost['mean']:.1f} [{cost['low']:.1f}, {cost['high']:.1f}]"
                reward = normalised_reward(task, verdict["reward"])
                cells += [f"{choice['restriction']:.2f}", told, f"{verdict['cost']:.1f}", f"{reward:.2f}"]
                kept.append(verdict["kept"])
            cells += ["-", "-"] if best is None else [
                f"{verdict['best_restriction']:.2f}", f"{normalised_reward(task, best):.2f}"
            ]  # fmt: skip
            cells.append("-" if verdict["reward_lost"] is None else f"{verdict['reward_lost']:.0%}")
            if verdict["reward_lost"] is not None:
                lost.append(verdict["reward_lost"])
            print("| " + " | ".join(cells) + " |")
        covered.append((name, found["verification"]))
    print(f"\nbudgets kept: {sum(kept)} of {len(kept)}; reward lost on average {np.mean(lost):.0%}\n")
    print("| task | costs inside their interval | mean error of cost, models | fitted Q evaluation |")
    print("|---|---|---|---|")
    for name, verified in covered:
        curve = files.read_json(RECORDS / f"{name}.json")["calibration"]["curve"]
        true = np.array([truth["cost"] for truth in verified["truths"]])
        models = np.abs(np.array([point["cost"]["mean"] for point in curve]) - true).mean()
        fitted = np.abs(np.array([point["fitted_cost"] for point in curve]) - true).mean()
        print(f"| {name} | {verified['cost_coverage']:.0%} | {models:.1f} | {fitted:.1f} |")


if __name__ == "__main__":
    main()
