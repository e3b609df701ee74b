"""A first guess at a table's columns, for the user to look through: a TOML file with a comment on each of them."""

import json
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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


def propose_columns(table: Table) -> str:
    """The text of a TOML file that `columns` takes."""
    roles = _guess(table)
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
    aside = [f"#     {_comment(table, name)}" for name in table.columns if name not in used]
    return "\n".join([*lines, *(["", "# In no role:", *aside] if aside else []), ""])


def _comment(table: Table, name: str, after: str = "") -> str:
    return f"{json.dumps(name)}{after}  # {table.columns[name].describe()}"


def _guess(table: Table) -> dict[str, list[str]]:
    """Names that are understood anyway, hints, a counter and what it counts; other numbers are observations."""
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
    if "step" not in roles:
        take("step", [name for name in free if len(_restarts(table.columns[name]))][:1])
    if "episode" not in roles and "step" in roles:
        restarts = _restarts(table.columns[roles["step"][0]])
        take("episode", [name for name in free if _changes_only_at(table.columns[name], restarts)][:1])
    if "observations" not in roles:
        numbers = [name for name in free if table.columns[name].kind in ("number", "boolean")]
        take("observations", [name for name in numbers if not table.columns[name].missing.all()])
    return {role: roles[role] for role in NEEDED if role in roles}


def _fits(table: Table, name: str, role: str, words: Sequence[str]) -> bool:
    column = table.columns[name]
    kinds = {"episode": ("number", "text"), "step": ("number", "time")}.get(role, ("number", "boolean"))
    if column.kind not in kinds:
        return False
    return column.kind == "time" or bool({part.lower() for part in re.findall(r"[A-Za-z][a-z]*", name)} & set(words))


def _restarts(column: Column) -> NDArray[np.int64]:
    """The rows at which a counter begins again; none if the column is no counter that does."""
    values = column.values
    if column.kind != "number" or column.missing.any() or len(values) == 0:
        return np.array([], np.int64)
    rows = np.flatnonzero(np.diff(values) != 1) + 1
    counts = (values[rows] == values[0]) & (values[rows - 1] > values[0])  # a constant begins again in every row
    return rows if counts.all() else rows[:0]


def _changes_only_at(column: Column, rows: NDArray[np.int64]) -> bool:
    """Whether a column has another value from each of these rows on, and there alone."""
    if column.kind not in ("number", "text") or column.missing.any() or not len(rows):
        return False
    changes = np.flatnonzero(column.values[1:] != column.values[:-1]) + 1
    return np.array_equal(changes, rows) and len(np.unique(column.values)) == len(rows) + 1
