"""`make soak`: attack everything that is promised in docs/reliability.md, again and again, and count.

    python scripts/soak.py --json results/soak.json     (about 20 minutes; --scale 0.02 takes seconds)

Each attack ends in a right result or in an error of our own; else it stands under "wrong", and the exit code is 1.
Programs are attacked in forked children: JAX is imported here but not started before they are all done.
"""

import argparse
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples")]
warnings.filterwarnings("ignore", message="os.fork")

from helpers import environment  # noqa: E402, F401 (before JAX: its settings)

# isort: split
import jax  # noqa: E402
import numpy as np  # noqa: E402
from helpers import attacks  # noqa: E402
from helpers.cli import TINY, contents  # noqa: E402
from helpers.data import small_dataset  # noqa: E402
from soak_files import attack_files, attack_workers  # noqa: E402

from lspc import checkpoints, data, files  # noqa: E402
from lspc.cli import main as lspc_main  # noqa: E402
from lspc.version import __version__  # noqa: E402

SETTINGS = ["--algo", "bc", "--hidden", "8", "8", "--batch-size", "32", "--seeds", "4", "--steps", "3000"]
LATER = {
    "evaluate": ["--episodes", "1", "--actions", "deterministic"],
    "calibrate": ["--budget", "10", "--updates", "4"],
    "export": [],
}
"""What writes beside a finished run, and how briefly."""
PATIENCE = 600.0
"""Seconds until a program counts as hanging, on a machine with much else to do; a damaged file has 10."""
TRIES = 30
"""Attempts to kill a run before it ends, as often as was drawn."""
LARGEST_MEMORY = 2000
"""Megabytes that all of it may take: a file that declares more than it holds must not be believed."""
TESTS = {
    "a Ray node killed": "tests/bench/test_ray.py::test_a_node_is_killed_in_the_middle",
    "a collection killed": (
        "tests/sims/collect/test_population.py::test_a_killed_collection_goes_on_and_ends_the_same"
    ),
    "a bench killed": (
        "tests/bench/test_running.py::test_killed_in_the_middle_and_run_again_every_cell_is_carried_out_once"
    ),
    "Bullet's workers killed and frozen": "tests/sims/test_pool.py::test_a_worker_in_trouble_changes_no_number",
    "Ctrl-C at any moment": "tests/cli/test_interrupts.py",
}
"""Attacks that are tests already: the soak repeats them."""


class Ended(NamedTuple):
    code: int
    """As `subprocess` gives it: negative for the signal that ended it."""
    said: str

    def is_sound(self) -> bool:
        """All went well, or one line says why not."""
        told = [line for line in self.said.splitlines() if line.startswith("lspc: ")]
        return self.code == 0 or (self.code == 1 and len(told) == 1 and "Traceback" not in self.said)


class Soak:
    """Where the attacks happen, what they are drawn from, and what they found."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, np.random.default_rng(seed)
        self.counts: dict[str, int] = {}
        self.wrong: list[str] = []
        self.data = folder / "data.hdf5"
        data.save(small_dataset(), self.data, metadata={"task": "BallRun"})
        self.expected: dict[str, bytes] = {}

    def count(self, what: str, problem: str | None = None) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        if problem:
            self.wrong.append(f"{what}: {problem}")
            print(f"WRONG {self.wrong[-1]}", flush=True)

    def train(self, out: Path, before: Callable[[], object] | None = None, **options: Any) -> Ended:
        """`lspc train` in a child that first calls `before`."""

        def work() -> None:
            if before:
                before()
            lspc_main(["train", "--data", str(self.data), "--out", str(out), *SETTINGS])

        return in_child(work, **options)

    def check_run(self, what: str, out: Path) -> None:
        """The run, gone on with until it ends, holds what an undisturbed one holds, to the bit."""
        ended = self.train(out)
        if ended.code != 0:
            self.count(what, f"going on ended with {ended.code}: {ended.said[-300:]}")
        else:
            differ = [name for name, content in self.expected.items() if contents(out).get(name) != content]
            extra = set(contents(out)) - set(self.expected)
            self.count(what, f"differs in {differ}, more: {extra}" if differ or extra else None)
        shutil.rmtree(out)


def in_child(work: Callable[[], object], kill_after: float | None = None) -> Ended:
    """Fork, work, and say how it ended; killed by us after a while, if asked."""
    with tempfile.TemporaryFile() as log:
        if (pid := os.fork()) == 0:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            code = 70
            try:
                work()
                code = 0
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        until = time.monotonic() + (PATIENCE if kill_after is None else kill_after)
        while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                ended = os.waitpid(pid, 0)
                break
            time.sleep(0.005)
        log.seek(0)
        return Ended(os.waitstatus_to_exitcode(ended[1]), log.read().decode(errors="replace"))


def undisturbed(soak: Soak) -> tuple[int, float]:
    """Train once and remember what it leaves; returns how many writes that took, and how many seconds."""
    out, told = soak.folder / "undisturbed", soak.folder / "writes"

    def count() -> None:
        writes = attacks.strike_inside_a_write(0, torn=False)
        lspc_main(["train", "--data", str(soak.data), "--out", str(out), *SETTINGS])
        told.write_text(str(writes()))

    ended = in_child(count)
    assert ended.code == 0, ended.said
    soak.expected = contents(out)
    # Who dies while writing to JAX's cache leaves half an entry there: from now on it is only read.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9)
    began = time.monotonic()
    soak.check_run("trained again", soak.folder / "again")
    return int(told.read_text()), time.monotonic() - began


def kill_programs(soak: Soak, times: int, writes: int, seconds: float) -> None:
    """SIGKILL, every second time inside a write, often twice, then go on to the end. Too late does not count."""
    out = soak.folder / "killed"

    def strike(inside: bool, within: float) -> Ended:
        if not inside:
            return soak.train(out, kill_after=float(soak.rng.uniform(0, within)))
        place, torn = int(soak.rng.integers(1, writes + 1)), bool(soak.rng.integers(2))
        return soak.train(out, lambda: attacks.strike_inside_a_write(place, torn=torn))

    for number in range(times):
        inside, wanted = number % 2 == 1, int(soak.rng.integers(1, 3))
        where = "inside a write" if inside else "at any moment"
        for late in range(TRIES):
            # The machine may be less busy than when the seconds were measured.
            ends = [strike(inside, seconds * 0.8**late) for _ in range(wanted)]
            if any(ended.code > 0 for ended in ends):
                soak.count(f"runs killed {where}", f"ended by itself: {[ended.said[-300:] for ended in ends]}")
                shutil.rmtree(out, ignore_errors=True)
                break
            if all(ended.code == -signal.SIGKILL for ended in ends):
                for _ in ends:
                    soak.count(f"kills {where}")
                soak.check_run(f"runs killed {where}", out)
                break
            shutil.rmtree(out)
        else:
            soak.count(f"runs killed {where}", f"every kill came too late, {TRIES} times")


def fill_the_disk(soak: Soak, times: int) -> str:
    """Train where the space ends at any stage, then with space again; returns how the space was limited."""
    place = soak.folder / "small-disk"
    place.mkdir()
    used = sum(len(content) + 4096 for content in soak.expected.values())
    mounted = (
        subprocess.run(["mount", "-t", "tmpfs", "none", place], capture_output=True, check=False).returncode == 0
    )
    try:
        for size in np.linspace(2, used / 4096, times).astype(int).tolist():
            out, limit = place / "run", size * 4096
            if mounted:
                subprocess.run(["mount", "-o", f"remount,size={limit}", place], check=True)
                ended = soak.train(out)
                subprocess.run(["mount", "-o", f"remount,size={100 * used}", place], check=True)
            else:
                ended = soak.train(out, lambda n=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (n // 16, n // 16)))
            sound = ended.is_sound()
            what = "times a full disk stopped a run" if ended.code else "times the space sufficed"
            soak.count(what, None if sound else f"{ended.code}: {ended.said[-300:]}")
            soak.check_run("runs with a full disk", out)
    finally:
        if mounted:
            subprocess.run(["umount", place], check=True)
    return "tmpfs" if mounted else "RLIMIT_FSIZE (tmpfs could not be mounted)"


def fill_the_disk_later(soak: Soak, times: int) -> None:
    """The same for what comes after training, where a disk that we can make holds the run and little more."""
    made, place = soak.folder / "finished", soak.folder / "fuller-disk"
    trained = in_child(lambda: lspc_main(["train", "--data", str(soak.data), "--out", str(made), *TINY]))
    assert trained.code == 0, trained.said
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", place], capture_output=True, check=False).returncode:
        return
    try:
        for verb, options in LATER.items():
            for pages in np.geomspace(1, 4000, times).astype(int).tolist():
                run = Path(shutil.copytree(made, place / "run"))
                used = sum(-(-path.stat().st_size // 4096) for path in run.rglob("*") if path.is_file())
                work, ends = partial(lspc_main, [verb, str(run), *options]), []
                for size in (used + pages, 10 * used + 20_000):
                    subprocess.run(["mount", "-o", f"remount,size={4096 * size}", place], check=True)
                    ends.append(in_child(work))
                full, free = ends
                sound = full.is_sound() and free.code == 0
                what = f"times a full disk stopped {verb}" if full.code else f"times the space sufficed for {verb}"
                soak.count(what, None if sound else f"{[each.code for each in ends]}: {full.said[-300:]}")
                shutil.rmtree(run)
    finally:
        subprocess.run(["umount", place], check=True)


def jump_the_clock(soak: Soak, times: int) -> None:
    for seed in range(times):
        out = soak.folder / "clock"
        soak.train(out, lambda s=seed: attacks.let_the_clock_jump(s), kill_after=float(soak.rng.uniform(0, 6)))
        soak.check_run("runs with a jumping clock", out)


def write_twice(soak: Soak, times: int) -> None:
    """Two programs on one folder, and two writers of each kind of file, read while they write."""
    for _ in range(times):
        out = soak.folder / "contested"
        commands = [[sys.executable, "-m", "lspc", "train", "--data", soak.data, "--out", out, *SETTINGS]] * 2
        pair = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
        said = [each.communicate(timeout=PATIENCE)[1] for each in pair]
        refused = [text for each, text in zip(pair, said, strict=True) if each.returncode]
        fair = all("is in use by another process" in text for text in refused) and len(refused) < 2
        soak.count("pairs of programs on one folder", None if fair else f"{refused}")
        soak.check_run("contested runs", out)
    dataset = small_dataset()
    shared = {name: soak.folder / f"shared{name}" for name in (".json", ".safetensors", ".npz")}

    def write(value: int) -> None:
        for _ in range(20):
            files.write_json(shared[".json"], {"value": value, "filler": [value] * 3000})
            checkpoints.write(shared[".safetensors"], {"a": np.full(5000, value)}, {"value": value})
            data.save(dataset, shared[".npz"])

    def read() -> None:
        found = files.read_json(shared[".json"])
        assert found["filler"] == [found["value"]] * 3000
        value = checkpoints.read_facts(shared[".safetensors"])["value"]
        assert value in (1, 2)
        assert data.load(shared[".npz"]).transitions == dataset.transitions

    for _ in range(times):
        write(1)
        with tempfile.TemporaryDirectory() as marks:
            done = [Path(marks) / name for name in "ab"]
            for value, mark in enumerate(done, start=1):
                if os.fork() == 0:
                    write(value)
                    mark.touch()
                    os._exit(0)
            while not all(mark.exists() for mark in done):
                try:
                    read()
                    soak.count("reads beside two writers")
                except Exception as error:
                    soak.count("reads beside two writers", repr(error))
            for _ in done:
                os.wait()


def repeat_tests(soak: Soak, times: int) -> None:
    for _ in range(times):
        for what, test in TESTS.items():
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", test],
                cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
            soak.count(what, None if done.returncode == 0 else done.stdout[-500:])


def peak_memory() -> float:
    """Megabytes; getrusage would count what the program that started this one held when it did."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the whole: 0.02 takes seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="write the counts to this file")
    options = parser.parse_args()
    began = time.monotonic()

    def times(whole: int) -> int:
        return max(1, round(options.scale * whole))

    with tempfile.TemporaryDirectory(prefix="lspc-soak-") as folder:
        soak = Soak(Path(folder), options.seed)
        writes, seconds = undisturbed(soak)
        kill_programs(soak, max(2, times(50)), writes, seconds)  # one at any moment, one inside a write
        space = fill_the_disk(soak, times(20))
        fill_the_disk_later(soak, times(10))
        jump_the_clock(soak, times(5))
        write_twice(soak, times(5))
        # From here on JAX may start in this process.
        attack_files(soak, times(10_000))
        attack_workers(soak, times(20))
        if options.scale >= 0.1:  # minutes each, and in `make test` anyway
            repeat_tests(soak, times(3))
    megabytes = peak_memory()
    if megabytes > LARGEST_MEMORY:
        soak.wrong.append(f"memory: {megabytes:.0f} MB")
    report = {
        "lspc_version": __version__, "date": datetime.now(UTC).date().isoformat(),
        "command": shlex.join(["python", *sys.argv]), "scale": options.scale,
        "seed": options.seed, "seconds": round(time.monotonic() - began), "full_disk_by": space,
        "peak_memory_mb": round(megabytes), "counts": soak.counts, "wrong": soak.wrong,
    }  # fmt: skip
    for what, number in soak.counts.items():
        print(f"{number:8,} {what}")
    print(f"{len(soak.wrong)} wrong")
    if options.json:
        files.write_json(options.json, report)
    sys.exit(bool(soak.wrong))


if __name__ == "__main__":
    main()
