"""Data larger than memory: speed and resident memory of training on a big file, against memory in the same run.

    python benchmarks/streaming.py --gigabytes 20 --json results/streaming.json
    python benchmarks/streaming.py --rows 1e8 --observations 8 --memory 2 --json results/streaming-1e8.json

It makes the file (uncompressed HDF5). One process that believes it has `--memory` gigabytes (LSPC_MEMORY) opens it,
another as much of the same data as memory is sure to hold: how many rows a table in memory has hardly changes its
speed. They train in turn, so that what else the machine does disturbs both alike. After each chunk the system forgets
what it had cached of the big data, as it would where the memory really is that small. The file is deleted.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

OBSERVATIONS, ACTIONS, STEPS = 72, 2, 1000
"""As CarGoal1 has them."""
BLOCK = 100
"""Episodes that are written together."""
CHUNK = 250
NOT_COUNTED = 2
"""Chunks at the start: the first one compiles, and meanwhile the rows of the second are gathered. The last does not
count either: nothing is gathered beside it."""


def row_bytes(width: int = OBSERVATIONS) -> int:
    return 4 * (2 * width + ACTIONS + 2) + 2


def make_file(path: Path, gigabytes: float, width: int) -> int:
    """Episodes of noise, the same in every block but for their order; returns how many transitions there are."""
    episodes = max(round(gigabytes * 1e9 / row_bytes(width) / STEPS) // BLOCK, 1) * BLOCK
    rng = np.random.default_rng(0)
    shapes = {"observations": (width,), "next_observations": (width,), "actions": (ACTIONS,)}
    noise = rng.standard_normal((BLOCK, STEPS + 1, width), np.float32)
    with h5py.File(path, "w") as file:
        rows = episodes * STEPS
        for name in ("observations", "next_observations", "actions", "rewards", "costs"):
            file.create_dataset(name, (rows, *shapes.get(name, ())), "f4")
        for name in ("terminals", "timeouts"):
            file.create_dataset(name, (rows,), "?")
        for start in range(0, rows, BLOCK * STEPS):
            part = slice(start, start + BLOCK * STEPS)
            path_taken = noise[rng.permutation(BLOCK)]
            file["observations"][part] = path_taken[:, :-1].reshape(-1, width)
            file["next_observations"][part] = path_taken[:, 1:].reshape(-1, width)
            file["actions"][part] = rng.uniform(-1, 1, (BLOCK * STEPS, ACTIONS))
            file["rewards"][part] = rng.standard_normal(BLOCK * STEPS, np.float32)
            file["costs"][part] = rng.random(BLOCK * STEPS) < 0.1
            file["terminals"][part] = False
            file["timeouts"][part] = np.arange(BLOCK * STEPS) % STEPS == STEPS - 1
    return rows


def serve(path: Path, chunks: int, preset: str) -> None:
    """Open the file, then train on it whenever a line comes in; every answer is a line of JSON."""
    import lspc

    began = time.perf_counter()
    dataset = lspc.load_dataset(path)
    answer({
        "streamed": dataset.is_mapped, "transitions": dataset.transitions,
        "seconds_to_open": round(time.perf_counter() - began, 1),
    })  # fmt: skip
    for _ in sys.stdin:
        speeds, computed = train(dataset, chunks, preset)
        answer({
            "updates_per_second": [round(each, 2) for each in speeds[NOT_COUNTED:-1]],
            "cpu_milliseconds_per_update": [round(1000 * each / CHUNK, 2) for each in computed[NOT_COUNTED:-1]],
            "peak_resident_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        })  # fmt: skip


def train(dataset: Any, chunks: int, preset: str) -> tuple[list[float], list[float]]:
    """Of each chunk: updates per second, and the seconds that all threads of this process computed."""
    import lspc

    speeds: list[float] = []
    computed: list[float] = []
    forget_cached()
    began = [time.process_time()]

    def note(now: Any) -> None:
        speeds.append(now.updates_per_second)
        computed.append(time.process_time() - began[-1])
        forget_cached()
        began.append(time.process_time())

    with tempfile.TemporaryDirectory() as out:
        lspc.train(dataset, Path(out) / "run", preset=preset, steps=CHUNK * chunks, on_progress=note)
    return speeds, computed


def answer(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


def forget_cached() -> None:
    """Drop what the system has cached of this process's working copies: files without a name."""
    for name in os.listdir("/proc/self/fd"):
        place = Path("/proc/self/fd", name)
        if place.exists() and place.stat().st_nlink == 0 and place.is_file():
            os.fsync(int(name))
            os.posix_fadvise(int(name), 0, 0, os.POSIX_FADV_DONTNEED)


class Worker:
    """A process that serves one file."""

    def __init__(self, path: Path, memory: float, chosen: argparse.Namespace) -> None:
        command = [sys.executable, __file__, "--serve", path, "--chunks", chosen.chunks, "--preset", chosen.preset]
        self._process = subprocess.Popen(
            [str(word) for word in command], env={**os.environ, "LSPC_MEMORY": str(memory)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.opened = self._read()
        print(self.opened, file=sys.stderr, flush=True)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"the process ended with {self._process.wait()}")

    def train(self) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        told = self._read()
        print(told, file=sys.stderr, flush=True)
        return told

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def measure(folder: Path, chosen: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    large, small = folder / "large.hdf5", folder / "small.hdf5"
    gigabytes = chosen.rows * row_bytes(chosen.observations) / 1e9 if chosen.rows else chosen.gigabytes
    make_file(large, gigabytes, chosen.observations)
    make_file(small, min(gigabytes, 0.5), chosen.observations)
    yield "file_gigabytes", round(large.stat().st_size / 1e9, 2)
    workers = {"streamed": Worker(large, chosen.memory, chosen), "in_memory": Worker(small, 1e3, chosen)}
    large.unlink()  # the working copy is all that is needed from here on
    turns = [{name: worker.train() for name, worker in workers.items()} for _ in range(chosen.pairs)]
    for name, worker in workers.items():
        worker.end()
        yield name, {**worker.opened, "turns": [turn[name] for turn in turns]}
    for figure, better in (("updates_per_second", 1), ("cpu_milliseconds_per_update", -1)):
        medians = {name: np.median([turn[name][figure] for turn in turns]) for name in workers}
        ratio = (medians["streamed"] / medians["in_memory"]) ** better
        yield f"ratio_by_{figure}", round(float(ratio), 3)


def measure_gather(folder: Path, gigabytes: float, turns: int = 3) -> dict[str, Any]:
    """Rows per second from a disk of which nothing is cached, asked for together and one after the other.

    They lie as far apart as those of a chunk of 250 batches of 512 do in 20 GB.
    """
    from lspc.data import mapped

    rng = np.random.default_rng(0)
    length, block = int(gigabytes * 1e9 / row_bytes()), 20_000
    [table] = mapped.map_arrays([((length, row_bytes()), "u1")], folder)
    noise = rng.integers(256, size=(block, row_bytes()), dtype=np.uint8)
    for start in range(0, length, block):
        table[start : start + block] = noise[: length - start]
        mapped.release(table)
    rows = np.sort(rng.integers(length, size=int(6400 * gigabytes)))
    ways = {"together": mapped.READERS, "one after the other": 1}
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(turns):
        for way, readers in ways.items():
            mapped.READERS = readers
            forget_cached()
            began, computed = time.perf_counter(), time.process_time()
            mapped.gather(table, rows)
            seconds = time.perf_counter() - began
            found[way].append({
                "rows_per_second": round(len(rows) / seconds),
                "cpu_microseconds_per_row": round(1e6 * (time.process_time() - computed) / len(rows), 1),
            })  # fmt: skip
            print(way, found[way][-1], file=sys.stderr, flush=True)
    mapped.READERS = ways["together"]
    return {"rows": len(rows), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20.0, help="size of the file")
    parser.add_argument("--rows", type=float, help="transitions in the file, instead of its size")
    parser.add_argument("--observations", type=int, default=OBSERVATIONS, help="numbers in an observation")
    parser.add_argument(
        "--memory", type=float, default=4.0, help="gigabytes that the streaming process may believe in"
    )
    parser.add_argument(
        "--chunks",
        type=int,
        default=6,
        help=f"chunks of {CHUNK} updates, the first {NOT_COUNTED} and the last of which are not counted",
    )
    parser.add_argument("--pairs", type=int, default=2, help="how often both are measured")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--folder", type=Path, help="where the file goes; beside it lies the working copy")
    parser.add_argument("--gather", action="store_true", help="only how fast rows come from the disk; no training")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve, chosen.chunks, chosen.preset)
        return
    from lspc import __version__, files

    record: dict[str, Any] = {
        "lspc_version": __version__,
        "command": shlex.join(["python", *sys.argv]),
    }
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        if chosen.gather:
            record |= measure_gather(Path(folder), chosen.gigabytes)
        else:
            record |= measure(Path(folder), chosen)
    print(json.dumps(record, indent=2))
    if chosen.json:
        files.write_json(chosen.json, record)


if __name__ == "__main__":
    main()
