"""What a tracker is: a place where a run's metrics are also written, beside its metrics.jsonl."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

Line = Mapping[str, Any]
"""The metrics of one seed: `step`, `seed`, then every metric by its name."""


@runtime_checkable
class Tracker(Protocol):
    """Made before the run's folder is touched, so that a missing package is told before anything is written."""

    def open(self, folder: Path, description: Mapping[str, Any], history: Sequence[Line]) -> None:
        """Begin, and hold exactly `history`: what the run had logged up to the checkpoint it goes on from.

        Whatever an interrupted attempt logged after that checkpoint must go, because it will be logged again.
        """
        ...

    def log(self, lines: Sequence[Line]) -> None:
        """Add one line per seed, all of the same step."""
        ...

    def close(self) -> None:
        """Called once after `open`, however the run ends."""
        ...


def split(line: Line) -> tuple[int, int, dict[str, float]]:
    """A line's step, its seed and its metrics."""
    return line["step"], line["seed"], {name: value for name, value in line.items() if name not in ("step", "seed")}
