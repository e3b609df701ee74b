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
    """How to read the log (docs/data.md)."""

    columns: Annotated[tuple[str, ...], shown("ROLE=COLUMN ...", "by their names")] = ()
    """A table's columns, such as observations='temp_*' actions=valve reward=yield episode=batch, or a TOML file."""
    cost: Annotated[str | None, shown("EXPRESSION")] = None
    """The cost as a column or an expression of columns, such as "temp > 80"."""
    drop_missing: Switch = False
    """Leave out rows of a table with missing values, and cut episodes there and where the step counter jumps."""
    continuous: Switch = False
    """Treat actions that look discrete (a few whole numbers) as continuous."""
    action_bounds: Annotated[
        tuple[float, ...], shown("LOW HIGH ...", "the file's, else -1 1, else the range in the data")
    ] = ()
    """Lowest and highest value of the actions: one pair for all of them or one for each."""
    filter: Annotated[tuple[str, ...], shown("NAME=NUMBER ...")] = ()
    """Filter the data, such as max-cost=20 subsample=0.5; a name that does not exist lists all of them."""
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
