"""`lspc bench`: every method on every task."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from lspc.cli.common import Switch, shown
from lspc.cli.interrupts import raise_instead
from lspc.errors import UserError
from lspc.tasks import SUITES

MOST_PROBLEMS = 20
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
    plan: Switch = False,
    from_records: Annotated[tuple[Path, ...], shown("FOLDER ...")] = (),
    rule: Literal["any", "safer"] = "any",
    show: Annotated[
        tuple[Literal["table", "policies", "pairs", "intervals", "thresholds"], ...],
        shown("VIEW ...", "table policies"),
    ] = ("table", "policies"),
) -> None:
    """Train and measure every method on every task, and print the paper's table.

    If stopped or killed, the same command continues: only what is missing runs.

    Args:
        suite: The tasks to run, unless --tasks names them.
        tasks: Tasks, instead of a whole suite.
        algos: Methods (`lspc algos` lists them), or all.
        seeds: How many training seeds.
        data: Holds TASK.hdf5 or TASK/data.hdf5 for each task.
        out: The bench's folder: its runs, raw records and tables.
        preset: A named group of settings that every method has.
        settings: Settings that override the preset's, such as steps=5, or cdt.width=16 for one method.
        episodes: Episodes per policy and training seed.
        actions: How actions are chosen: deterministic, sampled, or both.
        seeds_together: Seeds that one program trains.
        executor: Where the work is done: worker processes of this machine, or a Ray cluster.
        address: The Ray cluster.
        workers: Cells to run at a time.
        plan: Show the grid and how long it will take, timing methods not yet timed, and stop.
        from_records: Only make the tables, from these benches, runs or files of records.
        rule: What is blue beside the best: within 0.05 of its reward, any safe policy or a safer one.
        show: What to print: table, policies, pairs, intervals, thresholds; OUT/tables has all of it.
    """
    from lspc.bench import grid, live, running, tables
    from lspc.bench.prepare import prepare
    from lspc.report import terminal

    failures: dict[str, str] = {}
    if not from_records:
        made = prepare(
            out, data, suite=suite, tasks=tasks, algos=algos, overrides=settings, executor=executor, address=address,
            workers=workers, preset=preset, seeds=seeds, together=seeds_together, episodes=episodes, modes=actions,
        )  # fmt: skip
        work = made.plan, made.folder, made.data_files
        if plan:
            with terminal.progress(counted=True) as bars, raise_instead():
                bars.show("measuring speeds", 0, len(made.plan.methods))
                running.measure(*made, lambda job, _: bars.advance("measuring speeds"))
        room = made.executor.room(running.list_missing_jobs(*work))
        terminal.output().print(live.cost_table(running.estimate_costs(*work), made.plan, room))
        if plan:
            return
        with live.Grid(grid.make_jobs(*work)) as shown, raise_instead():
            failures = running.run(*made, shown.on_progress, shown.on_end)
    results = running.gather(from_records or [out])
    console = terminal.output()
    for sheet in tables.views(results, show, rule):
        console.print(tables.terminal(sheet, console.width))
    for problem in results.problems[:MOST_PROBLEMS]:
        terminal.warn(problem)
    if len(results.problems) > MOST_PROBLEMS:
        terminal.warn(f"and {len(results.problems) - MOST_PROBLEMS} more, in the files")
    terminal.say(f"tables: {', '.join(map(str, tables.write(results, out / 'tables', rule)))}")
    if failures:
        raise UserError(f"{len(failures)} cells failed; run the same command again to retry them")
