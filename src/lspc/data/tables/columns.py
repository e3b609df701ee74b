"""Which column of a table plays which part: what the user says, and the names that are taken without a word.

Nothing is guessed: where a name could be meant in two ways, or none fits, the error says what to add.
"""

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lspc.data.opening import Columns
from lspc.data.tables.expression import Expression, parse_expression
from lspc.data.tables.table import Table, Unusable
from lspc.errors import UserError

Patterns = dict[str, list[str]]

CONVENTIONS: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "observation", "obs"),
    "actions": ("actions", "action"),
    "next_observations": ("next_observations", "next_observation", "next_obs"),
    "reward": ("reward", "rewards"),
    "cost": ("cost", "costs"),
    "episode": ("episode", "episode_id"),
    "step": ("step",),
    "done": ("done", "terminated", "terminals"),
    "timeout": ("timeout", "truncated", "timeouts"),
}
"""Role -> the names that are taken without a word. The first three roles also take NAME_*."""
SEVERAL = ("observations", "actions", "next_observations")
EASILY_CONFUSED = ("reward", "cost")
"""Roles for which a column that merely has the word in its name, such as `safety_cost`, makes the choice open."""


@dataclass(frozen=True)
class Chosen:
    """The columns of each role, by name; a cost may be an expression of columns instead."""

    names: dict[str, list[str]]
    cost: Expression | None = None

    def one(self, role: str) -> str | None:
        return next(iter(self.names.get(role, [])), None)

    def describe(self) -> dict[str, Any]:
        """What, given as columns, chooses the same again."""
        told: dict[str, Any] = {role: names if role in SEVERAL else names[0] for role, names in self.names.items()}
        return told | ({"cost": self.cost.text} if self.cost else {})


def parse_columns(given: Columns, cost: str | None = None) -> Patterns:
    """Role -> patterns, from whatever form the user gave; `cost` is a column or an expression."""
    patterns: Patterns = {}
    if isinstance(given, Mapping):
        _update(patterns, given, "columns")
    elif given is not None:
        for text in [given] if isinstance(given, str | Path) else given:
            role, equals, column = str(text).partition("=")
            if equals and role in CONVENTIONS:
                patterns[role] = _split(column) if role in SEVERAL else [column]
            elif isinstance(text, str) and equals and not Path(text).is_file():
                raise UserError(f"--columns {text}: {_no_role(role)}")
            else:
                _update(patterns, _read_toml(Path(text)), f"{text}")
    if cost is not None:
        if patterns.get("cost", [cost]) != [cost]:
            raise UserError(f"the cost is {cost!r} and columns say {patterns['cost'][0]!r}; give only one of them")
        patterns["cost"] = [cost]
    return patterns


def _update(patterns: Patterns, given: Mapping[str, Any], place: str) -> None:
    for role, value in given.items():
        if role not in CONVENTIONS:
            raise UserError(f"{place}: {_no_role(role)}")
        several = isinstance(value, Sequence) and not isinstance(value, str)
        columns = list(value) if several else [value]
        if not all(isinstance(column, str) and column for column in columns) or not columns:
            raise UserError(f"{place}: {role} must be the name of a column or a list of names, found {value!r}")
        patterns[role] = _split(value) if role in SEVERAL and not several else columns


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"--columns {path}: there is no such file, and it is not of the form ROLE=COLUMN") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f'{path}: not TOML ({error}); it needs lines such as reward = "yield"') from error


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _no_role(role: str) -> str:
    return f"{role!r} is not a role; the roles are {', '.join(CONVENTIONS)}"


def choose_columns(table: Table, patterns: Patterns) -> Chosen:
    """The column of every role: the user's, else those whose names say it."""
    names: dict[str, list[str]] = {}
    expression, patterns = None, {**table.roles, **patterns}
    for role, wanted in patterns.items():
        if role == "cost" and wanted[0] not in table.columns:
            expression = parse_expression(wanted[0])
            for column in expression.columns:
                _require(table, "cost", column)
        else:
            names[role] = _match(table, role, wanted)
    taken = {name for columns in names.values() for name in columns}
    free = [name for name in table.columns if name not in taken]
    for role in CONVENTIONS:
        following = _find_next(table, names) if role == "next_observations" else []
        if role not in patterns and (found := following or find_by_name(free, role)):
            names[role] = found
    _check_complete(table, names, expression)
    return Chosen(names, expression)


def _match(table: Table, role: str, wanted: Sequence[str]) -> list[str]:
    """The columns that patterns name, in the order of patterns and, within one, of the table; `!` leaves some out."""
    matched: dict[str, None] = {}
    for pattern in wanted:
        if pattern.startswith("!") and pattern not in table.columns:
            for name in _match(table, role, [pattern[1:]]):
                matched.pop(name, None)
        elif pattern in table.columns:
            matched[pattern] = None
        elif pattern in table.groups:
            matched |= dict.fromkeys(table.groups[pattern])
        elif fitting := [name for name in table.columns if fnmatchcase(name, pattern)]:
            matched |= dict.fromkeys(fitting)
        else:
            _require(table, role, pattern)
    if not matched:
        raise Unusable(role, f"{role}: {','.join(wanted)} leaves no column")
    if role not in SEVERAL and len(matched) > 1:
        raise Unusable(role, f"{role} takes one column, found {', '.join(matched)}")
    return list(matched)


def _require(table: Table, role: str, name: str) -> None:
    if name not in table.columns:
        raise Unusable(role, f"{role}: there is no column {name!r}; there are {_listed(table.columns)}")


def find_by_name(free: Sequence[str], role: str) -> list[str]:
    """The columns whose names say that they play `role`; two that might are never chosen between."""
    if role in SEVERAL:
        families = {stem: _family(free, stem) for stem in CONVENTIONS[role]}
        families = {stem: names for stem, names in families.items() if names}
        if len(families) > 1:
            raise Unusable(role, _two_candidates(role, [f"{stem}_*" for stem in families]))
        return next(iter(families.values()), [])
    candidates = [name for name in CONVENTIONS[role] if name in free]
    alike = [name for name in free if name not in candidates and _has_word(name, CONVENTIONS[role])]
    if role in EASILY_CONFUSED and candidates:
        candidates += alike
    if len(candidates) > 1:
        raise Unusable(role, _two_candidates(role, candidates))
    return candidates


def _family(names: Sequence[str], stem: str) -> list[str]:
    """The column NAME, or all of NAME_*; those that are numbered come in the order of their numbers."""
    members = [name for name in names if name.startswith(f"{stem}_")]
    if not members:
        return [stem] if stem in names else []
    if all(name.removeprefix(f"{stem}_").isdecimal() for name in members):
        members.sort(key=lambda name: int(name.removeprefix(f"{stem}_")))
    return members


def _has_word(name: str, words: Sequence[str]) -> bool:
    return bool({part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)} & set(words))


def _find_next(table: Table, names: dict[str, list[str]]) -> list[str]:
    """`next_temp` beside `temp`: for every observation, or it is no next observation."""
    following = [f"next_{name}" for name in names.get("observations", [])]
    return following if all(name in table.columns for name in following) else []


def _check_complete(table: Table, names: dict[str, list[str]], cost: Expression | None) -> None:
    """Every role that a dataset cannot do without has a column, and no two roles share one."""
    for role in ("observations", "actions", "reward", "cost"):
        if role in names or (role == "cost" and cost):
            continue
        alike = [name for name in table.columns if role in EASILY_CONFUSED and _has_word(name, CONVENTIONS[role])]
        hint = " or ".join(_say(role, name) for name in alike) or _say(role, "COLUMN")
        hint += ', or --cost "COLUMN > LIMIT"' if role == "cost" else ""
        raise Unusable(
            role,
            f"no column is called {role}; add {hint} (columns: {_listed(table.columns)}; "
            "`lspc inspect LOG --write-columns log.toml` proposes them all)",
        )
    if not {"episode", "done", "timeout"} & set(names):
        files = ", or --columns episode=file where each file is one" if table.parts else ""
        raise Unusable(
            "episode",
            f"nothing tells where an episode ends; add --columns episode=COLUMN, or done= or timeout={files}",
        )
    owner: dict[str, str] = {}
    for role, columns in names.items():
        for name in columns:
            if name in owner and {role, owner[name]} & set(SEVERAL[1:]):
                raise Unusable(role, f"{name} is among both {owner[name]} and {role}; leave it out of one: '!{name}'")
            owner[name] = role
    now, then = names["observations"], names.get("next_observations", names["observations"])
    if len(now) != len(then):
        raise Unusable("next_observations", f"there are {len(then)} next_observations for {len(now)} observations")


def _two_candidates(role: str, names: Sequence[str]) -> str:
    hint = " or ".join(_say(role, name) for name in names)
    return f"{role} could be {' or '.join(names)}; say which: {hint}"


def _say(role: str, name: str) -> str:
    return f"--columns {shlex.quote(f'{role}={name}')}"


def _listed(names: Iterable[str], most: int = 30) -> str:
    listed = list(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
