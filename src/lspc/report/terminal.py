"""Tables and progress bars for the terminal."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from lspc.doctor import Check
from lspc.evaluation import Interval, Summary
from lspc.tasks import Task

console = Console()
errors = Console(stderr=True)


@contextmanager
def progress(*, counted: bool = False) -> Iterator[Progress]:
    """A progress display on standard error, so that piped output stays clean."""
    columns = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn() if counted else TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[note]}"),
    ]
    with Progress(*columns, console=errors) as display:
        yield display


def evaluation_table(rows: Sequence[Summary], task: Task) -> Table:
    table = Table(title=f"{task.name}: normalised reward, and cost in units of the budget (safe: below 1)")
    for name in ("policy", "actions", "reward", *(f"cost@{k}" for k in task.thresholds), "mean cost", "raw cost"):
        table.add_column(name, justify="left" if name in ("policy", "actions") else "right")
    table.add_column("over budget " + "/".join(map(str, task.thresholds)), justify="right")
    table.add_column(f"of best@{task.thresholds[0]}", justify="right")
    for row in rows:
        safe = row.average_cost.mean < 1
        shares = "/".join(f"{100 * share:.0f}" for share in row.over_budget.values())
        reached = row.reached[task.thresholds[0]]
        table.add_row(
            row.policy,
            row.mode,
            _interval(row.reward, 2),
            *(f"{interval.mean:.2f}" for interval in row.cost.values()),
            _interval(row.average_cost, 2),
            f"{row.raw_cost.mean:.1f}",
            f"{shares} %",
            "-" if reached is None else f"{100 * reached:.0f} %",
            style="bold" if safe else None,
        )
    table.caption = (
        "Bold: safe on average. In brackets: 95 % interval over seeds and episodes. "
        f"Last column: reward as a share of the data's best episode within a budget of {task.thresholds[0]}."
    )
    return table


def _interval(interval: Interval, digits: int) -> str:
    return f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def profile_table(profile: dict[str, Any], name: str) -> Table:
    table = Table(title=name, show_header=False)
    table.add_column()
    table.add_column()
    for key in ("episodes", "transitions", "observation_dim", "action_dim"):
        table.add_row(key.replace("_", " "), f"{profile[key]:,}")
    for key in ("returns", "costs"):
        table.add_row(key, "   ".join(f"{k} {v:.4g}" for k, v in profile[key].items()))
    for threshold, share in profile["within_threshold"].items():
        best = profile["best_return_within_threshold"][threshold]
        told = "" if best is None else f", the best of them returns {best:.4g}"
        table.add_row(f"cost within {threshold}", f"{100 * share:.1f} % of episodes{told}")
    table.add_row("problems", "\n".join(map(str, profile["problems"])) or "none")
    table.add_row("fingerprint", profile["fingerprint"])
    return table


def tasks_table(tasks: Sequence[Task], installed: dict[str, bool]) -> Table:
    table = Table(title=f"{len(tasks)} tasks")
    for name in ("task", "suite", "steps", "observation", "action", "return range", "budgets", "simulator"):
        table.add_column(name)
    for task in tasks:
        table.add_row(
            task.name,
            task.suite,
            str(task.episode_length),
            str(task.observation_dim),
            str(task.action_dim),
            f"{task.reward_min:.4g} to {task.reward_max:.4g}",
            ", ".join(map(str, task.thresholds)),
            "installed" if installed[task.name] else "-",
        )
    return table


def doctor_table(checks: Sequence[Check]) -> Table:
    table = Table(title="lspc doctor")
    for name in ("", "what", "found", "to mend it"):
        table.add_column(name)
    for check in checks:
        mark = "[green]ok" if check.ok else "[yellow]-" if check.optional else "[red]missing"
        table.add_row(mark, check.name, check.detail, "" if check.ok else check.fix)
    return table
