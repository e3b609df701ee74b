"""`lspc bench`: every method on every task."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from lspc.cli.common import Json, shown
from lspc.errors import UserError
from lspc.tasks import SUITES

# The choices that the help shows are the suites there are.
if TYPE_CHECKING:
    SuiteName = str
else:
    SuiteName = tyro.extras.literal_type_from_choices(tuple(SUITES))


def bench(
    suite: SuiteName = "bullet",
    tasks: Annotated[tuple[str, ...], shown("TASK ...", "all of the suite")] = (),
    algos: Annotated[tuple[str, ...], tyro.conf.arg(metavar="METHOD ...")] = ("all",),
    seeds: int = 3,
    data: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("data"),
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("bench"),
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "default",
    settings: Annotated[
        tuple[str, ...], tyro.conf.arg(name="set", metavar="NAME=VALUE ...", help_behavior_hint="")
    ] = (),
    episodes: int = 20,
    actions: Annotated[tuple[Literal["deterministic", "sampled"], ...], shown("HOW ...", "deterministic")] = (
        "deterministic",
    ),
    seeds_together: Annotated[int | None, shown("INT", "all of them")] = None,
    executor: Literal["local", "ray"] = "local",
    address: Annotated[str | None, shown("HOST:PORT", "the cluster this machine is part of")] = None,
    workers: Annotated[int | None, shown("INT", "one per core, as memory allows")] = None,
    plan: Json = False,
    from_records: Annotated[tuple[Path, ...], shown("FOLDER ...")] = (),
    rule: Literal["any", "safer"] = "any",
    show: Annotated[
        tuple[Literal["table", "policies", "pairs", "intervals", "thresholds"], ...],
        shown("VIEW ...", "table policies"),
    ] = ("table", "policies"),
) -> None:
    """Train and measure every method on every task, and print the paper's table.

    Killed or stopped, the same command goes on: only what is missing runs.

    Args:
        suite: The tasks to run, unless --tasks names them.
        tasks: Tasks, instead of a whole suite.
        algos: Methods (`lspc algos` lists them), or all.
        seeds: How many training seeds.
        data: Holds TASK.hdf5 or TASK/data.hdf5 for each task.
        out: The bench's folder: its runs, raw records and tables.
        preset: A named group of settings that every method has.
        settings: Settings over the preset's, such as steps=5, or cdt.width=16 for one method.
        episodes: Episodes per policy and training seed.
        actions: How actions are chosen: deterministic, sampled, or both.
        seeds_together: Seeds that one program trains.
        executor: Where the work is done: worker processes of this machine, or a Ray cluster.
        address: The Ray cluster.
        workers: Cells worked on at a time.
        plan: Show the grid and what it will cost, measuring speeds not known yet, and stop.
        from_records: Only make the tables, from these benches, runs or files of records.
        rule: What is blue beside the best: within 0.05 of its reward, any safe policy or a safer one.
        show: What to print: table, policies, pairs, intervals, thresholds; OUT/tables has all of it.
    """
    from lspc.bench import grid, live, running, tables
    from lspc.report import terminal
    from lspc.tasks import all_tasks, get_task

    failures: dict[str, str] = {}
    if not from_records:
        from lspc.algos import METHODS
        from lspc.training.settings import parse

        names = [get_task(name).name for name in tasks] or [task.name for task in all_tasks() if task.suite == suite]
        crew = _crew(executor, address, workers)
        places = grid.find_data(data, names)
        planned = grid.make_plan(
            places, list(METHODS) if "all" in algos else algos, preset=preset,
            overrides=parse(settings), seeds=seeds, together=seeds_together, episodes=episodes,
            modes=actions,
        )  # fmt: skip
        if plan:
            with terminal.progress(counted=True) as display:
                bar = display.add_task("measuring speeds", total=len(planned.methods), note="")
                running.measure(planned, out, places, crew, lambda job, _: display.advance(bar))
        left = running.list_missing_jobs(planned, out, places)
        costs = running.estimate_costs(planned, out, places)
        terminal.console.print(live.cost_table(costs, planned, crew.room(left)))
        if plan:
            return
        with live.Grid(grid.make_jobs(planned, out, places)) as shown:
            failures = running.run(planned, out, places, crew, shown.on_progress, shown.on_end)
    results = running.gather(from_records or [out])
    for sheet in tables.views(results, show, rule):
        terminal.console.print(tables.terminal(sheet, terminal.console.width))
    for problem in results.problems[:20]:
        terminal.errors.print(f"[yellow]{problem}", highlight=False)
    if len(results.problems) > 20:
        terminal.errors.print(f"[yellow]and {len(results.problems) - 20} more, in the files", highlight=False)
    paths = tables.write(results, out / "tables", rule)
    terminal.console.print(f"tables: {', '.join(map(str, paths))}", highlight=False)
    if failures:
        raise UserError(f"{len(failures)} cells failed; run the same command again to try them again")


def _crew(executor: str, address: str | None, workers: int | None) -> Any:
    if executor == "ray":
        from lspc.bench.cluster import Cluster

        return Cluster(address, workers)
    from lspc.bench.local import Local

    if address is not None:
        raise UserError("--address is of a Ray cluster: add --executor ray")
    return Local(workers)
