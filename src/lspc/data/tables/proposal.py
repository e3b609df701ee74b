"""A first guess at a table's columns, for the user to look through: a TOML file with a comment on each of them."""

import json
import re
from collections.abc import Sequence

import numpy as np

from lspc.data.tables.columns import CONVENTIONS, SEVERAL, find_by_name
from lspc.data.tables.table import Column, Table, Unusable

HINTS: dict[str, tuple[str, ...]] = {
    "reward": ("reward", "rewards", "yield", "profit", "score"),
    "cost": ("cost", "costs", "violation", "violations", "unsafe", "alarm"),
    "episode": ("episode", "batch", "run", "trip", "trajectory", "session"),
    "step": ("step", "time", "timestamp", "t"),
    "done": ("done", "terminated", "terminal", "terminals"),
    "timeout": ("timeout", "timeouts", "truncated"),
    "actions": ("action", "actions", "command", "cmd", "control", "setpoint", "valve", "throttle", "steering"),
}
"""Words in a name that make a column worth proposing; nothing is opened by them."""
NEEDED = {
    "observations": "what the policy will see, in this order",
    "actions": "what it decides",
    "reward": "what a step earned: one column",
    "cost": 'what a step cost, never negative: a column, or an expression such as "temp > 80"',
    "episode": "which rows belong together",
    "step": "their order: a counter or a time",
    "done": "the process ended the episode: there is no future",
    "timeout": "the clock ended it",
    "next_observations": "what was seen after the action; without them, the next row's observations",
}
ROWS_LOOKED_AT = 100_000
CLOCK = "counts rows or time: a policy that sees it learns the clock, not the plant"
RUNS = "numbers groups of rows: it is new in every log"


def propose_columns(table: Table) -> str:
    """The text of a TOML file that `columns` takes."""
    counters = _find_counters(table)
    roles = _guess(table, counters)
    lines = [
        f"# Columns of {table.source}, {table.rows:,} rows: a proposal. Move, add and delete names until it is true."
    ]
    for role, what in NEEDED.items():
        lines += ["", f"# {role}: {what}"]
        names = roles.get(role, [])
        if not names:
            lines.append(f"# {role} = {'[]' if role in SEVERAL else json.dumps('')}")
        elif role in SEVERAL:
            lines += [f"{role} = [", *(f"    {_comment(table, name, ',')}" for name in names), "]"]
        else:
            lines.append(f"{role} = {_comment(table, names[0])}")
    used = {name for names in roles.values() for name in names}
    aside = [
        f"#     {_comment(table, name)}" + (f"; {counters[name]}" if name in counters else "")
        for name in table.columns
        if name not in used
    ]
    return "\n".join([*lines, *(["", "# In no role:", *aside] if aside else []), ""])


def _comment(table: Table, name: str, after: str = "") -> str:
    return f"{json.dumps(name)}{after}  # {table.columns[name].describe()}"


def _guess(table: Table, counters: dict[str, str]) -> dict[str, list[str]]:
    """Names that are understood anyway, then hints; numbers that are left and count nothing are observations."""
    roles: dict[str, list[str]] = {}
    free = list(table.columns)

    def take(role: str, names: Sequence[str]) -> None:
        if names:
            roles[role] = list(names)
            free[:] = [name for name in free if name not in names]

    for role in CONVENTIONS:
        try:
            told = [own for name in table.roles.get(role, []) for own in table.groups.get(name, [name])]
            take(role, told or find_by_name(free, role))
        except Unusable:
            continue  # two candidates: the hints below take the first, and the user sees both
    for role, words in HINTS.items():
        if role not in roles:
            fitting = [name for name in free if _fits(table, name, role, words)]
            take(role, fitting if role in SEVERAL else fitting[:1])
    for role, what in (("episode", RUNS), ("step", CLOCK)):
        if role not in roles:
            episode = table.columns[roles["episode"][0]] if "episode" in roles else None
            take(role, [n for n in free if counters.get(n) == what and _grows(table.columns[n], episode)][:1])
    if "observations" not in roles:
        numbers = [n for n in free if table.columns[n].kind in ("number", "boolean") and n not in counters]
        take("observations", [name for name in numbers if not table.columns[name].missing.all()])
    return {role: roles[role] for role in NEEDED if role in roles}


def _fits(table: Table, name: str, role: str, words: Sequence[str]) -> bool:
    column = table.columns[name]
    kinds = {"episode": ("number", "text"), "step": ("number", "time")}.get(role, ("number", "boolean"))
    if column.kind not in kinds:
        return False
    return column.kind == "time" or bool({part.lower() for part in re.findall(r"[A-Za-z][a-z]*", name)} & set(words))


def _find_counters(table: Table) -> dict[str, str]:
    """Columns that say when a row was written rather than what was seen, each with a word on why."""
    found: dict[str, str] = {}
    for name, column in table.columns.items():
        if column.kind != "number" or column.missing.any():
            continue
        change = _changes(column)
        if _ticks(change):
            found[name] = CLOCK
        elif change.sum() > 1 and set(np.unique(change)) == {0.0, 1.0}:
            found[name] = RUNS
    return found


def _changes(column: Column) -> np.ndarray:
    """From row to row; times and texts have numbers, too."""
    return np.diff(column.values[:ROWS_LOOKED_AT].astype(np.float64))


def _ticks(change: np.ndarray) -> bool:
    """Whether nearly every row is one and the same amount above the row before; it may begin again now and then."""
    tick = np.median(change) if len(change) > 2 else 0.0
    return bool(tick > 0 and np.mean(np.isclose(change, tick, rtol=1e-3)) > 0.9)


def _grows(column: Column, episode: Column | None) -> bool:
    """Whether it never falls within an episode, as what orders the rows must not."""
    falls = _changes(column) < 0
    return not (falls if episode is None else falls & (_changes(episode) == 0)).any()
