"""The tables of docs/calibration.md, "Measured in simulators", as Markdown, from the records of scripts/safety.py.

    python scripts/safety.py --data runs --out results/safety --methods lspc choose --tasks BallCircle
    python scripts/calibration.py [RECORDS]

For each training seed and budget, what was chosen from the data alone, its true cost, and how much more the best
policy played of the same run returns that does keep the budget; then the estimates beside the truth.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from lspc import files
from lspc.algos.lspc import Config

RECORDS = Path(__file__).parents[1] / "results" / "safety"
Rows = list[dict[str, Any]]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    records = [files.read_json(path) for path in sorted(folder.glob("*.json"))]
    measured = {record["task"]: record["methods"] for record in records if "choose" in record["methods"]}
    print_choices(measured)
    compare_with_default(measured)
    print_errors(measured)


def print_choices(measured: dict[str, dict[str, Any]]) -> None:
    print("| task | budget | chosen | cost at most | true cost | lost |")
    print("|---|---|---|---|---|---|")
    kept: list[bool] = []
    lost: list[float] = []
    refused = 0
    for task, methods in measured.items():
        played = list_played(methods)
        answers = [row for row in methods["choose"]["rows"] if row["policy"] == "chosen"]
        budgets, named = sorted({row["budgets"][0] for row in answers}), any(row["costs"] for row in answers)
        if not named:
            print(f"| {task} | {', '.join(f'{budget:g}' for budget in budgets)} | none | - | - | - |")
        for budget in budgets:
            cells: list[list[str]] = [[], [], [], []]
            for row in (row for row in answers if row["budgets"] == [budget]):
                best = find_best(played, row["seed"], budget)
                if not row["costs"]:
                    refused += best is not None
                    texts = ["none", "-", "-", "-"]
                else:
                    cost = float(np.mean(row["costs"]))
                    kept.append(cost <= budget)
                    name = row["chosen"] if row["eps"] is None else f"{row['eps']:.2f}"
                    texts = [name, f"{estimate(methods, row)['high']:.1f}", f"{cost:.1f}", "-"]
                    if best is not None and best > 0:
                        lost.append(max(0.0, 1 - float(np.mean(row["returns"])) / best))
                        texts[3] = f"{lost[-1]:.0%}"
                for cell, text in zip(cells, texts, strict=True):
                    cell.append(text)
            if named:
                print(f"| {task} | {budget:g} | " + " | ".join(", ".join(cell) for cell in cells) + " |")
    print(
        f"\nkept: {sum(kept)} of {len(kept)} chosen; refused although a policy would have fitted: {refused}; "
        f"reward lost: {np.mean(lost):.1%} on average, {np.median(lost):.1%} in the median, {max(lost):.0%} at most\n"
    )


def compare_with_default(measured: dict[str, dict[str, Any]]) -> None:
    """What is named beside LSPC-O at its default eps: how often each keeps the budget, and who returns more."""
    cases: list[tuple[bool, bool, float]] = []
    for methods in measured.values():
        default = {row["seed"]: row for row in methods["lspc"]["rows"]
                   if row["policy"] == "LSPC-O" and row["eps"] == Config.restriction}  # fmt: skip
        for row in (row for row in methods["choose"]["rows"] if row["policy"] == "chosen" and row["costs"]):
            [budget], other = row["budgets"], default[row["seed"]]
            kept = [bool(np.mean(each["costs"]) <= budget) for each in (row, other)]
            cases.append((kept[0], kept[1], float(np.mean(row["returns"]) / np.mean(other["returns"]))))
    named, others = (sum(case[i] for case in cases) for i in (0, 1))
    both = [ratio for first, second, ratio in cases if first and second]
    print(
        f"of {len(cases)} cases in which a policy was named, it keeps {named}; LSPC-O at its default eps would keep "
        f"{others}. Where both do ({len(both)}), what is named returns {np.median(both):.2f} times as much in the "
        f"median, {np.mean(both):.2f} on average\n"
    )


def print_errors(measured: dict[str, dict[str, Any]]) -> None:
    print("| task | costs below their bound | rewards inside their interval | mean cost | mean error of cost |")
    print("|---|---|---|---|---|")
    for task, methods in measured.items():
        pairs = [(estimate(methods, row), row) for row in list_played(methods)]
        costs = np.array([np.mean(row["costs"]) for _, row in pairs])
        returns = np.array([np.mean(row["returns"]) for _, row in pairs])
        said = {name: np.array([each[name] for each, _ in pairs]) for name in pairs[0][0]}
        inside = (said["return_low"] <= returns) & (returns <= said["return_high"])
        print(
            f"| {task} | {np.mean(costs <= said['high'] + 1e-6):.0%} | {inside.mean():.0%} | {costs.mean():.1f} | "
            f"{np.abs(said['cost'] - costs).mean():.1f} |"
        )


def list_played(methods: dict[str, Any]) -> Rows:
    """Every policy and seed once, whichever budgets it was chosen for."""
    rows = [row for name in ("lspc", "choose") for row in methods[name]["rows"] if row["costs"]]
    return list({(row["eps"], row["seed"]): row for row in rows}.values())


def find_best(played: Rows, seed: int, budget: float) -> float | None:
    """The highest return of a seed's policies that truly keep the budget."""
    fitting = [row for row in played if row["seed"] == seed and np.mean(row["costs"]) <= budget]
    return max((float(np.mean(row["returns"])) for row in fitting), default=None)


def estimate(methods: dict[str, Any], row: dict[str, Any]) -> dict[str, float]:
    """What was said of a policy; between two of the eps that were estimated, in proportion."""
    [curve] = [each["curve"] for each in methods["choose"]["rows"] if "curve" in each and each["seed"] == row["seed"]]
    names = ("cost", "low", "high", "return", "return_low", "return_high")
    if row["eps"] is None:
        [found] = [point for point in curve if point["policy"] == "LSPC-S"]
        return {name: found[name] for name in names}
    points = sorted((point for point in curve if point["policy"] == "LSPC-O"), key=lambda point: point["eps"])
    at = [point["eps"] for point in points]
    return {name: float(np.interp(row["eps"], at, [point[name] for point in points])) for name in names}


if __name__ == "__main__":
    main()
