"""Cells as worker processes on this machine: one thread each, as many at a time as cores and memory allow.

How much memory a method takes is learned from its first worker; until then a careful guess counts.
"""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lspc.bench.cell import Progress, make_command
from lspc.bench.grid import Job
from lspc.system import free_memory, usable_cores
from lspc.workers import Crew

SIMULATOR = 1 << 29
"""Bytes counted for the simulator process beside each worker."""
COPIES = 5
"""Times the size of a data file that a worker may hold: unpacked, as a table, on the device."""


@dataclass
class Running:
    job: Job
    memory: int = 0
    """Bytes that it was seen to take."""


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
        waiting, running, crew = deque(jobs), dict[str, Running](), Crew()
        platform = os.environ.get("JAX_PLATFORMS", "cpu")
        try:
            while waiting or running:
                while waiting and self._fits(waiting[0], running):
                    job = waiting.popleft()
                    running[job.name] = Running(job)
                    crew.start(job.name, make_command(job), platform=platform)
                name, told = crew.hear()
                if told is None:
                    on_end(running.pop(name).job, crew.outcome(name))
                else:
                    self._learn(running[name], progress := Progress(**told))
                    on_progress(running[name].job, progress)
        finally:
            crew.end()

    def _fits(self, job: Job, running: Mapping[str, Running]) -> bool:
        """Whether a core and memory are left for it, beside what the running ones are still going to take."""
        if not running:
            return True
        promised = sum(max(0, self.estimate_memory(cell.job) - cell.memory) for cell in running.values())
        return len(running) < self.workers and free_memory() - promised >= self.estimate_memory(job)

    def _learn(self, cell: Running, progress: Progress) -> None:
        if progress.memory is not None:
            cell.memory = progress.memory
            self._seen[cell.job.method] = max(self._seen.get(cell.job.method, 0), progress.memory)
