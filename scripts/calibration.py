"""The tables of docs/calibration.md as Markdown, from what `lspc calibrate --verify --json` printed for each seed.

lspc calibrate runs/TASK/run --seed SEED --budget 5 10 20 40 --verify --episodes 20 --json > RECORDS/TASK-SEED.json
python scripts/calibration.py [RECORDS]
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from lspc import files

RECORDS = Path(__file__).parents[1] / "results" / "calibration"
TASKS = (
    "BallCircle", "BallRun", "CarRun", "CarCircle", "HalfCheetahVelocity", "SwimmerVelocity", "CarGoal1",
    "PointButton1", "easysparse", "mediummean",
)  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    found = {name: [files.read_json(path) for path in sorted(folder.glob(f"{name}-[0-9].json"))] for name in TASKS}
    measured = {name: records for name, records in found.items() if records}
    print_choices(measured)
    print_errors(measured)


def print_choices(measured: dict[str, list[dict[str, Any]]]) -> None:
    print("| task | budget | eps | predicted cost, at most | true cost | lost |")
    print("|---|---|---|---|---|---|")
    kept: list[bool] = []
    lost: list[float] = []
    refused = 0
    for name, records in measured.items():
        for place, choice in enumerate(records[0]["choices"]):
            choices = [record["choices"][place] for record in records]
            verdicts = [record["verification"]["verdicts"][place] for record in records]
            chosen = [pair for pair in zip(choices, verdicts, strict=True) if pair[0]["restriction"] is not None]
            # An eps that is refused although another would have kept the budget; otherwise nothing was there.
            refused += sum(
                verdict["best_reward"] is not None and one["restriction"] is None
                for one, verdict in zip(choices, verdicts, strict=True)
            )
            kept += [verdict["kept"] for _, verdict in chosen]
            lost += [verdict["reward_lost"] for _, verdict in chosen if verdict["reward_lost"] is not None]
            cells = [
                [("none" if one["restriction"] is None else f"{one['restriction']:.2f}") for one in choices],
                ["-" if one["restriction"] is None else f"{one['cost']['high']:.1f}" for one in choices],
                ["-" if each["cost"] is None else f"{each['cost']:.1f}" for each in verdicts],
                ["-" if each["reward_lost"] is None else f"{each['reward_lost']:.0%}" for each in verdicts],
            ]
            print(f"| {name} | {choice['budget']:g} | " + " | ".join(", ".join(cell) for cell in cells) + " |")
    print(
        f"\nkept: {sum(kept)} of {len(kept)} chosen; refused although an eps would have fitted: {refused}; "
        f"reward lost: {np.mean(lost):.1%} on average, {np.median(lost):.1%} in the median, {max(lost):.0%} at most\n"
    )


def print_errors(measured: dict[str, list[dict[str, Any]]]) -> None:
    print(
        "| task | costs inside their interval | rewards inside theirs | error of cost, models | fitted Q evaluation |"
    )
    print("|---|---|---|---|---|")
    for name, records in measured.items():
        true = np.array([[truth["cost"] for truth in record["verification"]["truths"]] for record in records])
        curves = [record["calibration"]["curve"] for record in records]
        models = np.array([[point["cost"]["mean"] for point in curve] for curve in curves])
        fitted = np.array([[point["fitted_cost"] for point in curve] for curve in curves])
        shares = [
            np.mean([record["verification"][f"{signal}_coverage"] for record in records])
            for signal in ("cost", "reward")
        ]
        errors = [np.abs(predicted - true).mean() for predicted in (models, fitted)]
        print(f"| {name} | {shares[0]:.0%} | {shares[1]:.0%} | {errors[0]:.1f} | {errors[1]:.1f} |")


if __name__ == "__main__":
    main()
