"""The results as tables for the terminal, and as a folder of records and figures."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from lspc import files
from lspc.errors import UserError
from lspc.theory.checks import Row, check
from lspc.theory.samples import QUANTITIES, SIZES, Samples, Slope, sample_complexity, slopes, vacuity

PAPER_RATE = 0.25


def run_checks(
    count: int, seed: int, out: Path, on_progress: Callable[[int, int], None]
) -> tuple[Table, list[dict[str, Any]]]:
    """Check every statement; figures and records go to `out`. Returns the table, and its rows for JSON."""
    if count < 1 or seed < 0:
        raise UserError(f"count must be 1 or more and seed 0 or more, not {count}, {seed}")
    rows = check(count, seed, on_progress=lambda done: on_progress(done, count))
    save_checks(rows, out, count=count, seed=seed)
    return checks_table(rows), [row.record() for row in rows]


def run_sample_complexity(
    seed: int, out: Path, on_progress: Callable[[int, int], None]
) -> tuple[Table, list[dict[str, Any]]]:
    """Measure how errors fall with the number of samples, in the same form."""
    if seed < 0:
        raise UserError(f"the seed must be 0 or more, not {seed}")
    samples = sample_complexity(SIZES, seed=seed, on_progress=lambda done: on_progress(done, len(SIZES)))
    save_samples(samples, vacuity(seed=seed), out)
    fitted = slopes(samples)
    return slopes_table(fitted, samples), [vars(slope) for slope in fitted]


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
