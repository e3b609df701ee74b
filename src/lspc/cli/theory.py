"""`lspc theory`: the paper's bounds on finite CMDPs."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from lspc.cli.common import Json, print_json, shown
from lspc.errors import UserError


def theory(
    what: Annotated[
        Literal["bounds", "sample-complexity"], tyro.conf.Positional, shown("[WHAT]", "bounds")
    ] = "bounds",
    count: int = 3000,
    seed: int = 0,
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("theory"),
    json: Json = False,
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
    from lspc import theory as checked
    from lspc.report import terminal

    if count < 1 or seed < 0:
        raise UserError(f"count must be 1 or more and seed 0 or more, not {count}, {seed}")
    with terminal.progress(counted=True) as display:
        bar = display.add_task(what, total=None, note=str(out))

        def show(done: int, total: int) -> None:
            display.update(bar, completed=done, total=total)

        if what == "bounds":
            rows = checked.check(count, seed, on_progress=lambda done: show(done, count))
            checked.save_checks(rows, out, count=count, seed=seed)
            table, record = checked.checks_table(rows), [row.record() for row in rows]
        else:
            sizes = checked.SIZES
            samples = checked.sample_complexity(sizes, seed=seed, on_progress=lambda done: show(done, len(sizes)))
            checked.save_samples(samples, checked.vacuity(seed=seed), out)
            fitted = checked.slopes(samples)
            table, record = checked.slopes_table(fitted, samples), [vars(slope) for slope in fitted]
    if json:
        print_json(record)
        return
    terminal.console.print(table)
    terminal.console.print(f"figures and records: {out}", highlight=False, soft_wrap=True)
