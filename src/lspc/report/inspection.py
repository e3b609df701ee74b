"""A dataset looked at: what `lspc inspect` tells of it, in numbers and as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lspc import data, files
from lspc.errors import UserError
from lspc.report.figures.dataset_profile import dataset_profile_figure
from lspc.tasks import NAMED_IN_DATA, task_of, thresholds_of


def inspect(
    path: Path,
    *,
    task: str | None = NAMED_IN_DATA,
    thresholds: Sequence[float] | None = None,
    figure: Path | None = None,
    opening: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The profile; with a `figure`, the picture goes there. `opening` is what `data.load` takes beside the file.

    Episodes are judged by `thresholds`, else by those of `task` or of the task that the file names.
    """
    dataset, problems = data.examine(path, **opening or {})
    if dataset is None:
        raise UserError("\n".join(problem.message for problem in problems if problem.severity == "fatal"))
    known = task_of(dataset.metadata, task)
    budgets = thresholds or thresholds_of(known)
    if figure:
        dataset_profile_figure(dataset, budgets, figure, title=known.name if known else path.name)
    return data.profile(dataset, budgets)


def write_columns(path: Path, out: Path) -> None:
    """A proposal of what the columns of a table are, for the user to look through."""
    files.write_text(out, data.propose_columns(data.read_table(path)))
