"""Fingerprints of short runs: every method, one seed, 250 updates on the bundled data, two episodes in the simulator.

A change that is meant to keep behaviour keeps these numbers bit for bit, on one machine:

    python scripts/short_runs.py --out results/short-runs/before.json      (on the old version)
    python scripts/short_runs.py --compare results/short-runs/before.json  (on the new one)
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

import lspc
from lspc import files
from lspc.algos import METHODS
from lspc.data import bundled_file

UPDATES = 250


def fingerprint(method: str, folder: Path) -> dict[str, Any]:
    dataset = lspc.load_dataset(bundled_file())
    run = lspc.train(dataset, folder / method, algo=method, preset="cpu", steps=UPDATES)
    weights = load_file(run / "policy" / "seed-0" / "weights.safetensors")
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode() + weights[name].tobytes())
    metrics = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    lspc.evaluate(run, episodes=2)
    episodes = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    kept = ("policy", "mode", "seed", "reward_return", "cost_return", "length")
    return {
        "weights": digest.hexdigest(),
        "metrics": metrics,
        "episodes": [{name: episode[name] for name in kept if name in episode} for episode in episodes],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    chosen = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for method in chosen.methods:
            found[method] = fingerprint(method, Path(folder))
            print(method, found[method]["weights"][:12], flush=True)
    record = {"lspc_version": lspc.__version__, "command": "python scripts/short_runs.py", "methods": found}
    if chosen.out:
        files.write_json(chosen.out, record)
    if chosen.compare:
        before = json.loads(chosen.compare.read_text())["methods"]
        differing = [method for method in found if found[method] != before[method]]
        print(f"differ: {', '.join(differing)}" if differing else f"all {len(found)} methods are bit-identical")
        sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
