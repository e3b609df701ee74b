"""One HTML page about runs or a bench, as one file: to be mailed, opened offline and kept.

What it shows is gathered as plain data (gather.py); the page itself (web/) draws from that in the reader's browser.
"""

import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from lspc import files
from lspc.bench.grid import PLAN
from lspc.errors import UserError
from lspc.report.gather import gather_bench, gather_runs
from lspc.report.views import Part, Source
from lspc.runs import Run

SCRIPTS = ("charts.js", "verdict.js", "restriction.js", "curves.js", "page.js")
"""The last one starts the page."""


def write(
    paths: Sequence[Path],
    out: Path,
    *,
    given: Path | None = None,
    film: bool = True,
    on_stage: Callable[[str], None] | None = None,
) -> list[str]:
    """Write the page about these runs, or about one bench, to `out`; returns what is missing in it, a line each.

    `given` is the dataset, if it is no longer where the runs found it; `on_stage` hears what is being done.
    """
    page = collect(paths, given=given, film=film, on_stage=on_stage)
    files.write_text(out, render(page))
    return page["notes"]


def collect(
    paths: Sequence[Path],
    *,
    given: Path | None = None,
    film: bool = True,
    on_stage: Callable[[str], None] | None = None,
) -> Part:
    """All that the page shows."""
    if not paths:
        raise UserError("name a run folder, such as runs/latest, or a bench folder")
    tell = on_stage or (lambda _: None)
    benches = [path for path in paths if (path / PLAN).exists()]
    if benches and len(paths) > 1:
        raise UserError(f"{benches[0]} is a bench: report it by itself")
    tell("reading records")
    if benches:
        return to_plain(gather_bench(benches[0]))
    return to_plain(gather_runs([Source(Run.open(path), given) for path in paths], film, tell))


def render(page: Part) -> str:
    """The page as one file. `<` is written as JSON's escape, so that no name in the data can end the script."""
    web = resources.files("lspc.report") / "web"

    def read(name: str) -> str:
        return (web / name).read_text(encoding="utf-8")

    parts = {
        "title": html.escape(page["title"]),
        "style": read("page.css"),
        "data": json.dumps(page, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "script": "".join(read(name) for name in SCRIPTS),
    }
    # One pass over the template: what is filled in is not searched for slots again.
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], read("page.html"))


def to_plain(value: Any) -> Any:
    """`value` for JSON: six digits are plenty for a picture, and what is no number is null."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_plain(value.tolist())
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() else float(f"{value:.6g}")
    return value
