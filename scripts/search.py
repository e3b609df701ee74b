"""Does LSPC-O's search pay? LSPC trained with and without it, each eps measured in the simulator.

    python scripts/search.py --steps 4000 --search 0 1 --out results/search-BallCircle.json
    python scripts/search.py --data CarRun.hdf5 --steps 4000 --search 0 1 --out results/search-CarRun.json

Reward and cost of an episode for every training seed and eps; beside them, for each of the task's budgets, the best
episode of the data that keeps it.
"""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np
from measured import measure

import lspc
from lspc import files
from lspc.data import bundled_file
from lspc.tasks import get_task

EPISODES = 10
RESTRICTIONS = (0.5, 1.0, 1.25, 1.5, 1.75, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=bundled_file())
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--search", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    chosen = parser.parse_args()
    dataset = lspc.load_dataset(chosen.data)
    task, rows = get_task(str(dataset.metadata["task"])), []
    best = {f"{b:g}": float(dataset.returns[dataset.cost_returns <= b].max(initial=-np.inf)) for b in task.thresholds}
    for search in chosen.search:
        with tempfile.TemporaryDirectory() as folder:
            run = lspc.train(
                dataset, Path(folder) / "run", preset="cpu", seeds=chosen.seeds, steps=chosen.steps, search=search
            )
            for row in measure(run, task, EPISODES, RESTRICTIONS):
                rows.append({"search": search, **row})
                print(*rows[-1].values(), flush=True)
        command = f"python scripts/search.py {shlex.join(sys.argv[1:])}"
        record = {"lspc_version": lspc.__version__, "command": command, "task": task.name,
                  "episodes": EPISODES, "best_within": best, "rows": rows}  # fmt: skip
        files.write_json(chosen.out, record)


if __name__ == "__main__":
    main()
