"""What the terminal shows: tables and lines on standard output, progress bars and warnings on standard error."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from lspc.data.bounds import Bounds
from lspc.errors import visible
from lspc.tasks.own import is_own

if TYPE_CHECKING:  # a table of tasks should not wait for JAX
    from lspc.calibration.certificate import Certificate
    from lspc.calibration.check import Verification
    from lspc.calibration.choosing import Calibration, Choice
    from lspc.calibration.comparing import Candidate, Comparison
    from lspc.doctor import Check
    from lspc.evaluation import Summary
    from lspc.runs.overview import Overview
    from lspc.runs.statistics import Interval
    from lspc.tasks import Task
    from lspc.training import Progress as TrainingProgress


BARS, ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#"


def output() -> Console:
    """Standard output as it is now: a console keeps the width and the colours of the moment it was made."""
    return Console()


def errors() -> Console:
    return Console(stderr=True)


def plain(text: object) -> str:
    """A user's text for a table: neither rich's markup nor a terminal's escapes in it do anything."""
    return escape(visible(text))


def say(line: str) -> None:
    """One line on standard output, never cut or wrapped: others read it."""
    output().print(visible(line), highlight=False, markup=False, soft_wrap=True)


_quiet = ContextVar("quiet", default=False)


@contextmanager
def quiet(wanted: bool = True) -> Generator[None]:
    """Inside `with`, neither notes nor progress bars: results, warnings and errors alone."""
    before = _quiet.set(wanted)
    try:
        yield
    finally:
        _quiet.reset(before)


def note(line: str) -> None:
    """One line on standard error, not wrapped either: it may be a command to copy."""
    if not _quiet.get():
        errors().print(visible(line), highlight=False, markup=False, soft_wrap=True)


def warn(line: str) -> None:
    errors().print(visible(line), style="yellow", highlight=False, markup=False, soft_wrap=True)


class Bars:
    """Progress bars on standard error, so that piped output stays clean.

    They appear with the first one, so that what is refused at once is refused in one line.
    """

    def __init__(self, counted: bool) -> None:
        columns = [
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, min_width=10)),
            BarColumn(bar_width=16),
            MofNCompleteColumn() if counted else TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn(
                "{task.fields[note]}",
                style="dim",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
        ]
        self._display = Progress(*columns, console=errors(), expand=True, disable=_quiet.get())
        self._bars: dict[str, TaskID] = {}

    def show(self, bar: str, done: float | None = None, total: float | None = None, note: str | None = None) -> None:
        """How far the work of this name is; what is left out stays as it was."""
        if bar not in self._bars:
            self._display.start()
            self._bars[bar] = self._display.add_task(visible(bar), total=None, note="")
        told: dict[str, Any] = {} if note is None else {"note": visible(note)}
        self._display.update(self._bars[bar], completed=done, total=total, **told)

    def restart(self, bar: str, total: int, note: str) -> None:
        """The next part of the work: its time is counted anew."""
        self.show(bar)
        self._display.reset(self._bars[bar], total=total, note=visible(note))

    def advance(self, bar: str) -> None:
        self.show(bar)
        self._display.advance(self._bars[bar])

    def warn(self, line: str) -> None:
        """A line above the bars."""
        self._display.console.print(visible(line), style="yellow", highlight=False, markup=False)

    def close(self) -> None:
        if self._bars:
            self._display.stop()


@contextmanager
def progress(*, counted: bool = False) -> Generator[Bars]:
    bars = Bars(counted)
    try:
        yield bars
    finally:
        bars.close()


def show_training(bars: Bars, total: int, bar: str = "training") -> "Callable[[TrainingProgress], None]":
    """A listener for `lspc.train` that moves a bar."""
    bars.show(bar, 0, total, "compiling")

    def show(now: "TrainingProgress") -> None:
        losses: dict[str, float] = {}  # one of each part, which is what a line has room for
        for name, value in now.metrics.items():
            if name.endswith("loss"):
                losses.setdefault(name.split("/")[0], value)
        told = " ".join(f"{part} {value:.2g}" for part, value in losses.items())
        for alarm in now.alarms:
            bars.warn(alarm)
        bars.show(bar, now.step, now.total, f"{now.updates_per_second:.0f}/s, loss: {told}")

    return show


def show_evaluation(bars: Bars, bar: str = "evaluating") -> dict[str, Any]:
    """Listeners for `lspc.evaluate` that count episodes."""
    return {
        "on_start": lambda what, count: bars.restart(bar, count, what),
        "on_episode": lambda: bars.advance(bar),
        "on_trouble": bars.warn,
    }


def evaluation_table(rows: "Sequence[Summary]", name: str) -> Table:
    """Two lines per policy, so that it fits in 80 columns: what was measured, then its interval."""
    what = "reward as it is, cost normalised" if is_own(name) else "reward and cost, normalised"
    table = Table(title=f"{name}: {what} (cost 1 is the whole budget)", box=box.SIMPLE_HEAD, padding=0)
    thresholds = [f"{k:g}" for k in rows[0].cost]
    budgets = "/".join(thresholds)
    costs = [f"cost\n@{k}" for k in thresholds]
    table.add_column("policy\nactions")
    for name in ("reward", *costs, "mean cost", "raw\ncost", f"% over\n{budgets}", "% of\nbest"):
        table.add_column(name, justify="right")
    for row in rows:
        reached = next(iter(row.reached.values()))
        table.add_row(
            f"{plain(row.policy)}\n[dim]{plain(row.mode)}",
            _interval(row.reward),
            *(f"{interval.mean:.2f}" for interval in row.cost.values()),
            _interval(row.average_cost),
            f"{row.raw_cost.mean:.1f}",
            "/".join(f"{100 * share:.0f}" for share in row.over_budget.values()),
            "-" if reached is None else f"{100 * reached:.0f}",
            style="bold" if row.average_cost.mean < 1 else None,
        )
    table.caption = (
        "Bold: safe, mean cost below 1. In brackets: 95 % interval over seeds and episodes, unless all are alike. "
        "% over: episodes over each budget. % of best: share of the reward of the data's best episode within "
        f"{thresholds[0]}."
    )
    return table


def _interval(interval: "Interval") -> str:
    if math.isclose(interval.low, interval.high, abs_tol=1e-9):  # one episode, or all alike: no spread to speak of
        return f"{interval.mean:.2f}"
    return f"{interval.mean:.2f}\n[dim]\\[{interval.low:.2f},{interval.high:.2f}]"


def calibration_table(
    found: "Calibration", choices: "Sequence[Choice]", verified: "Verification | None" = None
) -> Group:
    """One row for each budget, and below them why none was chosen, or that a pilot certified it."""
    table = Table(title="eps for a cost budget: estimates from logs", box=box.SIMPLE_HEAD, padding=(0, 1))
    names = ["budget", "eps", "predicted cost", "predicted reward"]
    for name in [*names, "true cost", "best eps", "reward lost"] if verified else names:
        table.add_column(name, justify="right")
    for number, choice in enumerate(choices):
        row = [
            f"{choice.budget:g}",
            "none" if choice.restriction is None else f"{choice.restriction:.2f}",
            _at_most(choice.cost) + _tail(choice) if choice.cost else "-",
            _estimate(choice.reward) if choice.reward else "-",
        ]
        if verified:
            verdict = verified.verdicts[number]
            row += [
                "-" if verdict.cost is None else f"{'' if verdict.kept else '[red]'}{verdict.cost:.1f}",
                "-" if verdict.best_restriction is None else f"{verdict.best_restriction:.2f}",
                "-" if verdict.reward_lost is None else f"{verdict.reward_lost:.0%}",
            ]
        table.add_row(*row)
    off = max(abs(replay.cost - replay.predicted_cost) for replay in found.replays)
    caption = (
        f"The most that it costs, and in brackets where the reward lies, are meant to hold {found.confidence:.0%} "
        "of the time: estimates, not guarantees (`lspc pilot` gives one). "
        "Recorded episodes were replayed in models that had not seen them: for "
        f"{len(found.replays)} groups that cost {min(r.cost for r in found.replays):.1f} to "
        f"{max(r.cost for r in found.replays):.1f} per episode, predictions were off by at most {off:.1f}."
    )
    if risk := next((choice.risk for choice in choices if choice.risk is not None), None):
        caption += f" {1 - risk:.0%}: the most that all but {risk:.0%} of episodes cost, an estimate too."
    if verified:
        caption += (
            f" In the simulator ({verified.episodes} episodes each) {verified.cost_coverage:.0%} of the "
            f"{len(verified.truths)} costs are within their bound and {verified.reward_coverage:.0%} of the rewards "
            "in their interval. "
            "Best eps, reward lost: against choosing with the simulator."
        )
    table.caption = caption
    told = [choice for choice in choices if choice.restriction is None or choice.certified]
    return Group(
        table,
        *(
            Text(f"Budget {each.budget:g}: {visible(each.why)}.", "green" if each.certified else "yellow")
            for each in told
        ),
    )


def _estimate(estimate: "Interval") -> str:
    return f"{estimate.mean:.4g}\n[dim]\\[{estimate.low:.4g}, {estimate.high:.4g}]"


def _tail(choice: "Choice") -> str:
    """What single episodes cost, where a risk was asked for."""
    if choice.risk is None or choice.tail is None:
        return ""
    return f"\n[dim]{1 - choice.risk:.0%}: ≤ {choice.tail:.4g}"


def _at_most(estimate: "Interval") -> str:
    return f"{estimate.mean:.4g}\n[dim]at most {estimate.high:.4g}"


def comparison_table(found: "Comparison") -> Table:
    """One row for each policy; of LSPC-O the chosen eps, or the largest that fits, or the smallest."""
    table = Table(title=f"budget {found.budget:g}: estimates from logs", box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("run", "policy", "eps", "cost", "reward", "fits"):
        table.add_column(name, justify="left" if name in ("run", "policy") else "right")
    by_policy: dict[tuple[str, str], list[Candidate]] = {}
    for each in found.candidates:
        by_policy.setdefault((each.run, each.policy), []).append(each)
    for (run, policy), own in by_policy.items():
        fitting = [each for each in own if each.fits]
        shown = found.chosen if found.chosen in own else (fitting or own[:1])[-1]
        assert shown is not None
        mark = "[bold]" if shown is found.chosen else ""
        table.add_row(
            f"{mark}{plain(run)}", f"{mark}{plain(policy)}",
            "-" if shown.restriction is None else f"{shown.restriction:.2f}",
            _at_most(shown.cost), _estimate(shown.reward), "yes" if shown.fits else "no",
        )  # fmt: skip
    return table


def certificate_table(found: "Certificate") -> Table:
    """One row for each eps that was tried."""
    claim = found.claim
    title = f"mean cost of an episode, from real episodes; budget {claim.budget:g}"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("eps", "episodes", "measured cost", "at most", "measured reward"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for stage in found.stages:
        verdict = "[green]passed" if stage.passed else "[red]too costly" if stage.too_costly else "[yellow]not proved"
        more = "" if stage.more is None or stage.too_costly else f"\n[dim]about {stage.more} more"
        table.add_row(
            f"{stage.restriction:.2f}", f"{len(stage.costs)}", f"{stage.mean_cost:.3g}", f"{stage.upper_bound:.3g}",
            f"{stage.mean_reward:.4g}", verdict + more,
        )  # fmt: skip
    table.caption = (
        f"At most: the mean is below this with {claim.confidence:.0%} confidence, whatever the costs' distribution, "
        f"if no episode can cost more than {claim.bound:g} ({claim.bound_from})."
    )
    return table


def profile_table(profile: dict[str, Any], name: str) -> Table:
    table = Table(title=plain(name), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key in ("episodes", "transitions", "observation_dim", "action_dim"):
        table.add_row(key.replace("_", " "), f"{profile[key]:,}")
    table.add_row("action bounds", str(Bounds(**profile["action_bounds"])))
    for key in ("returns", "costs"):
        of = {name: f"{value:.4g}" for name, value in profile[key].items()}
        whole = f"{of['min']} to {of['max']}, mean {of['mean']}, median {of['median']}"
        table.add_row(key, f"{whole}\nhalf of the episodes: {of['q25']} to {of['q75']}")
    for threshold, share in profile["within_threshold"].items():
        best = profile["best_return_within_threshold"][threshold]
        told = "" if best is None else f", the best of them returns {best:.4g}"
        table.add_row(f"cost within {threshold}", f"{100 * share:.1f} % of episodes{told}")
    table.add_row("repeated", f"{profile['duplicates']:,} rows, {profile['duplicate_episodes']:,} whole episodes")
    table.add_row("problems", "\n".join(map(plain, profile["problems"])) or "none")
    table.add_row("fingerprint", profile["fingerprint"])
    return table


def columns_table(profile: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    for name in ("column", "role", "min", "max", "mean", "min to max"):
        table.add_column(
            name, no_wrap=name != "column", justify="right" if name in ("min", "max", "mean") else "left"
        )
    for column in profile["columns"]:
        numbers = [f"{column[key]:.4g}" for key in ("min", "max", "mean")]
        drawn = "constant" if column["min"] == column["max"] else draw_histogram(column["histogram"])
        table.add_row(plain(column["name"]), column["role"], *numbers, drawn)
    return table


def draw_histogram(counts: Sequence[int]) -> str:
    """A letter for each bin, the taller the fuller; one that is not empty shows."""
    letters = ASCII_BARS if output().options.ascii_only else BARS
    most = max(counts)
    return "".join(letters[math.ceil(count / most * (len(letters) - 1))] for count in counts)


def methods_table(methods: Mapping[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    table.add_column("method", no_wrap=True, style="bold")
    table.add_column("what it is")
    for name, line in methods.items():
        table.add_row(name, line)
    return table


def tasks_table(tasks: "Sequence[Task]", installed: dict[str, bool]) -> Table:
    table = Table(title=f"{len(tasks)} tasks", box=box.SIMPLE_HEAD, padding=0)
    for name in ("task", "suite", "steps", "obs", "act", "return range", "budgets", "ready"):
        table.add_column(name, no_wrap=True)
    table.caption = "obs, act: size of observation and action. ready: whether the simulator is installed."
    for task in tasks:
        table.add_row(
            task.name,
            task.suite,
            str(task.episode_length),
            str(task.observation_dim),
            str(task.action_dim),
            f"{task.reward_min:.0f} to {task.reward_max:.0f}",
            "/".join(map(str, task.thresholds)),
            "yes" if installed[task.name] else "-",
        )
    return table


def runs_table(runs: "Sequence[Overview]") -> Table:
    """A line for each run, and below it the settings in which they differ."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), caption_justify="left")
    table.add_column("run", overflow="fold", ratio=1)
    for name in ("method", "seeds", "updates", "state", "cost", "reward"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("updates", "cost", "reward") else "left")
    for run in runs:
        state = "unfinished" if not run.finished else "calibrated" if run.calibrated else "trained"
        state = f"proved {'/'.join(run.certified)}" if run.finished and run.certified else state
        differs = ", ".join(f"{name} {value}" for name, value in run.differs.items())
        words = f"{plain(run.path)}\n[dim]{plain(run.task or run.data)}{plain(': ' + differs if differs else '')}"
        seeds = " ".join(map(str, run.seeds)) if len(run.seeds) < 4 else f"{len(run.seeds)} seeds"
        numbers = ["-" if number is None else f"{number:.4g}" for number in (run.cost, run.reward)]
        table.add_row(words, run.method, seeds, f"{run.updates}/{run.steps}", state, *numbers)
    table.caption = "cost, reward: mean of a whole episode as measured, deterministic actions, the run's own eps."
    return table


def doctor_table(checks: "Sequence[Check]") -> Table:
    """What there is, a line each; below what is missing, the command that installs it, whole, to be copied."""
    table = Table(title="lspc doctor", box=box.SIMPLE_HEAD, padding=(0, 1), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        mark = "[green]ok" if check.ok else "[yellow]-" if check.optional else "[red]missing"
        fix = "" if check.ok else f"\n[bold]{plain(check.fix)}"
        table.add_row(mark, plain(check.name), plain(check.detail) + fix)
    return table
