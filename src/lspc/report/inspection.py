"""A dataset looked at: what `lspc inspect` tells of it, in numbers and as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lspc import data
from lspc.errors import UserError
from lspc.report.figures.dataset_profile import dataset_profile_figure
from lspc.tasks import NAMED_IN_DATA, task_of, thresholds_of


def inspect(
    path: Path,
    *,
    task: str | None = NAMED_IN_DATA,
    thresholds: Sequence[float] | None = None,
    action_bounds: Sequence[float] | None = None,
    figure: Path | None = None,
) -> tuple[dict[str, Any], Path]:
    """The profile and the picture, FILE.profile.png unless `figure` names another.

    Episodes are judged by `thresholds`, else by those of `task` or of the task that the file names.
    """
    dataset, problems = data.examine(path, action_bounds=action_bounds)
    if dataset is None:
        raise UserError("\n".join(problem.message for problem in problems))
    known = task_of(dataset.metadata, task)
    budgets = thresholds or thresholds_of(known)
    picture = figure or path.with_suffix(".profile.png")
    dataset_profile_figure(dataset, budgets, picture, title=known.name if known else path.name)
    return data.profile(dataset, budgets), picture
