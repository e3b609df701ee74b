"""What the verbs share: how options read in the help, JSON output, opening data with its warnings."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.tasks import DEFAULT_BUDGETS

BUDGETS = " ".join(map(str, DEFAULT_BUDGETS))
"""As a user would write them."""
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
"""An option that is off unless named."""


def shown(metavar: str, default: str = "") -> Any:
    """How an option without a fixed default reads in the help."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})" if default else "")


@dataclass(frozen=True)
class Opening:
    """What a log's numbers are: see docs/data.md."""

    columns: Annotated[tuple[str, ...], shown("ROLE=COLUMN ...", "what their names say")] = ()
    """A table's columns, such as observations='temp_*' actions=valve reward=yield episode=batch, or a TOML file."""
    cost: Annotated[str | None, shown("EXPRESSION")] = None
    """The cost as a column or an expression of columns, such as "temp > 80"."""
    drop_missing: Switch = False
    """Leave out rows of a table with missing values, and cut episodes there and where the step counter jumps."""
    continuous: Switch = False
    """Take actions that look discrete (few whole numbers) for continuous ones."""
    action_bounds: Annotated[
        tuple[float, ...], shown("LOW HIGH ...", "the file's, else -1 1, else the data's least and most")
    ] = ()
    """The least and the most of the actions: a pair for all of them or one for each."""
    filter: Annotated[tuple[str, ...], shown("NAME=NUMBER ...")] = ()
    """Learn from a part of the episodes, such as max-cost=20 subsample=0.5; docs/data.md has them all."""
    filter_seed: Annotated[int, shown("INT", "0")] = 0
    """Random seed of the filters."""
    offline: Switch = False
    """Never download the data of a DSRL task."""

    def options(self) -> dict[str, Any]:
        """For `data.load`."""
        return {**asdict(self), "action_bounds": self.action_bounds or None}


AS_NAMED = Opening()
"""Every column is what its name says."""


def open_dataset(path: Path, opening: Opening = AS_NAMED) -> Any:
    from lspc import data
    from lspc.report import terminal

    dataset = data.load(find_data(path, opening), **opening.options())
    for warning in dataset.warnings:
        terminal.warn(warning)
    return dataset


def find_data(source: Path, opening: Opening = AS_NAMED) -> Path:
    """Where the data are; a download shows how far it is."""
    from lspc import data
    from lspc.report import terminal

    with terminal.progress() as bars:
        return data.locate(
            source, offline=opening.offline, on_progress=lambda done, total: bars.show(f"{source}", done, total)
        )


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
