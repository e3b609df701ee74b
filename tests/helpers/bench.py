"""An executor in this process, and waiting for other processes."""

import time
from collections.abc import Callable, Sequence

from lspc.bench import cell
from lspc.bench.grid import Job
from lspc.bench.running import OnEnd, OnProgress
from lspc.errors import UserError


class Here:
    """An executor of a few lines, in this process: all that the seam asks for."""

    def __init__(self) -> None:
        self.carried_out: list[str] = []

    def room(self, jobs: Sequence[Job]) -> int:
        return 1

    def run(self, jobs: Sequence[Job], on_progress: OnProgress, on_end: OnEnd) -> None:
        for job in jobs:
            self.carried_out.append(job.name)
            try:
                cell.run(job, lambda now, job=job: on_progress(job, now))
            except UserError as error:
                on_end(job, str(error))
            else:
                on_end(job, None)


def wait_for(what: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)
