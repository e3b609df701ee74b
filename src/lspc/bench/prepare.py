"""From what a user asks of a bench to all that it needs to run: its plan, the data, and who does the work."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lspc.algos import METHODS
from lspc.bench.grid import Plan, find_data, make_plan
from lspc.bench.running import Executor
from lspc.errors import UserError
from lspc.tasks import all_tasks, get_task
from lspc.training import settings


class Bench(NamedTuple):
    """In the order in which `running` takes them."""

    plan: Plan
    folder: Path
    data_files: Mapping[str, Path]
    executor: Executor


def prepare(
    folder: Path,
    data: Path,
    *,
    suite: str = "bullet",
    tasks: Sequence[str] = (),
    algos: Sequence[str] = ("all",),
    overrides: Sequence[str] = (),
    executor: str = "local",
    address: str | None = None,
    workers: int | None = None,
    **options: Any,
) -> Bench:
    """A bench of these tasks, else of the whole suite; `data` holds their files. Other options: see `make_plan`."""
    names = [get_task(name).name for name in tasks] or [task.name for task in all_tasks() if task.suite == suite]
    chosen = make_executor(executor, address, workers)
    data_files = find_data(data, names)
    methods = list(METHODS) if "all" in algos else algos
    plan = make_plan(data_files, methods, overrides=settings.parse(overrides), **options)
    return Bench(plan, folder, data_files, chosen)


def make_executor(name: str, address: str | None = None, workers: int | None = None) -> Executor:
    """Worker processes of this machine (`local`), or the Ray cluster at `address` (`ray`)."""
    if name == "ray":
        from lspc.bench.cluster import Cluster

        return Cluster(address, workers)
    from lspc.bench.local import Local

    if address is not None:
        raise UserError("--address is for a Ray cluster: add --executor ray")
    return Local(workers)
