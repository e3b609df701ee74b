"""From what a user names to where it is: a file, a folder, a Minari id, or a DSRL task whose file is fetched."""

import re
from collections.abc import Callable
from pathlib import Path

from lspc.data.dataset import Metadata
from lspc.data.fetch import fetch
from lspc.data.formats import minari
from lspc.data.validate import Findings
from lspc.errors import UserError
from lspc.tasks import Task, all_tasks, get_task

VERSION = re.compile(r"-v\d+(?=[-.]|$)")


def locate(
    source: str | Path, *, offline: bool = False, on_progress: Callable[[int, int | None], None] | None = None
) -> Path:
    """The file or folder that `source` names; what is on this machine under that very name goes first."""
    path = Path(source)
    if path.exists():
        return path
    if task := named_task(source):
        return fetch(task, offline=offline, on_progress=on_progress)
    return minari.find_by_id(str(source)) or path


def named_task(source: str | Path) -> Task | None:
    """The DSRL task that is meant, where there is no file of that name."""
    if Path(source).exists():
        return None
    try:
        return get_task(str(source))
    except UserError:
        return None


def name_task(path: Path, metadata: Metadata, found: Findings | None = None) -> Metadata:
    """The metadata with the task of the file, told by its name where they name none."""
    if "task" in metadata or (task := guess_task(path)) is None:
        return metadata
    if found:
        found.warn("task", f"taken as data of {task.name}, from its name; --task overrides this")
    return {**metadata, "task": task.name}


def guess_task(path: Path) -> Task | None:
    """The task of a file that is called as DSRL calls its own, whatever limits and counts its name holds."""
    matched = VERSION.search(path.name)
    if matched is None:
        return None
    name = path.name[: matched.end()].lower()
    return next(
        (task for task in all_tasks() if name in (task.gym_id.lower(), _versioned(task.dataset_file).lower())), None
    )


def _versioned(name: str) -> str:
    matched = VERSION.search(name)
    return name[: matched.end()] if matched else name
