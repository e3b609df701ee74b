"""What the terminal shows of a bench: the plan and its cost, the grid while it fills, the tables at the end."""

import time
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lspc.bench.cell import Progress
from lspc.bench.grid import Job, Plan, is_done
from lspc.bench.running import Cost, total_hours
from lspc.report import terminal


def cost_table(listed: Sequence[Cost], plan: Plan, room: int) -> Table:
    hours, unknown = total_hours(listed, room)
    if unknown and len(unknown) == len(listed):
        told = "how long training will take is not known yet (`--plan` measures it)"
    else:
        told = f"about {_hours(hours)} of training with {room} at a time"
        if unknown:
            told += f", without {', '.join(unknown)}, whose speed is not known yet (`--plan` measures it)"
    table = Table(title=f"tasks: {len(plan.tasks)}, seeds: {plan.seeds}", box=box.SIMPLE_HEAD)
    table.caption = f"{told}. Evaluation comes on top: {plan.episodes} episodes per policy and seed."
    for name in ("method", "cells", "done", "updates left", "updates/s", "worker hours"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for cost in listed:
        rate, time_left = "?" if cost.rate is None else f"{cost.rate:.1f}", cost.hours
        hours_left = "?" if time_left is None else f"{time_left:.1f}"
        table.add_row(cost.method, f"{cost.cells}", f"{cost.done}", f"{cost.updates:,}", rate, hours_left)
    return table


def _hours(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"


class Grid:
    """The live table: tasks down, methods across, how many cells of each are done and how far the others are."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = list(jobs)
        self.share = {job.name: float(is_done(job)) for job in jobs}
        self.failed: dict[str, str] = {}
        self._before, self._began = sum(self.share.values()), time.monotonic()
        self._live = Live(get_renderable=self._render, console=terminal.errors(), refresh_per_second=2)

    def __enter__(self) -> "Grid":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_progress(self, job: Job, now: Progress) -> None:
        # Measuring is the last tenth of a cell: a guess, for the eye only.
        part = now.done / max(now.total, 1)
        self.share[job.name] = 0.9 * part if now.stage == "training" else 0.9 + 0.099 * part
        for alarm in now.alarms:
            self._warn(job, alarm)

    def on_end(self, job: Job, trouble: str | None) -> None:
        self.share[job.name] = 0.0 if trouble else 1.0
        if trouble:
            self.failed[job.name] = trouble
            self._warn(job, trouble)

    def _warn(self, job: Job, what: str) -> None:
        self._live.console.print(f"[yellow]{terminal.plain(f'{job.name}: {what}')}", highlight=False)

    def _render(self) -> RenderableType:
        methods = list(dict.fromkeys(job.method for job in self.jobs))
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for name in ("task", *methods):
            table.add_column(name, justify="right" if name in methods else "left")
        for task in dict.fromkeys(job.task for job in self.jobs):
            table.add_row(task, *(self._cell(task, method) for method in methods))
        done, all_shares = sum(share == 1 for share in self.share.values()), sum(self.share.values())
        line = f"{done} of {len(self.jobs)} cells done"
        if self._before < all_shares < len(self.jobs):
            left = (len(self.jobs) - all_shares) * (time.monotonic() - self._began) / (all_shares - self._before)
            line += f", about {_hours(left / 3600)} left if cells are alike"
        return Group(table, Text(line))

    def _cell(self, task: str, method: str) -> str:
        names = [job.name for job in self.jobs if (job.task, job.method) == (task, method)]
        done = sum(self.share[name] == 1 for name in names)
        going = [f"{100 * self.share[name]:.0f}%" for name in names if 0 < self.share[name] < 1]
        text = f"{done}/{len(names)} {' '.join(going)}".rstrip()
        if any(name in self.failed for name in names):
            return f"[red]{text} failed"
        return f"[green]{text}" if done == len(names) else text if done or going else f"[dim]{text}"
