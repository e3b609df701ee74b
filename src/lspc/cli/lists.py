"""`lspc doctor`, `tasks`, `algos`, `runs`: what there is."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from lspc.cli.common import Switch, print_json, shown


def doctor(json: Switch = False) -> None:
    """Show what is installed, what is missing, and the command that installs it.

    Args:
        json: Print JSON instead of a table.
    """
    from lspc.doctor import run_checks
    from lspc.report import terminal

    found = run_checks()
    if json:
        print_json([asdict(check) for check in found])
    else:
        terminal.output().print(terminal.doctor_table(found))
    if not all(check.ok or check.optional for check in found):
        sys.exit(1)


def tasks(json: Switch = False) -> None:
    """List DSRL's 38 tasks and whether their simulator is installed.

    Args:
        json: Print JSON instead of a table.
    """
    from lspc import sims
    from lspc.tasks import all_tasks

    listed = all_tasks()
    installed = {task.name: sims.is_installed(task) for task in listed}
    if json:
        keys = "name suite episode_length observation_dim action_dim reward_min reward_max thresholds dataset_file"
        rows = [{key: getattr(task, key) for key in keys.split()} for task in listed]
        print_json([{**row, "installed": installed[row["name"]]} for row in rows])
        return
    from lspc.report import terminal

    terminal.output().print(terminal.tasks_table(listed, installed))


def algos(json: Switch = False) -> None:
    """List the methods, one line each.

    Args:
        json: Print JSON instead of a table.
    """
    from lspc.algos import METHODS

    if json:
        print_json([{"name": name, "about": line} for name, line in METHODS.items()])
        return
    from lspc.report import terminal

    terminal.output().print(terminal.methods_table(METHODS))


def runs(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, shown("[FOLDER ...]", "runs")] = (Path("runs"),),
    json: Switch = False,
) -> None:
    """List the runs in folders: how far they are, their measured cost and reward.

    Below each run are the settings that differ between runs of its method.

    Args:
        folders: Run folders, or folders with runs in or below them.
        json: Print JSON instead of a table.
    """
    from lspc.runs.overview import list_runs

    listed = list_runs(folders)
    if json:
        print_json([{**asdict(each), "path": str(each.path)} for each in listed])
        return
    from lspc.report import terminal

    terminal.output().print(terminal.runs_table(listed))
