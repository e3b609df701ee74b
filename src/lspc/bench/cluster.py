"""Cells as jobs on a Ray cluster; the runs end up here, as if this machine had done the work.

A job gets what is already there of its run, and the data if its node does not have them; the run's files come back
through Ray and are written here. So the nodes share no file system, they only have lspc. A job whose node dies is
started again with the files that came back last.
"""

import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lspc import data, files
from lspc.bench import cell
from lspc.bench.cell import Progress
from lspc.bench.grid import Job
from lspc.bench.local import estimate_memory
from lspc.bench.running import OnEnd, OnProgress
from lspc.errors import UserError
from lspc.runs import layout
from lspc.system import ONE_THREAD
from lspc.workers import GRACE

try:
    import ray
    from ray.exceptions import RayActorError, RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise UserError("ray is not installed: pip install 'lspc[cluster]'") from error

ATTEMPTS = 5
"""Times a job is started before its cell counts as failed: nodes come and go, but a cell may be what kills them."""
SEND_EVERY = 300.0
"""Seconds between copies of an unfinished run: what the loss of a node may cost."""
POLL = 0.5
PATIENCE = 5.0, 90.0
"""Seconds that a port may take to answer, and then the cluster to let us in."""
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
TRIAL = f"""
import sys, ray
try:
    ray.init(address=sys.argv[1], **{QUIET})
except Exception as error:
    sys.exit(str(error).splitlines()[0])
"""

Files = dict[str, bytes]
"""A run's files by their place in its folder."""
Letter = tuple[str, int, Progress, Files]


class Mailbox:
    """What jobs tell, until we read it: the job's name, the attempt's number, how far it is and, at times, files."""

    def __init__(self) -> None:
        self._letters: list[Letter] = []
        self._over = False

    def tell(self, *letter: Any) -> bool:
        """The answer is whether to stop."""
        self._letters.append(letter)
        return self._over

    def stop(self) -> None:
        self._over = True

    def read(self) -> list[Letter]:
        letters, self._letters = self._letters, []
        return letters


@dataclass
class _Attempt:
    """A job on its way, for the first time or again."""

    job: Job
    number: int = 1
    memory: int = 0
    heard: bool = False


class Cluster:
    """As many cells at a time as the cluster has cores and memory for, `workers` at most.

    Without an address it is the cluster that this machine is part of.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        platform = os.environ.get("JAX_PLATFORMS", "cpu")
        self.workers, self._accelerators = workers, 0 if platform == "cpu" else 1
        self._seen: dict[str, int] = {}
        self._data: dict[str, Any] = {}
        _join(address)
        if not self._places():
            raise UserError(f"no node of the Ray cluster has a {'GPU' if self._accelerators else 'core'} to work on")
        # Ray would start a lost job with what it had at first; we do it ourselves, with the files that came back.
        self._work = ray.remote(
            num_cpus=1, num_gpus=self._accelerators, max_retries=0, max_calls=1,
            runtime_env={"env_vars": {**ONE_THREAD, "JAX_PLATFORMS": platform}},
        )(work)  # fmt: skip

    def room(self, jobs: Sequence[Job]) -> int:
        """How many of these cells can run at a time."""
        needs = [estimate_memory(job, self._seen) for job in jobs] or [0]
        return max(1, min(self._places(sum(needs) / len(needs)), len(jobs), self.workers or len(jobs)))

    def run(self, jobs: Sequence[Job], on_progress: OnProgress, on_end: OnEnd) -> None:
        waiting, running = deque(map(_Attempt, jobs)), dict[Any, _Attempt]()
        # On our own node: it lives as long as we do.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        mailbox = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        try:
            while waiting or running:
                # Never more than the cores: those still to come will know better what memory they need.
                while waiting and len(running) < max(1, min(self._places(), self.workers or len(jobs))):
                    attempt = waiting.popleft()
                    running[self._start(attempt, mailbox)] = attempt
                ended, _ = ray.wait(list(running), timeout=POLL)
                self._hear(mailbox, running, on_progress)
                for reference in ended:
                    attempt = running.pop(reference)
                    lost, trouble = _outcome(reference, attempt.job)
                    if lost and attempt.number < ATTEMPTS:
                        waiting.appendleft(_Attempt(attempt.job, attempt.number + 1))
                    else:
                        on_end(attempt.job, trouble)
                waiting.extendleft(self._take_back(running))
        finally:
            self._stop(mailbox, running)

    def _nodes(self) -> list[tuple[int, float]]:
        """Of each node that can work at all: for how many cells it has cores (or GPUs), and its memory."""
        kinds = ("CPU", "GPU") if self._accelerators else ("CPU",)
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        every = [(int(min(node.get(kind, 0) for kind in kinds)), node.get("memory", 0.0)) for node in alive]
        return [(cells, memory) for cells, memory in every if cells]

    def _places(self, size: float = 0) -> int:
        """Cells of this size that fit the nodes there are now."""
        return sum(min(cells, int(memory // size)) if size else cells for cells, memory in self._nodes())

    def _largest(self) -> float:
        return max((memory for _, memory in self._nodes()), default=0.0)

    def _start(self, attempt: _Attempt, mailbox: Any) -> Any:
        job = attempt.job
        # Asked for more than any node has, Ray would wait for ever.
        attempt.memory = int(min(estimate_memory(job, self._seen), self._largest()))
        if job.data not in self._data:
            self._data[job.data] = ray.put(Path(job.data).read_bytes())
        # In a list, the reference alone travels: whoever needs the data fetches them.
        return self._work.options(memory=attempt.memory).remote(
            job, attempt.number, read_files(Path(job.out)), os.path.abspath(job.data), [self._data[job.data]],
            mailbox,
        )  # fmt: skip

    def _hear(self, mailbox: Any, running: dict[Any, _Attempt], on_progress: OnProgress) -> None:
        attempts = {(attempt.job.name, attempt.number): attempt for attempt in running.values()}
        try:
            letters = ray.get(mailbox.read.remote())
        except RayActorError as error:
            raise UserError("the Ray cluster is gone; run the same command again to continue") from error
        for name, number, progress, back in letters:
            attempt = attempts.get((name, number))
            if attempt is None:
                continue  # a node that was believed dead still talks
            attempt.heard = True
            write_files(Path(attempt.job.out), back)
            if progress.memory is not None:
                self._seen[attempt.job.method] = max(self._seen.get(attempt.job.method, 0), progress.memory)
            on_progress(attempt.job, progress)

    def _take_back(self, running: dict[Any, _Attempt]) -> list[_Attempt]:
        """Take back attempts that wait for a node which is gone, the only one with the memory they asked for."""
        largest = self._largest()
        taken = [reference for reference, attempt in running.items() if attempt.memory > largest]
        for reference in taken:
            ray.cancel(reference, force=True)
        # One that has spoken was not waiting: it is lost with that node.
        attempts = [running.pop(reference) for reference in taken]
        return [_Attempt(attempt.job, attempt.number + attempt.heard) for attempt in attempts]

    def _stop(self, mailbox: Any, running: dict[Any, _Attempt]) -> None:
        """Jobs that have begun stop at their next word and hand over what they have; the others have nothing yet."""
        try:
            if running:
                mailbox.stop.remote()
                for reference in (reference for reference, attempt in running.items() if not attempt.heard):
                    ray.cancel(reference)
                ended, _ = ray.wait(list(running), num_returns=len(running), timeout=GRACE)
                for reference in ended:
                    _outcome(reference, running[reference].job)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            ray.kill(mailbox)


def work(
    job: Job, number: int, there: Files, path: str, shipped: Sequence[Any], mailbox: Any
) -> tuple[Files, str | None]:
    """One attempt, on a node: the run's files as they are at the end, and what went wrong."""
    with TemporaryDirectory(prefix="lspc-") as folder:
        out, sent = Path(folder) / Path(job.out).name, time.monotonic()

        def report(now: Progress) -> None:
            nonlocal sent
            due = time.monotonic() - sent >= SEND_EVERY
            if due:
                sent = time.monotonic()
            if ray.get(mailbox.tell.remote(job.name, number, now, read_files(out) if due else {})):
                raise KeyboardInterrupt("stopped")

        try:
            write_files(out, there)
            if not _is_data(path, job.dataset):
                path = f"{folder}/data{Path(job.data).suffix}"
                Path(path).write_bytes(ray.get(shipped[0]))
            cell.run(replace(job, out=str(out)), report, path)
        except (UserError, OSError, KeyboardInterrupt) as error:
            return read_files(out), str(error).replace(str(out), job.out)
        return read_files(out), None


def _is_data(path: str, fingerprint: str) -> bool:
    try:
        return data.load(path).fingerprint == fingerprint
    except (UserError, OSError):
        return False


def read_files(folder: Path) -> Files:
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_files(folder: Path, content: Files) -> None:
    """Make the run's folder hold this, in the order in which a run is made: a kill in between leaves a sound one."""
    if not content:
        return
    stages = (
        layout.CONFIG, layout.METRICS, layout.CHECKPOINT, layout.WEIGHTS, layout.CARD, layout.EVALUATIONS,
    )  # fmt: skip

    def stage(name: str) -> int:
        return next((i for i, part in enumerate(stages) if part in name), 0)

    with files.locked(folder):
        for name in sorted(content, key=stage):
            path = folder / name
            if not (path.exists() and path.read_bytes() == content[name]):
                with files.atomic_path(path) as temporary:
                    temporary.write_bytes(content[name])
        for old in layout.checkpoint_paths(folder):
            if old.name not in content:
                old.unlink()


def _outcome(reference: Any, job: Job) -> tuple[bool, str | None]:
    """Whether the attempt was lost, and what went wrong; the files of one that ended are kept."""
    try:
        back, trouble = ray.get(reference)
    except RayTaskError as error:
        return False, f"{type(error.cause).__name__}: {error.cause}"
    except RayError as error:
        return True, f"lost {ATTEMPTS} times, at last because {' '.join(str(error).split('.')[0].split())}"
    write_files(Path(job.out), back)
    return False, trouble


def _join(address: str | None) -> None:
    """Become part of the cluster, or say in one line why not.

    Ray tries an address that does not answer for ever, deaf even to Ctrl-C; so we knock first, and a process that
    can be ended goes ahead.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        return
    if "://" in (address or ""):
        raise UserError(f"{address}: give HOST:PORT; this machine must be a node of the cluster (docs/bench.md)")
    host, _, port = (address or "").rpartition(":")
    place = f"the Ray cluster at {address}" if address else "the Ray cluster of this machine"
    cure = "" if address else "; `ray start --head` starts one, --address joins another"
    answer, entry = PATIENCE
    try:
        if port.isdecimal():
            socket.create_connection((host, int(port)), answer).close()
        subprocess.run(
            [sys.executable, "-c", TRIAL, address or "auto"],
            capture_output=True,
            text=True,
            timeout=entry,
            check=True,
        )
    except OSError as error:
        raise UserError(f"cannot reach {place}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"cannot join {place}: no answer for {entry:g} s{cure}") from error
    except subprocess.CalledProcessError as error:
        said = str(error.stderr).strip().splitlines()
        raise UserError(f"cannot join {place}: {said[-1].rstrip('.') if said else error}{cure}") from error
    ray.init(address=address or "auto", **QUIET)
