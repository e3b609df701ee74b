"""metrics.csv: the same lines as metrics.jsonl, for a spreadsheet or pandas."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lspc import files
from lspc.training.tracking.base import Line


class Csv:
    """A header, then one row per seed and chunk."""

    def open(self, folder: Path, description: Mapping[str, Any], history: Sequence[Line]) -> None:
        self._path = folder / "metrics.csv"
        self._path.unlink(missing_ok=True)
        if history:
            files.write_text(self._path, _format_rows(history, header=True))

    def log(self, lines: Sequence[Line]) -> None:
        files.append_text(self._path, _format_rows(lines, header=not self._path.exists()))

    def close(self) -> None:
        pass


def _format_rows(lines: Sequence[Line], *, header: bool) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
