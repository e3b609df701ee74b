"""The paper's tables from results: which policies are safe, which are best, by task, threshold and suite.

Every table is a `Sheet` of entries with marks; a sheet becomes a terminal table, Markdown or LaTeX. The CSV holds all
figures in long form.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from lspc import files
from lspc.bench.records import Column, Results
from lspc.evaluation import MODES
from lspc.runs.statistics import Figures, Interval, Stratum, beats, compute_figures
from lspc.tasks import SUITES, get_task

Rule = Literal["any", "safer"]
"""Blue is the safe policy with the most reward, and within 0.05 of it: any safe policy, as the paper prints (mostly),
or only a safer one, as its text says."""
Mark = Literal["", "bold", "blue"]
View = Literal["table", "policies", "pairs", "intervals", "thresholds"]
RULES: dict[Rule, str] = {
    "any": "blue (*): the most reward among the safe, or within 0.05 of it",
    "safer": "blue (*): the most reward among the safe, or safer and within 0.05 of it",
}
CLOSE = 0.05
ROUNDING = 1e-9
"""0.14 is within 0.05 of 0.19, whatever the last bit says."""
AVERAGE = "Average"
ORDER = ["BC", "BC-Safe", "CDT", "BCQ-Lag", "BEAR-Lag", "CPQ", "COptiDICE", "FISOR", "CVAE", "LSPC-S", "LSPC-O"]
"""The paper's columns."""


class Row(NamedTuple):
    suite: str
    name: str
    """A task, or the average over the suite's tasks."""
    threshold: float | None
    """None: averaged over the three."""
    cells: dict[Column, Figures | None]
    """None where something is missing."""


def columns(results: Results) -> list[Column]:
    """In the paper's order, what it does not have at the end."""
    return sorted(results.columns, key=lambda c: ORDER.index(c.policy) if c.policy in ORDER else len(ORDER))


def suites(results: Results) -> dict[str, list[str]]:
    """The tasks there are, by suite."""
    return {suite: there for suite in SUITES if (there := [t for t in results.tasks if get_task(t).suite == suite])}


def rows(results: Results, *, by_threshold: bool = False) -> list[Row]:
    """A row for each task (at each threshold), then one for the suite's average."""
    made: list[Row] = []
    for suite, tasks in suites(results).items():
        thresholds = get_task(tasks[0]).thresholds if by_threshold else (None,)
        for name in (*tasks, AVERAGE):
            for k in thresholds:
                over = tasks if name == AVERAGE else [name]
                made.append(Row(suite, name, k, {c: _figures(results, over, c, k) for c in columns(results)}))
    return made


def _strata(results: Results, tasks: Sequence[str], column: Column, threshold: float | None) -> list[Stratum] | None:
    parts = [results.stratum(task, column, threshold) for task in tasks]
    there = [part for part in parts if part is not None]
    return there if len(there) == len(tasks) else None


def _figures(results: Results, tasks: Sequence[str], column: Column, threshold: float | None) -> Figures | None:
    strata = _strata(results, tasks, column, threshold)
    return compute_figures(strata) if strata else None


def marks(cells: Mapping[Column, Figures | None], rule: Rule) -> dict[Column, Mark]:
    """Bold: safe. Blue: the best of the safe, by the rule."""
    safe = {column: found for column, found in cells.items() if found and found.safe}
    best = max((found.reward.mean for found in safe.values()), default=0.0)
    least = min((f.cost.mean for f in safe.values() if f.reward.mean >= best - ROUNDING), default=0.0)

    def mark(column: Column) -> Mark:
        if column not in safe:
            return ""
        reward, cost = safe[column].reward.mean, safe[column].cost.mean
        close = reward >= best - CLOSE - ROUNDING and (rule == "any" or cost < least)
        return "blue" if close or reward >= best - ROUNDING else "bold"

    return {column: mark(column) for column in cells}


class Entry(NamedTuple):
    parts: tuple[str, ...]
    """What stands in the cell: on lines of its own in a terminal, in columns of its own in LaTeX."""
    mark: Mark = ""


@dataclass(frozen=True)
class Sheet:
    title: str
    caption: str
    header: tuple[str, ...]
    width: int
    """Parts of each entry but a row's first, which has one."""
    body: list[list[Entry]] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    """Rows with a line above them."""


def sheets(table: Sequence[Row], rule: Rule, *, intervals: bool = False) -> list[Sheet]:
    """One for each suite: tasks down, policies across, reward above cost."""
    made: dict[str, Sheet] = {}
    caption = f"bold: safe; {RULES[rule]}"
    for row in table:
        what = "reward and cost" + ("" if row.threshold is None else " at each threshold")
        what += ", 95 % intervals" if intervals else ""
        header = "task", *_names(list(row.cells))
        sheet = made.setdefault(row.suite, Sheet(f"{SUITES[row.suite].title}: {what}", caption, header, 2))
        if row.name == AVERAGE and not sheet.body[-1][0].parts[0].startswith(AVERAGE):
            sheet.breaks.append(len(sheet.body))
        label = row.name if row.threshold is None else f"{row.name} @{row.threshold}"
        marked = marks(row.cells, rule)
        entries = [_entry(found, marked[column], intervals) for column, found in row.cells.items()]
        sheet.body.append([Entry((label,)), *entries])
    return list(made.values())


def summaries(table: Sequence[Row]) -> list[Sheet]:
    """One for each suite: what there is to say about each policy that has all its tasks."""
    header = "policy", "reward", "IQM", "cost", "IQM", "over budget", "tail cost"
    caption = (
        "Means over the suite's tasks and thresholds; 95 % intervals, unless all episodes are alike. "
        "IQM: interquartile mean of the runs. "
        "Over budget: share of episodes. Tail cost: mean of the costliest tenth. Bold: safe."
    )
    made = []
    for row in (row for row in table if row.name == AVERAGE and row.threshold is None):
        sheet = Sheet(f"{SUITES[row.suite].title}: policies over all tasks", caption, header, 1)
        for name, found in zip(_names(list(row.cells)), row.cells.values(), strict=True):
            if found:
                four = found.reward, found.reward_iqm, found.cost, found.cost_iqm
                last = f"{100 * found.over_budget:.0f} %", f"{found.tail_cost:.2f}"
                texts = name, *(_text(interval, True) for interval in four), *last
                sheet.body.append([Entry((text,), "bold" if found.safe else "") for text in texts])
        made.append(sheet)
    return made


def comparisons(results: Results) -> list[Sheet]:
    """One for each suite: how likely the policy of the row beats that of the column."""
    made = []
    for suite, tasks in suites(results).items():
        parts = {column: _strata(results, tasks, column, None) for column in columns(results)}
        there = {column: strata for column, strata in parts.items() if strata}
        names = _names(list(there))
        caption = "Share of pairs of training runs; safe beats unsafe, then reward (of the unsafe: cost) decides"
        sheet = Sheet(f"{SUITES[suite].title}: how often the row beats the column", caption, ("policy", *names), 1)
        for name, (ours, a) in zip(names, there.items(), strict=True):
            shares = ["-" if theirs == ours else _text(beats(a, b), True) for theirs, b in there.items()]
            sheet.body.append([Entry((text,)) for text in (name, *shares)])
        made.append(sheet)
    return made


def _names(wanted: Sequence[Column]) -> list[str]:
    """The usual mode goes without saying; so does any other, if there is no second one."""
    several = len({column.mode for column in wanted}) > 1
    return [f"{policy}, {mode}" if several and mode != MODES[0] else policy for policy, mode in wanted]


def _entry(found: Figures | None, mark: Mark, intervals: bool) -> Entry:
    if found is None:
        return Entry(("-", "-"))
    return Entry((_text(found.reward, intervals), _text(found.cost, intervals)), mark)


def _text(interval: Interval, with_bounds: bool) -> str:
    mean, low, high = (f"{round(end, 2) + 0.0:.2f}" for end in vars(interval).values())  # -0.001 is 0.00
    # Episodes that are all alike do not prove that the interval is narrow.
    alike = math.isclose(interval.low, interval.high, abs_tol=1e-9)
    return mean + (f" [{low},{high}]" if with_bounds and not alike else "")


def terminal(sheet: Sheet, width: int) -> Group:
    """As many columns side by side as `width` has room for, the others below."""
    styles = {"": "", "bold": "bold", "blue": "bold bright_blue"}
    head = [Text(name.replace("-", "-\n").replace(" ", "\n")) for name in sheet.header]
    body = [
        [Text("\n".join(_add_star(entry)).replace(" [", "\n["), styles[entry.mark]) for entry in row]
        for row in sheet.body
    ]
    wide = [
        2 + max(len(line) for text in column for line in text.plain.split("\n"))
        for column in zip(head, *body, strict=True)
    ]
    blocks: list[list[int]] = [[0]]
    for number in range(1, len(head)):
        if len(blocks[-1]) > 1 and sum(wide[n] for n in blocks[-1]) + wide[number] > width:
            blocks.append([0])
        blocks[-1].append(number)
    tables = [Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False) for _ in blocks]
    for table, numbers in zip(tables, blocks, strict=True):
        for number in numbers:
            table.add_column(head[number], justify="right" if number else "left", no_wrap=True)
        for place, row in enumerate(body):
            table.add_row(*(row[number] for number in numbers), end_section=place + 1 in sheet.breaks)
    return Group(Text(f"\n{sheet.title}", "bold"), *tables, Text(sheet.caption, "dim"))


def _add_star(entry: Entry) -> tuple[str, ...]:
    """Blue is told without colour too."""
    reward, space, bounds = entry.parts[0].partition(" ")
    return (f"{reward}*{space}{bounds}", *entry.parts[1:]) if entry.mark == "blue" else entry.parts


def markdown(sheet: Sheet) -> str:
    def show(entry: Entry) -> str:
        text = " / ".join(_add_star(entry)).replace("*", "\\*")
        return f"**{text}**" if entry.mark else text

    lines = [sheet.header, ["---"] * len(sheet.header), *([show(entry) for entry in row] for row in sheet.body)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    caption = sheet.caption.replace("*", "\\*")
    return f"### {sheet.title}\n\n{caption}\n\n{table}\n"


def latex(sheet: Sheet) -> str:
    """A tabular in the paper's layout, with its \\textbbf for bold and blue."""
    commands = {"": "{}", "bold": r"\textbf{{{}}}", "blue": r"\textbbf{{{}}}"}
    others = len(sheet.header) - 1
    wide = (rf"\multicolumn{{{sheet.width}}}{{c}}{{\textbf{{{_escape(name)}}}}}" for name in sheet.header[1:])
    lines = [" & ".join((rf"\textbf{{{sheet.header[0]}}}", *wide)) + r" \\"]
    if sheet.width == 2:
        lines.append(" & ".join(["", *[r"reward $\uparrow$ & cost $\downarrow$"] * others]) + r" \\")
    lines.append(r"\hline")
    for number, row in enumerate(sheet.body):
        if number in sheet.breaks:
            lines.append(r"\hline")
        parts = [commands[entry.mark].format(_escape(part)) for entry in row for part in entry.parts]
        lines.append(" & ".join(parts) + r" \\")
    inside = "\n".join(f"    {line}" for line in lines)
    kinds = "l" + "r" * sheet.width * others
    return f"% {sheet.title}\n\\begin{{tabular}}{{{kinds}}}\n{inside}\n\\end{{tabular}}\n"


def _escape(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "%&_#$" else letter for letter in text)


def long_form(table: Sequence[Row]) -> str:
    """Every figure as CSV: one line for each task (and average), threshold (and all) and policy."""
    intervals = "reward", "cost", "reward_iqm", "cost_iqm"
    header = ["suite", "task", "threshold", "policy", "mode", "seeds", "episodes"]
    header += [f"{name}{end}" for name in intervals for end in ("", "_low", "_high")]
    header += ["over_budget", "tail_cost", "safe", *(f"mark_{rule}" for rule in RULES)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in table:
        marked = [marks(row.cells, rule) for rule in RULES]
        for column, found in row.cells.items():
            if found:
                ends = [e for name in intervals for e in vars(getattr(found, name)).values()]
                numbers = [f"{number:.6g}" for number in (*ends, found.over_budget, found.tail_cost)]
                start = row.suite, row.name, "all" if row.threshold is None else row.threshold, *column
                last = int(found.safe), *(mark[column] for mark in marked)
                writer.writerow([*start, found.seeds, found.episodes, *numbers, *last])
    return text.getvalue()


def views(results: Results, wanted: Sequence[View], rule: Rule) -> list[Sheet]:
    """The sheets of these views, in this order."""
    whole = rows(results)
    make: dict[View, Callable[[], list[Sheet]]] = {
        "table": lambda: sheets(whole, rule),
        "policies": lambda: summaries(whole),
        "pairs": lambda: comparisons(results),
        "intervals": lambda: sheets(whole, rule, intervals=True),
        "thresholds": lambda: sheets(rows(results, by_threshold=True), rule),
    }
    return [sheet for view in wanted for sheet in make[view]()]


def write(results: Results, folder: Path, rule: Rule) -> list[Path]:
    """table.md, table.tex and table.csv in `folder`; what was left out stands in the first two as well."""
    notes = results.problems or ["nothing"]
    pages = [markdown(sheet) for sheet in views(results, get_args(View), rule)]
    pages.append("### Missing or left out\n\n" + "\n".join(f"- {note}" for note in notes) + "\n")
    macro = r"% Needs xcolor and \newcommand{\textbbf}[1]{\textbf{\textcolor{blue}{#1}}}"
    told = "\n".join(f"% missing or left out: {note}" for note in notes)
    texts = {
        "table.md": "\n".join(pages),
        "table.tex": "\n".join([macro, told, "", *map(latex, views(results, ("table", "thresholds"), rule))]),
        "table.csv": long_form([*rows(results), *rows(results, by_threshold=True)]),
    }
    for name, text in texts.items():
        files.write_text(folder / name, text)
    return [folder / name for name in texts]
