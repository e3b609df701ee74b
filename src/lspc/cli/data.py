"""`lspc inspect`, `lspc convert` and `lspc collect`: datasets."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.cli.common import AS_NAMED, BUDGETS, Opening, Switch, find_data, open_dataset, print_json, shown
from lspc.tasks import NAMED_IN_DATA, SUITES, get_task


def inspect(
    path: Annotated[Path, tyro.conf.Positional, shown("LOG")],
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED,
    write_columns: Annotated[Path | None, shown("TOML")] = None,
    task: Annotated[str | None, shown("TASK", "the one named in the file")] = NAMED_IN_DATA,
    thresholds: Annotated[tuple[float, ...] | None, shown("COST ...", f"the task's, else {BUDGETS}")] = None,
    figure: Annotated[Path | None, shown("PNG")] = None,
    json: Switch = False,
) -> None:
    """Check a dataset and show its sizes, returns, costs, safe share and problems.

    Args:
        path: A file (HDF5, NPZ, Parquet, CSV), a folder of tables, Minari or LeRobot, a Minari id or a DSRL task.
        write_columns: Only examine a table's columns, and write a proposed mapping for --columns here.
        task: The task, for its cost budgets.
        thresholds: Cost budgets to judge the episodes by.
        figure: Plot the episodes and save the picture here.
        json: Print JSON instead of a table.
    """
    from lspc.report import inspection, terminal

    if write_columns:
        inspection.write_columns(path, write_columns)
        terminal.say(f"columns: {write_columns}")
        return
    path = find_data(path, opening)
    profile = inspection.inspect(path, task=task, thresholds=thresholds, figure=figure, opening=opening.options())
    if json:
        print_json(profile)
        return
    terminal.output().print(terminal.profile_table(profile, str(path)))
    terminal.output().print(terminal.columns_table(profile))
    if figure:
        terminal.say(f"picture: {figure}")


def convert(
    log: Annotated[Path, tyro.conf.Positional, shown("LOG")],
    out: Annotated[Path, tyro.conf.Positional, shown("FILE")],
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED,
) -> None:
    """Write a dataset in another format, number for number.

    CSV has no place for metadata, such as the name of the task.

    Args:
        log: Any dataset that `lspc inspect` opens.
        out: The file to write: .hdf5, .npz, .parquet or .csv.
    """
    from lspc import data
    from lspc.report import terminal

    dataset = open_dataset(log, opening)
    data.save(dataset, out)
    terminal.say(f"{out}: {len(dataset.episodes):,} episodes, {dataset.transitions:,} transitions")


def collect(
    task: Annotated[str, tyro.conf.arg(metavar="TASK")],
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    agents: int = 8,
    steps: Annotated[
        int | None, shown("INT", ", ".join(f"{suite.collect_steps} on {suite.name}" for suite in SUITES.values()))
    ] = None,
    warmup: int = 0,
    episodes: Annotated[int | None, shown("INT", "as many as DSRL's file has")] = None,
    seed: int = 0,
    compact: Switch = False,
    workers: Annotated[int | None, shown("INT", "one per core")] = None,
) -> None:
    """Make a dataset with safe and unsafe episodes in a simulator.

    It trains a population of PPO-Lagrangian agents and records every episode.

    On MetaDrive, DroneCircle and in navigation by lidar most are scripted drivers.

    If interrupted, the same command continues with the agents that are done.

    Args:
        task: A task whose simulator is installed (see `lspc tasks`).
        out: The file to write: .hdf5, .npz or .parquet.
        agents: Size of the population; cost limits run from none to zero.
        steps: Simulator steps per agent.
        warmup: Steps in which an agent may learn to move before its cost limit applies.
        episodes: Keep at most this many, spread over the cost x reward plane.
        seed: The same seed gives the same file.
        compact: Round every number to about 3.6 digits: a smaller file.
        workers: Agents trained at a time.
    """
    from lspc import data
    from lspc.report import terminal
    from lspc.sims.collect import population

    known = get_task(task)
    with terminal.progress() as bars:

        def start(agents: int, steps: int) -> None:
            for agent in range(agents):
                bars.show(f"agent {agent}", 0, steps, "waiting")

        def show(agent: int, now: dict[str, Any]) -> None:
            note = f"reward {now['reward']:.1f}, cost {now['cost']:.1f}" if "reward" in now else "kept from before"
            bars.show(f"agent {agent}", now["steps"], note=note)

        dataset = population.collect(
            known, out, agents=agents, steps=steps, warmup=warmup, episodes=episodes, seed=seed, compact=compact,
            workers=workers, on_start=start, on_progress=show,
        )  # fmt: skip
    terminal.output().print(terminal.profile_table(data.profile(dataset, known.thresholds), str(out)))
