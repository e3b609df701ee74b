"""What the verbs share: how options read in the help, JSON output, opening data with its warnings."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.errors import UserError

Json = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]


def shown(metavar: str, default: str = "") -> Any:
    """How an option without a fixed default reads in the help."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})" if default else "")


def dataset_of(description: dict[str, Any], path: Path | None) -> Any:
    from lspc import data

    if path is not None:
        return open_dataset(path)
    source = Path(description["dataset"]["source"])
    if not source.exists():
        return None
    dataset = data.load(source)
    return dataset if dataset.fingerprint == description["dataset"]["fingerprint"] else None


def open_dataset(path: Path) -> Any:
    from lspc import data
    from lspc.report import terminal

    dataset = data.load(path)
    for warning in dataset.warnings:
        terminal.errors.print(f"[yellow]{warning}", highlight=False)
    return dataset


def find_task(name: str | None, path: Path) -> Any:
    from lspc import data
    from lspc.tasks import get_task

    if name:
        return get_task(name)
    # A file that cannot be read is told by whoever opens it; one that names a task of its own is no fault.
    with suppress(UserError, KeyError):
        return get_task(str(data.read_metadata(path)["task"]))
    return None


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
