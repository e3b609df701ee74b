"""`lspc theory`: the paper's bounds on finite CMDPs."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from lspc.cli.common import Switch, print_json, shown


def theory(
    what: Annotated[
        Literal["bounds", "sample-complexity"], tyro.conf.Positional, shown("[WHAT]", "bounds")
    ] = "bounds",
    count: int = 3000,
    seed: int = 0,
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("theory"),
    json: Switch = False,
) -> None:
    """Check the paper's lemmas and theorems on random finite CMDPs.

    bounds: each statement, how often it holds and how tight it is.

    sample-complexity: how errors fall with the number of samples.

    Args:
        what: bounds or sample-complexity.
        count: Random CMDPs to check the bounds on.
        seed: The same seed draws the same CMDPs.
        out: Folder for the figures and records.
        json: Print JSON instead of a table.
    """
    from lspc.report import terminal
    from lspc.theory import run_checks, run_sample_complexity

    with terminal.progress(counted=True) as bars:

        def show(done: int, total: int) -> None:
            bars.show(what, done, total, str(out))

        if what == "bounds":
            table, rows = run_checks(count, seed, out, show)
        else:
            table, rows = run_sample_complexity(seed, out, show)
    if json:
        print_json(rows)
        return
    terminal.output().print(table)
    terminal.say(f"figures and records: {out}")
