"""What the verbs share: how options read in the help, JSON output, opening data with its warnings."""

import json
from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.tasks import DEFAULT_BUDGETS

BUDGETS = " ".join(map(str, DEFAULT_BUDGETS))
"""As a user would write them."""
Json = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]


def shown(metavar: str, default: str = "") -> Any:
    """How an option without a fixed default reads in the help."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})" if default else "")


Bounds = Annotated[tuple[float, ...], shown("LOW HIGH ...", "the file's, else -1 1, else the data's least and most")]
"""Of actions: a pair for all of them or one for each."""


def open_dataset(path: Path, action_bounds: tuple[float, ...] = ()) -> Any:
    from lspc import data
    from lspc.report import terminal

    dataset = data.load(path, action_bounds=action_bounds or None)
    for warning in dataset.warnings:
        terminal.warn(warning)
    return dataset


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
