"""`lspc inspect` and `lspc collect`: datasets."""

import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.cli.common import BUDGETS, Json, print_json, shown
from lspc.tasks import DEFAULT_BUDGETS, NAMED_IN_DATA, SUITES, get_task, task_of


def inspect(
    path: Annotated[Path, tyro.conf.Positional, shown("FILE")],
    task: Annotated[str | None, shown("TASK", "the one named in the file")] = NAMED_IN_DATA,
    thresholds: Annotated[tuple[float, ...] | None, shown("COST ...", f"the task's, else {BUDGETS}")] = None,
    figure: Annotated[Path | None, shown("PNG", "FILE.profile.png beside the file")] = None,
    json: Json = False,
) -> None:
    """Check a dataset and show its sizes, returns, costs, safe share and problems.

    Args:
        path: An HDF5 file in DSRL's layout, or an NPZ file with the same arrays.
        task: The task, for its cost budgets.
        thresholds: Cost budgets to judge the episodes by.
        figure: Where to save the picture of the episodes.
        json: Print JSON instead of a table.
    """
    from lspc import data
    from lspc.report import figures, terminal

    dataset, problems = data.examine(path)
    if dataset is None:
        for problem in problems:
            print(f"lspc: {problem.message}", file=sys.stderr)
        sys.exit(1)
    known = task_of(dataset.metadata, task)
    budgets = thresholds or (known.thresholds if known else DEFAULT_BUDGETS)
    profile = data.profile(dataset, budgets)
    picture = figure or path.with_suffix(".profile.png")
    figures.dataset_profile_figure(dataset, budgets, picture, title=known.name if known else path.name)
    if json:
        print_json(profile)
        return
    terminal.console.print(terminal.profile_table(profile, str(path)))
    terminal.console.print(f"picture: {picture}", highlight=False, soft_wrap=True)


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
    compact: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = False,
    workers: Annotated[int | None, shown("INT", "one per core")] = None,
) -> None:
    """Make a dataset with safe and unsafe episodes in a simulator.

    It trains a population of PPO-Lagrangian agents and records every episode.

    On MetaDrive most of the population are drivers of many manners.

    Interrupted, it keeps the agents that are done: the same command goes on.

    Args:
        task: A task whose simulator is installed (see `lspc tasks`).
        out: The file to write: .hdf5 or .npz.
        agents: Size of the population; cost limits run from none to zero.
        steps: Simulator steps per agent.
        warmup: Steps in which an agent may learn to move before its cost limit begins to act.
        episodes: Keep at most this many, spread over the cost x reward plane.
        seed: The same seed gives the same file.
        compact: Round every number to about 3.6 digits: a smaller file.
        workers: Agents trained at a time.
    """
    from lspc import data
    from lspc.report import terminal
    from lspc.sims.collect import population

    known = get_task(task)
    steps = SUITES[known.suite].collect_steps if steps is None else steps
    population.check(known, out, agents=agents, steps=steps, episodes=episodes, seed=seed, workers=workers)
    with terminal.progress() as display:
        bars = [display.add_task(f"agent {i}", total=steps, note="waiting") for i in range(agents)]

        def show(agent: int, now: dict[str, Any]) -> None:
            note = f"reward {now['reward']:.1f}, cost {now['cost']:.1f}" if "reward" in now else "kept from before"
            display.update(bars[agent], completed=now["steps"], note=note)

        dataset = population.collect(
            known, out, agents=agents, steps=steps, warmup=warmup, episodes=episodes, seed=seed, compact=compact,
            workers=workers, on_progress=show,
        )  # fmt: skip
    terminal.console.print(terminal.profile_table(data.profile(dataset, known.thresholds), str(out)))
