"""Five training seeds of `cpu`, `paper` and `official`: which cost critics died, and what every checkpoint costs.

    python scripts/presets.py --out results/presets-BallCircle.json            # the bundled data
    python scripts/presets.py --task CarRun --data runs/CarRun/data.hdf5 --out results/presets-CarRun.json

All presets learn from the same number of batches of the same size, to compare like with like. A critic is dead if
V_c is zero or below in every state of the last 250 updates, or the same in all of them.
"""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lspc
from lspc import files
from lspc.data import bundled_file
from lspc.runs import Run, layout

PRESETS = ("cpu", "paper", "official")
BATCH = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", default="BallCircle")
    parser.add_argument("--data", type=Path, default=bundled_file())
    parser.add_argument("--presets", nargs="+", default=list(PRESETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--every", type=int, default=1000, help="updates between two checkpoints that are played")
    parser.add_argument("--episodes", type=int, default=10)
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for preset in chosen.presets:
        with tempfile.TemporaryDirectory() as folder:
            run = lspc.train(
                chosen.data, Path(folder) / "run", preset=preset, task=chosen.task, seeds=range(chosen.seeds),
                steps=chosen.steps, batch_size=BATCH, evaluate_every=chosen.every, evaluate_episodes=chosen.episodes,
            )  # fmt: skip
            rows += describe_run(Run.open(run), preset)
        files.write_json(
            chosen.out,
            {"lspc_version": lspc.__version__, "command": f"python scripts/presets.py {shlex.join(sys.argv[1:])}",
             "task": chosen.task, "batch_size": BATCH, "episodes": chosen.episodes, "rows": rows},
        )  # fmt: skip
        print_table(rows)


def describe_run(run: Run, preset: str) -> list[dict[str, Any]]:
    """One row for each seed: its critic at the end, and return and cost of each policy at each checkpoint."""
    last = {line["seed"]: line for line in files.read_jsonl(run.path / layout.METRICS)}
    rows = []
    for seed in run.seeds:
        records = [record for record in run.records(layout.CURVE) if record.training_seed == seed]
        played = []
        for updates, policy in sorted({(record.updates, record.policy) for record in records}):
            some = [record for record in records if (record.updates, record.policy) == (updates, policy)]
            played.append(
                {"updates": updates, "policy": policy,
                 "return": round(float(np.mean([record.reward_return for record in some])), 2),
                 "cost": round(float(np.mean([record.cost_return for record in some])), 2)}
            )  # fmt: skip
        facts = {name: last[seed][f"cost/{name}"] for name in ("value_mean", "value_max", "value_spread")}
        dead = facts["value_max"] <= 0.0 or facts["value_spread"] == 0.0
        rows.append({"preset": preset, "seed": seed, "dead": dead, **facts, "played": played})
    return rows


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    print("| preset | cost critics dead | policy | updates | return | cost of each seed |\n|---|---|---|---|---|---|")
    for preset in dict.fromkeys(row["preset"] for row in rows):
        seeds = [row for row in rows if row["preset"] == preset]
        dead = f"{sum(row['dead'] for row in seeds)} of {len(seeds)}"
        for policy, updates in dict.fromkeys((cell["policy"], cell["updates"]) for cell in seeds[0]["played"]):
            cells = [
                cell for row in seeds for cell in row["played"]
                if (cell["policy"], cell["updates"]) == (policy, updates)
            ]  # fmt: skip
            costs = ", ".join(f"{cell['cost']:.1f}" for cell in cells)
            reward = np.mean([cell["return"] for cell in cells])
            print(f"| `{preset}` | {dead} | {policy} | {updates:,} | {reward:.4g} | {costs} |")


if __name__ == "__main__":
    main()
