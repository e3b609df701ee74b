"""Cells as worker processes on this machine: one thread each, as many at a time as cores and memory allow.

How much memory a method takes is learned from its first worker; until then a careful guess counts.
"""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO

from lspc.bench.cell import Progress, make_command
from lspc.bench.grid import Job
from lspc.system import free_memory, start_worker, usable_cores

SIMULATOR = 1 << 29
"""Bytes counted for the simulator process beside each worker."""
COPIES = 5
"""Times the size of a data file that a worker may hold: unpacked, as a table, on the device."""
GRACE = 10.0
"""Seconds that stopped workers have to save what they are at."""
News = queue.SimpleQueue[tuple[str, Progress | None]]
"""What workers tell, by the name of their job; None is the end."""


def estimate_memory(job: Job, seen: Mapping[str, int]) -> int:
    """Bytes this cell will take, with what its method was seen to take."""
    return seen.get(job.method, job.memory) + SIMULATOR + COPIES * os.path.getsize(job.data)


class Local:
    """At most `workers` cells at a time (one for each core unless told), fewer if memory runs short."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = usable_cores() if workers is None else workers
        self._seen: dict[str, int] = {}

    def estimate_memory(self, job: Job) -> int:
        return estimate_memory(job, self._seen)

    def room(self, jobs: Sequence[Job]) -> int:
        """How many of these cells can run at a time."""
        needs = [self.estimate_memory(job) for job in jobs] or [0]
        return max(1, min(self.workers, len(jobs), free_memory() * len(needs) // max(sum(needs), 1)))

    def run(
        self,
        jobs: Sequence[Job],
        on_progress: Callable[[Job, Progress], None],
        on_end: Callable[[Job, str | None], None],
    ) -> None:
        waiting, running = deque(jobs), dict[str, _Worker]()
        news: News = queue.SimpleQueue()
        try:
            while waiting or running:
                while waiting and self._fits(waiting[0], running):
                    job = waiting.popleft()
                    running[job.name] = _Worker(job, news)
                name, progress = news.get()
                worker = running[name]
                if progress is None:
                    del running[name]
                    on_end(worker.job, worker.outcome())
                else:
                    self._learn(worker, progress)
                    on_progress(worker.job, progress)
        finally:
            for worker in running.values():
                worker.process.terminate()
            until = time.monotonic() + GRACE
            for worker in running.values():
                worker.outcome(max(0.0, until - time.monotonic()))

    def _fits(self, job: Job, running: Mapping[str, "_Worker"]) -> bool:
        """Whether a core and memory are left for it, beside what the running ones are still going to take."""
        if not running:
            return True
        promised = sum(max(0, self.estimate_memory(worker.job) - worker.memory) for worker in running.values())
        return len(running) < self.workers and free_memory() - promised >= self.estimate_memory(job)

    def _learn(self, worker: "_Worker", progress: Progress) -> None:
        if progress.memory is not None:
            worker.memory = progress.memory
            self._seen[worker.job.method] = max(self._seen.get(worker.job.method, 0), progress.memory)


class _Worker:
    """A process that carries out one job, and the thread that listens to it."""

    def __init__(self, job: Job, news: News) -> None:
        self.job, self.memory = job, 0
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115 (closed by outcome)
        platform = os.environ.get("JAX_PLATFORMS", "cpu")
        self.process = start_worker(make_command(job), errors=self._errors, platform=platform)
        threading.Thread(target=self._listen, args=(news,), daemon=True).start()

    def _listen(self, news: News) -> None:
        for line in self.process.stdout or ():
            if line.startswith("{"):  # simulators may chat on the same line
                news.put((self.job.name, Progress(**json.loads(line))))
        news.put((self.job.name, None))

    def outcome(self, patience: float | None = None) -> str | None:
        """Wait for the end; None if all went well, else what the worker said last."""
        try:
            code = self.process.wait(patience)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # nothing but its last updates is lost
            self.process.kill()
            code = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        if code == 0:
            return None
        return f"killed by {signal.Signals(-code).name}" if code < 0 else said[-1] if said else f"ended with {code}"
