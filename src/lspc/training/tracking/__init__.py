"""Trackers: where a run's metrics go. metrics.jsonl is always written, the others when they are asked for.

Adding one: write its file beside this one (base.py says what it must do), then name it here.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lspc.errors import UserError
from lspc.training.tracking.base import Line, Tracker
from lspc.training.tracking.csv import Csv
from lspc.training.tracking.json_lines import JsonLines, read_history
from lspc.training.tracking.tensorboard import TensorBoard
from lspc.training.tracking.wandb import Wandb

Log = Callable[[Sequence[Line]], None]
"""Takes one line of metrics per seed."""
TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "wandb": Wandb, "csv": Csv}


def make_trackers(names: Sequence[str]) -> list[Tracker]:
    """Trackers for one run, not open yet; an unknown or uninstalled one is refused here."""
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"unknown tracker {name!r}: choose among {', '.join(TRACKERS)}")
    return [JsonLines(), *(TRACKERS[name]() for name in dict.fromkeys(names))]


@contextmanager
def open_trackers(names: Sequence[str], folder: Path, description: Mapping[str, Any], step: int) -> Generator[Log]:
    """A function that logs lines to all of them; what they hold of later than `step` is removed first."""
    trackers, history = make_trackers(names), read_history(folder, step)
    with ExitStack() as stack:
        for tracker in trackers:
            tracker.open(folder, description, history)
            stack.callback(tracker.close)

        def log(lines: Sequence[Line]) -> None:
            for tracker in trackers:
                tracker.log(lines)

        yield log
