"""`lspc report`: the page."""

from pathlib import Path
from typing import Annotated

import tyro

from lspc.cli.common import Switch, shown


def report(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, shown("RUN [RUN ...] | BENCH")],
    out: Annotated[Path, shown("HTML", "report.html in the first folder")] = Path(),
    data: Annotated[Path | None, shown("FILE", "the one the runs learned from")] = None,
    no_film: Switch = False,
) -> None:
    """Write one HTML page about runs or a bench, to open offline and send to others.

    Is it safe, at which budget, how certain: in words, table, curves and a film.

    Args:
        folders: One or more run folders, or the folder of one bench.
        out: The page to write.
        data: The dataset, if it is no longer where the runs found it.
        no_film: Leave out the filmed episode, which takes most of the time.
    """
    from lspc.report import page, terminal

    target = folders[0] / "report.html" if folders and out == Path() else out
    with terminal.progress() as bars:
        missing = page.write(
            folders, target, given=data, film=not no_film, on_stage=lambda what: bars.show("reporting", note=what)
        )
    for line in missing:
        terminal.note(f"not in the page: {line}")
    terminal.say(f"report: {target}")
