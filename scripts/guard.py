"""The guard's table of docs/deploy.md as Markdown, from what `lspc evaluate --guard --json` printed
(the `rows` of each record).

python scripts/guard.py
"""

import re
from pathlib import Path
from typing import Any

from lspc import files

RECORDS = Path(__file__).parents[1] / "results" / "calibration"
GUARDED = re.compile(r"(?P<plain>LSPC-O, eps (?P<eps>[\d.]+)), guard (?P<budget>[\d.]+)")


def main() -> None:
    print("| task | eps | without the guard | guard's budget: with the guard |")
    print("|---|---|---|---|")
    for path in sorted(RECORDS.glob("*.guard.json")):
        rows = {row["policy"]: row for row in files.read_json(path)["rows"]}
        cells: dict[str, list[str]] = {}
        for name, row in rows.items():
            if found := GUARDED.fullmatch(name):
                told = f"{found['budget']}: {describe(row, found['budget'])}"
                cells.setdefault(found["plain"], []).append(told)
        for plain, guarded in cells.items():
            eps = plain.removeprefix("LSPC-O, eps ")
            print(f"| {path.name.split('.')[0]} | {eps} | {describe(rows[plain])} | {'; '.join(guarded)} |")


def describe(row: dict[str, Any], budget: str | None = None) -> str:
    """Reward / cost, and how many episodes broke the guard's own budget where that was counted."""
    over = row["over_budget"].get(budget, 0.0)
    return f"{row['reward']['mean']:.2f} / {row['raw_cost']['mean']:.1f}" + (f" ({over:.0%} over)" if over else "")


if __name__ == "__main__":
    main()
