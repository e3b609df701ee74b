"""metrics.jsonl: what the networks told while they learned, a line for each chunk of updates and seed."""

from pathlib import Path
from typing import Any

from lspc import files
from lspc.errors import UserError

WHOLE = ("step", "seed")


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of such a file: a step and a seed, and numbers by their names."""
    lines = files.read_jsonl(path)
    for number, line in enumerate(lines, start=1):
        for name in {*WHOLE, *line}:
            value, kind = line.get(name), int if name in WHOLE else int | float
            if not isinstance(value, kind) or isinstance(value, bool):
                what = "a whole number" if name in WHOLE else "a number"
                raise UserError(
                    f"{path}, line {number}: {name!r} must be {what}, found {value!r}; repair or delete it"
                )
    return lines
