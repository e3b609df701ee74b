"""Does the policy depend on the units of cost and reward? LSPC on the bundled data as they are, and in other units.

    python scripts/units.py --out results/units.json

Every policy is measured in BallCircle itself, whose units stay as they are: reward and cost of an episode. Three
seeds of the data as they are show how far apart policies are anyway.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from measured import measure

import lspc
from lspc import files
from lspc.data import bundled_file
from lspc.tasks import get_task

EPISODES = 20
RESTRICTIONS = (0.5, 1.0, 1.5)
# (costs times, rewards times, rewards plus, training seeds)
UNITS = [(1.0, 1.0, 0.0, (0, 1, 2)), (1e-4, 1.0, 0.0, (0,)), (1e4, 1.0, 0.0, (0,)), (1.0, 10.0, 100.0, (0,))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8000)
    chosen = parser.parse_args()
    dataset, task, rows = lspc.load_dataset(bundled_file()), get_task("BallCircle"), []
    for costs, stretch, offset, seeds in UNITS:
        data = replace(dataset, costs=dataset.costs * costs, rewards=dataset.rewards * stretch + offset)
        with tempfile.TemporaryDirectory() as folder:
            run = lspc.train(
                data, Path(folder) / "run", preset="cpu", task="BallCircle", seeds=seeds, steps=chosen.steps
            )
            for row in measure(run, task, EPISODES, RESTRICTIONS):
                rows.append({"costs_times": costs, "rewards_times": stretch, "rewards_plus": offset, **row})
                print(*rows[-1].values(), flush=True)
        command = f"python scripts/units.py --steps {chosen.steps}"
        record = {"lspc_version": lspc.__version__, "command": command,
                  "episodes": EPISODES, "rows": rows}  # fmt: skip
        files.write_json(chosen.out, record)


if __name__ == "__main__":
    main()
