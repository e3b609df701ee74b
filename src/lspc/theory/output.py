"""The results as tables for the terminal, and as a folder of records and figures."""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from lspc import files
from lspc.theory.checks import Row
from lspc.theory.samples import QUANTITIES, Samples, Slope, slopes

PAPER_RATE = 0.25


def checks_table(rows: Sequence[Row]) -> Table:
    table = Table(title="The paper's statements on finite CMDPs", box=box.SIMPLE_HEAD, padding=0)
    for name in ("statement", "form"):
        table.add_column(name)
    for name in ("holds in", "of", "says\nnothing", "median\nratio", "worst\nratio"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.statement,
            row.form,
            f"{row.holds:,}",
            f"{row.cases:,}",
            f"{100 * row.vacuous:.0f} %",
            *("-" if ratio is None else f"{ratio:.2g}" for ratio in (row.median, row.worst)),
            style=None if row.correct else "bold red",
        )
    table.caption = (
        "Ratio: left side over bound, where the bound is finite; a statement holds up to 1. Says nothing: the bound "
        "is no less than the most that the left side could be. d*, d_b: where pi* and the data are. Red: it fails."
    )
    return table


def slopes_table(fitted: Sequence[Slope], samples: Samples) -> Table:
    table = Table(title="How errors fall with the number of samples N", box=box.SIMPLE_HEAD, padding=0)
    table.add_column("error")
    first, last = samples.sizes[0], samples.sizes[-1]
    for name in (f"at N =\n{first:,}", f"at N =\n{last:,}", "falls as\nN^-x, x", "95 %\ninterval", "paper"):
        table.add_column(name, justify="right")
    for slope in fitted:
        table.add_row(
            QUANTITIES[slope.quantity],
            f"{slope.first:.2g}",
            f"{slope.last:.2g}",
            _two_digits(slope.rate),
            f"{_two_digits(slope.low)} to {_two_digits(slope.high)}",
            _two_digits(PAPER_RATE),
        )
    table.caption = (
        "Values as a share of the largest difference that the CMDP allows. Eq. 18 copies actions that an oracle of "
        "pi* shows; LSPC has only the data, and its limit, with unlimited data, is not pi*."
    )
    return table


def _two_digits(number: float) -> str:
    # Adding zero turns a rounded -0.00 into 0.00.
    return f"{round(number, 2) + 0:.2f}"


def save_checks(rows: Sequence[Row], folder: str | Path, *, count: int, seed: int) -> None:
    """checks.json and two figures."""
    from lspc.theory import figures

    folder = Path(folder)
    files.write_json(folder / "checks.json", {"count": count, "seed": seed, "rows": [row.record() for row in rows]})
    figures.ratios_figure(rows, folder / "theory-ratios.png")
    figures.door_figure(folder / "theory-door.png")


def save_samples(samples: Samples, bounds: Sequence[dict[str, float]], folder: str | Path) -> None:
    """samples.json, vacuity.jsonl and two figures; `bounds` come from `vacuity`."""
    from lspc.theory import figures

    folder = Path(folder)
    fitted = [vars(slope) for slope in slopes(samples)]
    files.write_json(folder / "samples.json", {**samples.record(), "slopes": fitted})
    files.write_jsonl(folder / "vacuity.jsonl", list(bounds))
    figures.samples_figure(samples, folder / "theory-samples.png")
    figures.vacuity_figure(bounds, folder / "theory-vacuity.png")
