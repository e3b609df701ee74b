"""metrics.jsonl, which every run has: one line per seed and chunk. The other trackers are rebuilt from it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lspc import files
from lspc.runs import metrics
from lspc.runs.layout import METRICS
from lspc.training.tracking.base import Line


class JsonLines:
    def open(self, folder: Path, description: Mapping[str, Any], history: Sequence[Line]) -> None:
        self._path = folder / METRICS
        if self._path.exists():
            files.write_jsonl(self._path, [dict(line) for line in history])

    def log(self, lines: Sequence[Line]) -> None:
        files.append_jsonl(self._path, [dict(line) for line in lines])

    def close(self) -> None:
        pass


def read_history(folder: Path, step: int) -> list[Line]:
    """What the run logged up to `step`."""
    path = folder / METRICS
    return [row for row in metrics.read(path) if row["step"] <= step] if path.exists() else []
