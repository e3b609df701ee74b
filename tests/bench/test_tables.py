"""Tables: marks by both rules, averages that stand only when complete, and the four formats."""

import csv
import io
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from rich.console import Console

from lspc.bench import tables
from lspc.bench.records import Cell, Column, Results
from lspc.bench.tables import AVERAGE, Rule, View
from lspc.runs.statistics import Figures, Stratum, compute_figures
from lspc.tasks import get_task


def column(policy: str) -> Column:
    return Column(policy, "deterministic")


def results(cells: dict[tuple[str, str], tuple[float, float]], without: tuple[Cell, ...] = ()) -> Results:
    """(task, policy) -> normalised reward and raw cost of a single episode."""
    made = {}
    for (task, policy), (reward, cost) in cells.items():
        for k in get_task(task).thresholds:
            cell = Cell(task, column(policy), k)
            if cell not in without:
                made[cell] = Stratum(f"{task} {policy}", np.full((1, 1, 1), reward), np.full((1, 1, 1), cost / k))
    return Results(made, [])


def judged(*pairs: tuple[float, float]) -> dict[Column, Figures | None]:
    return {
        column(f"{i}"): compute_figures([Stratum("x", np.full((1, 1, 1), r), np.full((1, 1, 1), c))])
        for i, (r, c) in enumerate(pairs)
    }


@pytest.mark.parametrize(
    ("pairs", "of_any", "of_safer"),
    [
        ([(0.9, 1.0), (0.5, 0.99)], ["", "blue"], ["", "blue"]),
        ([(0.9, 0.5), (0.86, 0.4), (0.86, 0.6), (0.84, 0.1)], ["blue", "blue", "blue", "bold"],
         ["blue", "blue", "bold", "bold"]),
        ([(0.19, 0.5), (0.14, 0.5)], ["blue", "blue"], ["blue", "bold"]),  # 0.19 - 0.14 is more than 0.05 in floats
        ([(0.9, 0.5), (0.9, 0.2), (0.88, 0.3)], ["blue"] * 3, ["blue", "blue", "bold"]),
        ([(0.9, 2.0)], [""], [""]),
        ([(-0.1, 0.2), (-0.14, 0.1)], ["blue", "blue"], ["blue", "blue"]),
    ],
)  # fmt: skip
def test_marks(pairs: list[tuple[float, float]], of_any: list[str], of_safer: list[str]) -> None:
    cells = {**judged(*pairs), column("missing"): None}
    assert list(tables.marks(cells, "any").values()) == [*of_any, ""]
    assert list(tables.marks(cells, "safer").values()) == [*of_safer, ""]


SOME = {
    ("BallRun", "LSPC-O"): (0.25, 2.0),
    ("BallRun", "BC"): (0.5, 30.0),
    ("CarRun", "LSPC-O"): (0.75, 0.0),
    ("CarRun", "BC"): (0.78, 4.0),
}


def test_rows_end_in_the_suites_average() -> None:
    found = tables.rows(results(SOME))
    assert [row.name for row in found] == ["BallRun", "CarRun", AVERAGE]
    assert [c.policy for c in found[0].cells] == ["BC", "LSPC-O"]  # the paper's order
    average = found[-1].cells[column("LSPC-O")]
    assert average is not None
    assert average.reward.mean == pytest.approx(0.5)
    assert average.cost.mean == pytest.approx((2 / 10 + 2 / 20 + 2 / 40) / 3 / 2)
    split = tables.rows(results(SOME), by_threshold=True)
    assert [(row.name, row.threshold) for row in split[:4]] == [
        ("BallRun", 10), ("BallRun", 20), ("BallRun", 40), ("CarRun", 10),
    ]  # fmt: skip
    assert [tables.marks(row.cells, "any")[column("BC")] for row in split[:3]] == ["", "", "blue"]
    last = split[-1].cells[column("BC")]
    assert last is not None
    assert last.cost.mean == pytest.approx((30 / 40 + 4 / 40) / 2)


def test_a_figure_needs_all_that_it_averages_over() -> None:
    found = results(SOME, without=(Cell("CarRun", column("BC"), 40),))
    whole = {row.name: row.cells[column("BC")] for row in tables.rows(found)}
    assert whole["BallRun"] is not None
    assert whole["CarRun"] is None
    assert whole[AVERAGE] is None
    split = {(row.name, row.threshold): row.cells[column("BC")] for row in tables.rows(found, by_threshold=True)}
    assert split["CarRun", 20] is not None
    assert split[AVERAGE, 20] is not None
    assert split["CarRun", 40] is None
    assert split[AVERAGE, 40] is None
    (sheet,) = tables.summaries(tables.rows(found))
    assert [row[0].parts for row in sheet.body] == [("LSPC-O",)]


def test_suites_have_tables_and_averages_of_their_own() -> None:
    more = {**SOME, ("AntVelocity", "LSPC-O"): (1.0, 0.0)}
    titles = [sheet.title for sheet in tables.sheets(tables.rows(results(more)), "any")]
    assert titles == ["Bullet Safety Gym: reward and cost", "Safety Gymnasium: reward and cost"]
    averages = [row for row in tables.rows(results(more)) if row.name == AVERAGE]
    assert averages[1].cells[column("BC")] is None


def test_markdown_and_latex() -> None:
    (sheet,) = tables.sheets(tables.rows(results(SOME)), "any")
    assert tables.markdown(sheet).splitlines()[2:] == [
        r"bold: safe; blue (\*): the most reward among the safe, or within 0.05 of it",
        "",
        "| task | BC | LSPC-O |",
        "| --- | --- | --- |",
        r"| BallRun | 0.50 / 1.75 | **0.25\* / 0.12** |",
        r"| CarRun | **0.78\* / 0.23** | **0.75\* / 0.00** |",
        r"| Average | **0.64\* / 0.99** | **0.50 / 0.06** |",
    ]
    lines = [line.strip() for line in tables.latex(sheet).splitlines()]
    assert lines[1] == r"\begin{tabular}{lrrrr}"
    assert lines[2] == r"\textbf{task} & \multicolumn{2}{c}{\textbf{BC}} & \multicolumn{2}{c}{\textbf{LSPC-O}} \\"
    assert lines[5] == r"BallRun & 0.50 & 1.75 & \textbbf{0.25} & \textbbf{0.12} \\"
    assert lines[-4:-1] == [
        r"CarRun & \textbbf{0.78} & \textbbf{0.23} & \textbbf{0.75} & \textbbf{0.00} \\",
        r"\hline",
        r"Average & \textbbf{0.64} & \textbbf{0.99} & \textbf{0.50} & \textbf{0.06} \\",
    ]


def test_intervals_and_modes() -> None:
    made = results({("BallRun", "LSPC-O"): (0.25, 2.0)})
    sampled = {cell._replace(column=Column("LSPC-O", "sampled")): stratum for cell, stratum in made.cells.items()}
    both = Results(made.cells | sampled, [])
    (sheet,) = tables.sheets(tables.rows(both), "any", intervals=True)
    assert sheet.header == ("task", "LSPC-O", "LSPC-O, sampled")
    assert sheet.body[0][1].parts == ("0.25", "0.12")  # one episode has no interval
    two = {cell: Stratum("x", np.array([[[0.25, 0.5]]]), np.array([[[0.0, 0.5]]])) for cell in made.cells}
    (sheet,) = tables.sheets(tables.rows(Results(two, [])), "any", intervals=True)
    assert sheet.body[0][1].parts == ("0.38 [0.25,0.50]", "0.25 [0.00,0.50]")
    assert r"0.38\* [0.25,0.50] / 0.25 [0.00,0.50]" in tables.markdown(sheet)


@pytest.mark.parametrize("view", get_args(View))
def test_wide_tables_fit_the_terminal_and_tell_blue_without_colour(view: View) -> None:
    policies = [*tables.ORDER, "a policy the paper does not have"]
    cells = {(task, p): (i / 10 - 0.85, 4.0) for task in ("BallCircle", "CarRun") for i, p in enumerate(policies)}
    sheet = tables.views(results(cells), [view], "any")[0]
    written = io.StringIO()
    Console(width=80, file=written).print(tables.terminal(sheet, 80))
    text = written.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "COptiDICE" in text
    assert re.findall(r"\d\.\d\b|\d\.$", text, re.MULTILINE) == []  # no number is broken
    if view not in ("policies", "pairs"):
        assert text.count("-0.85") >= 2
        assert "0.25*" in text


def test_the_files(tmp_path: Path) -> None:
    made = results(SOME, without=(Cell("CarRun", column("BC"), 40),))._replace(problems=["CarRun, BC at 40: missing"])
    paths = tables.write(made, tmp_path / "tables", "any")
    assert [path.name for path in paths] == ["table.md", "table.tex", "table.csv"]
    page, source, long = (path.read_text() for path in paths)
    assert "- CarRun, BC at 40: missing" in page
    assert "how often the row beats the column" in page
    assert "% missing or left out: CarRun, BC at 40: missing" in source
    lines = list(csv.DictReader(long.splitlines()))
    assert len(lines) == 4 - 1 + 1 + 12 - 1 + 6 - 1  # tasks, an average, the same at each threshold; less BC's gaps
    (line,) = (x for x in lines if (x["task"], x["threshold"], x["policy"]) == ("BallRun", "40", "BC"))
    assert line["cost"] == "0.75"
    assert (line["safe"], line["mark_any"], line["mark_safer"]) == ("1", "blue", "blue")


@pytest.mark.parametrize("rule", tables.RULES)
def test_the_caption_tells_the_rule(rule: Rule) -> None:
    (sheet,) = tables.sheets(tables.rows(results(SOME)), rule)
    assert ("or safer and" in sheet.caption) == (rule == "safer")
