"""The guard's table of docs/deploy.md as Markdown, from what `lspc evaluate --guard --json` printed.

python scripts/guard.py
"""

from pathlib import Path

from lspc import files

RECORDS = Path(__file__).parents[1] / "results" / "calibration"
BUDGETS = (5, 10, 20, 40)


def main() -> None:
    print("| task | eps | without | " + " | ".join(f"guard {budget}" for budget in BUDGETS) + " |")
    print("|---|---|---|" + "---|" * len(BUDGETS))
    for path in sorted(RECORDS.glob("*.guard.json")):
        rows = {row["policy"]: row for row in files.read_json(path)}
        for eps in ("1", "1.5", "2"):
            plain = f"LSPC-O, eps {eps}"
            cells = [_cell(rows[plain], None)]
            cells += [_cell(rows[f"{plain}, guard {budget}"], budget) for budget in BUDGETS]
            print(f"| {path.name.split('.')[0]} | {eps} | " + " | ".join(cells) + " |")


def _cell(row: dict, budget: int | None) -> str:
    """Reward / cost, and how many episodes broke the guard's own budget where that was counted."""
    over = row["over_budget"].get(str(budget), 0.0)
    return f"{row['reward']['mean']:.2f} / {row['raw_cost']['mean']:.1f}" + (f" ({over:.0%} over)" if over else "")


if __name__ == "__main__":
    main()
