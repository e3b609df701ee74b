"""The figures that `lspc figure` draws. Adding one: write its file beside this one, then name it here.

A figure's file holds `draw(asked)`; it is imported when the figure is asked for, so that listing them stays instant.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lspc.errors import UserError

if TYPE_CHECKING:
    from lspc.data import Dataset
    from lspc.tasks import Task


class Figure(NamedTuple):
    name: str
    about: str
    """One line of help."""
    file: str
    """The module in this folder that draws it."""
    runs: str = ""
    """The runs it takes, as the command names them; `RUN ...` is one or more."""
    data: str = ""
    """How the command names the dataset it needs, in brackets where it has another to take.

    What is drawn of one run finds the data that the run learned from.
    """
    set_runs: tuple[str, ...] | None = None
    """The runs of `lspc figure all` that it is drawn from there; None: it is no part of that."""

    @property
    def takes(self) -> str:
        """What to write after `lspc figure`."""
        return " ".join(filter(None, (self.name, self.runs, self.data)))


class Request(NamedTuple):
    """What a figure is drawn from, and where to."""

    name: str
    out: Path
    runs: tuple[Path, ...] = ()
    dataset: "Dataset | None" = None
    task: "Task | None" = None
    """The task that the dataset is of."""
    policy: str = "LSPC-O"
    seed: int | None = None
    """Of the training; the run's first unless given."""


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("training-curves", "reward and cost against updates", "training_curves", "RUN ...",
               set_runs=("lspc", "bc-safe", "fisor")),
        Figure("action-space", "what CVAE, LSPC-S and LSPC-O do in one state", "action_space", "RUN",
               set_runs=("lspc",)),
        Figure("restriction-sweep", "reward and cost of LSPC-O over eps", "restriction_sweep", "RUN",
               set_runs=("lspc",)),
        Figure("converse", "LSPC-O and converse LSPC-O over eps", "converse", "RUN CONVERSE_RUN",
               set_runs=("lspc", "converse")),
        Figure("lambda", "runs that differ in cost_temperature alone", "setting", "RUN ...",
               set_runs=("lambda=1", "lambda=2", "lambda=4")),
        Figure("expectile", "runs that differ in expectile alone", "setting", "RUN ...",
               set_runs=("expectile=0.5", "lspc")),
        Figure("transfer", "reward and cost on every task they were evaluated on", "transfer", "RUN ..."),
        Figure("maps", "the roads of MetaDrive's easy, medium and hard tasks", "maps"),
        Figure("dataset-profile", "cost and reward of a dataset's episodes", "dataset_profile",
               data="--data FILE", set_runs=()),
    )
}  # fmt: skip
ALL = Figure(
    "all",
    "train what is needed; draw all but "
    + " and ".join(name for name, each in FIGURES.items() if each.set_runs is None),
    "",
    data="[--data FILE]",
)
"""The whole set of a task, by `lspc.report.figure_set`."""


def draw(
    name: str,
    out: Path | None = None,
    *,
    runs: Sequence[Path] = (),
    dataset: "Dataset | None" = None,
    task: "Task | None" = None,
    policy: str = "LSPC-O",
    seed: int | None = None,
) -> Path:
    """Draw one figure into `out`, NAME.png unless given; returns the picture."""
    figure = find(name, len(runs), dataset is not None)
    picture = out or Path(f"{name}.png")
    module = importlib.import_module(f"{__name__}.{figure.file}")
    module.draw(Request(name, picture, tuple(runs), dataset, task, policy, seed))
    return picture


def find(name: str, runs: int, has_data: bool) -> Figure:
    """The figure of this name, if it can be drawn from so many runs, with or without a dataset."""
    known = {**FIGURES, ALL.name: ALL}
    if name not in known:
        raise UserError(f"unknown figure {name!r}: choose one of {', '.join(known)}")
    figure = known[name]
    wanted = figure.runs.split()
    if runs == 0 if wanted[-1:] == ["..."] else runs != len(wanted):
        raise UserError(f"{name} was given {runs} runs; the command is: lspc figure {figure.takes}")
    if figure.data.startswith("--") and not has_data:
        raise UserError(f"name the dataset: lspc figure {figure.takes}")
    return figure
