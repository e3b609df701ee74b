"""One thread for each seed against all cores: updates per second, alone and beside other programs.

    python benchmarks/threads.py --json results/threads.json     (on a machine that is idle otherwise)

Both train LSPC on the bundled data in processes of their own, in turn. "Beside" means beside one program for each
core that never waits.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 250
SIZES: dict[str, dict[str, Any]] = {
    "default": {},
    "batch 1024": {"batch_size": 1024},
}
"""Settings beside those of the `cpu` preset."""


def train(size: str, threads: int, seeds: int, chunks: int) -> float:
    """In this process: updates per second of each seed, without the first chunk, which compiles."""
    from lspc.lanes import use_one_device_per_lane
    from lspc.training import devices

    devices.use_threads(threads, seeds)
    use_one_device_per_lane(seeds)
    import lspc
    from lspc.data import bundled_file

    speeds: list[float] = []
    with tempfile.TemporaryDirectory() as out:
        lspc.train(
            lspc.load_dataset(bundled_file()), Path(out) / "run", preset="cpu", steps=CHUNK * chunks,
            seeds=range(seeds), on_progress=lambda now: speeds.append(now.updates_per_second),
            **SIZES[size],
        )  # fmt: skip
    return float(np.median(speeds[1:]))


def in_new_process(*words: Any) -> float:
    done = subprocess.run(
        [sys.executable, __file__, "--train", *map(str, words)], stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout.splitlines()[-1])


def measure(cores: int, sizes: Sequence[str], rounds: int, chunks: int) -> Iterator[dict[str, Any]]:
    for beside in (0, cores):
        for size in sizes:
            for seeds in (1, cores):
                speeds: dict[int, list[float]] = {1: [], cores: []}
                busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(beside)]
                try:
                    for _ in range(rounds):
                        for threads, found in speeds.items():
                            found.append(in_new_process(size, threads, seeds, chunks))
                finally:
                    for process in busy:
                        process.kill()
                        process.wait()
                ratio = np.median(speeds[1]) / np.median(speeds[cores])
                yield {"size": size, "seeds": seeds, "programs_beside": beside, "one_thread": speeds[1],
                       "all_threads": speeds[cores], "one_to_all": round(float(ratio), 3)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--chunks", type=int, default=3, help=f"of {CHUNK} updates; the first is not counted")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--train", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.train:
        size, *numbers = chosen.train
        print(train(size, *map(int, numbers)))
        return
    from lspc import __version__, files

    cores = len(os.sched_getaffinity(0))
    record: dict[str, Any] = {"lspc_version": __version__, "command": shlex.join(["python", *sys.argv]),
                              "cores": cores, "rows": []}  # fmt: skip
    for row in measure(cores, chosen.sizes, chosen.rounds, chosen.chunks):
        print(json.dumps(row), flush=True)
        record["rows"].append(row)
        if chosen.json:  # as it goes: whoever stops it keeps what is there
            files.write_json(chosen.json, record)


if __name__ == "__main__":
    main()
