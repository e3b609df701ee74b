"""Data larger than memory: speed and resident memory of training on a big file, against memory in the same run.

    python benchmarks/streaming.py --gigabytes 20 --json results/streaming.json

It makes the file (uncompressed HDF5), opens and trains on it in a process of its own that believes it has `--memory`
gigabytes (LSPC_MEMORY), then trains on as much of the same data as memory is sure to hold, and deletes the file. How
many rows a table in memory has hardly changes its speed, so the second is what the first is measured against.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

OBSERVATIONS, ACTIONS, STEPS = 72, 2, 1000
"""As CarGoal1 has them."""
ROW_BYTES = 4 * (2 * OBSERVATIONS + ACTIONS + 2) + 2
BLOCK = 100


def make_file(path: Path, gigabytes: float) -> int:
    """Episodes of noise, written a block at a time; returns how many transitions there are."""
    episodes = max(int(gigabytes * 1e9 / ROW_BYTES / STEPS) // BLOCK, 1) * BLOCK
    rng = np.random.default_rng(0)
    shapes = {"observations": (OBSERVATIONS,), "next_observations": (OBSERVATIONS,), "actions": (ACTIONS,)}
    with h5py.File(path, "w") as file:
        rows = episodes * STEPS
        for name in ("observations", "next_observations", "actions", "rewards", "costs"):
            file.create_dataset(name, (rows, *shapes.get(name, ())), "f4")
        for name in ("terminals", "timeouts"):
            file.create_dataset(name, (rows,), "?")
        for start in range(0, rows, BLOCK * STEPS):
            part = slice(start, start + BLOCK * STEPS)
            path_taken = rng.standard_normal((BLOCK, STEPS + 1, OBSERVATIONS), np.float32)
            file["observations"][part] = path_taken[:, :-1].reshape(-1, OBSERVATIONS)
            file["next_observations"][part] = path_taken[:, 1:].reshape(-1, OBSERVATIONS)
            file["actions"][part] = rng.uniform(-1, 1, (BLOCK * STEPS, ACTIONS))
            file["rewards"][part] = rng.standard_normal(BLOCK * STEPS, np.float32)
            file["costs"][part] = rng.random(BLOCK * STEPS) < 0.1
            file["terminals"][part] = False
            file["timeouts"][part] = np.arange(BLOCK * STEPS) % STEPS == STEPS - 1
    return rows


def measure(path: Path, chunks: int, preset: str) -> dict[str, Any]:
    """Open the file and train on it, in this process."""
    import lspc

    began = time.perf_counter()
    dataset = lspc.load_dataset(path)
    opened = time.perf_counter()
    speeds: list[float] = []
    with tempfile.TemporaryDirectory() as out:
        lspc.train(
            dataset, Path(out) / "run", preset=preset, steps=250 * chunks,
            on_progress=lambda now: speeds.append(now.updates_per_second),
        )  # fmt: skip
    return {
        "streamed": dataset.is_mapped,
        "transitions": dataset.transitions,
        "seconds_to_open": round(opened - began, 1),
        "updates_per_second": [round(speed, 1) for speed in speeds[1:]],  # the first one compiles
        "peak_resident_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
    }


def run_process(path: Path, memory: float, chosen: argparse.Namespace) -> dict[str, Any]:
    command = [
        sys.executable,
        __file__,
        "--measure",
        str(path),
        "--chunks",
        str(chosen.chunks),
        "--preset",
        chosen.preset,
    ]
    done = subprocess.run(
        command, env={**os.environ, "LSPC_MEMORY": str(memory)}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20.0, help="size of the file")
    parser.add_argument(
        "--memory", type=float, default=4.0, help="gigabytes that the streaming process may believe in"
    )
    parser.add_argument(
        "--chunks", type=int, default=5, help="chunks of 250 updates, the first of which is not counted"
    )
    parser.add_argument("--pairs", type=int, default=2, help="how often both are measured")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--folder", type=Path, help="where the file goes; beside it lies the working copy")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure, chosen.chunks, chosen.preset)))
        return
    from lspc import __version__, files

    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        large, small = Path(folder) / "large.hdf5", Path(folder) / "small.hdf5"
        make_file(large, chosen.gigabytes)
        make_file(small, min(chosen.gigabytes, 0.5))
        size = large.stat().st_size
        # Alternating, so that what else the machine does disturbs both alike.
        pairs = [
            (run_process(large, chosen.memory, chosen), run_process(small, 1e3, chosen)) for _ in range(chosen.pairs)
        ]
    medians = [[float(np.median(one["updates_per_second"])) for one in pair] for pair in pairs]
    record = {
        "lspc_version": __version__,
        "command": f"python benchmarks/streaming.py --gigabytes {chosen.gigabytes:g} --memory {chosen.memory:g} "
        f"--chunks {chosen.chunks} --pairs {chosen.pairs} --preset {chosen.preset}",
        "file_gigabytes": round(size / 1e9, 2),
        "speed_ratio": round(float(np.mean([streamed / memory for streamed, memory in medians])), 3),
        "streamed": [pair[0] for pair in pairs],
        "in_memory": [pair[1] for pair in pairs],
    }
    print(json.dumps(record, indent=2))
    if chosen.json:
        files.write_json(chosen.json, record)


if __name__ == "__main__":
    main()
