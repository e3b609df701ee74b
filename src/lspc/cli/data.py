"""`lspc inspect` and `lspc collect`: datasets."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.cli.common import BUDGETS, Bounds, Json, print_json, shown
from lspc.tasks import NAMED_IN_DATA, SUITES, get_task


def inspect(
    path: Annotated[Path, tyro.conf.Positional, shown("FILE")],
    task: Annotated[str | None, shown("TASK", "the one named in the file")] = NAMED_IN_DATA,
    thresholds: Annotated[tuple[float, ...] | None, shown("COST ...", f"the task's, else {BUDGETS}")] = None,
    action_bounds: Bounds = (),
    figure: Annotated[Path | None, shown("PNG", "FILE.profile.png beside the file")] = None,
    json: Json = False,
) -> None:
    """Check a dataset and show its sizes, returns, costs, safe share and problems.

    Args:
        path: An HDF5 file in DSRL's layout, or an NPZ file with the same arrays.
        task: The task, for its cost budgets.
        thresholds: Cost budgets to judge the episodes by.
        action_bounds: The least and the most of the actions: a pair for all of them or one for each.
        figure: Where to save the picture of the episodes.
        json: Print JSON instead of a table.
    """
    from lspc.report import inspection, terminal

    profile, picture = inspection.inspect(
        path, task=task, thresholds=thresholds, action_bounds=action_bounds or None, figure=figure
    )  # fmt: skip
    if json:
        print_json(profile)
        return
    terminal.output().print(terminal.profile_table(profile, str(path)))
    terminal.say(f"picture: {picture}")


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
