"""From a table and its columns to a dataset: rows in order, cut into episodes, checked like every other file.

Actions stay as they are: a plant's own units are no fault, so nothing is clipped here.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data import mapped
from lspc.data.dataset import Dataset, Metadata
from lspc.data.opening import AS_NAMED, Opening
from lspc.data.tables.columns import SEVERAL, Chosen, Patterns, choose_columns, parse_columns
from lspc.data.tables.ordering import RowOrder, order_rows
from lspc.data.tables.reading import make_table, name_source
from lspc.data.tables.table import Table, Unusable
from lspc.data.validate import Findings, check_arrays

MISSING_HELP = "fill them in, or add --drop-missing (drop_missing=True): the rows go and their episodes are cut there"


def open_table(
    value: Any, opening: Opening = AS_NAMED, *, source: str | None = None, metadata: Metadata | None = None
) -> Dataset:
    """The dataset in a table that is in memory, or a UserError that says all that is wrong with it."""
    patterns = parse_columns(opening.columns, opening.cost)
    found = Findings(source or name_source(value))
    dataset = None
    try:
        table = make_table(value, found.source, patterns.get("observations", ()))
    except Unusable as error:
        found.fatal(error.field, str(error))
    else:
        dataset = check_table(table, patterns, found, opening, metadata=metadata)
    return found.require(dataset)


def check_table(
    table: Table, patterns: Patterns, found: Findings, opening: Opening, *, metadata: Metadata | None = None
) -> Dataset | None:
    """The dataset in a table, or every reason why there is none added to `found`."""
    try:
        if table.rows == 0:
            raise Unusable("table", "there are no rows; collect or export the data again")
        chosen = choose_columns(table, patterns)
        _check_kinds(table, chosen, found)
        if found.fatal_in():
            return None
        arrays, rows = _make_transitions(table, chosen, found, opening.drop_missing)
    except Unusable as error:
        found.fatal(error.field, str(error))
        return None
    _warn_of_columns(table, chosen, found)
    found.name_places(_name_fields(chosen), lambda row: table.place(int(rows[row])))
    return check_arrays(arrays, found, opening, metadata=metadata, columns=chosen.describe())


def _name_fields(chosen: Chosen) -> dict[str, list[str]]:
    """Field of a dataset -> the columns it came from."""
    cost = [chosen.cost.text] if chosen.cost else chosen.names["cost"]
    several = {role: names for role, names in chosen.names.items() if role in SEVERAL}
    return {**several, "rewards": chosen.names["reward"], "costs": cost}


def _check_kinds(table: Table, chosen: Chosen, found: Findings) -> None:
    """Texts can tell episodes apart and times can order steps; whatever is learned from must be numbers."""
    for role, names in chosen.names.items():
        for name in names:
            column = table.columns[name]
            if column.kind in ("number", "boolean") or (role == "episode" and column.kind != "other"):
                continue
            if column.kind == "time" and role != "step":
                found.fatal(role, f"{name} is a time ({column.type_name}): use it as step={name}, not in {role}")
            elif column.kind == "text" and (odd := column.find_odd_texts()):
                row = int(np.flatnonzero(np.isin(column.values, odd) & ~column.missing)[0])
                text = column.show(column.values[row])
                found.fatal(
                    role, f"{name} holds numbers, but {text!r} at {table.place(row)} ({len(odd)} such text(s)); "
                    "leave such cells empty: rows with missing values can be dropped (--drop-missing)",
                )  # fmt: skip
            elif column.kind == "text":
                leave = f"leave it out (--columns {role}='...,!{name}')" if role in SEVERAL else "name another column"
                found.fatal(role, f"{name} is {column.describe()}: {role} must be numbers; encode it or {leave}")
            elif column.kind == "other":
                found.fatal(role, f"{name} has type {column.type_name}, not numbers; store it as numbers")
    for name in chosen.cost.columns if chosen.cost else ():
        if table.columns[name].kind not in ("number", "boolean"):
            found.fatal("cost", f"{name} is {table.columns[name].describe()}: a cost needs numbers")


def _make_transitions(
    table: Table, chosen: Chosen, found: Findings, drop_missing: bool
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """The arrays of a dataset, and the row of the table that each of their rows was."""
    done, timeout = (_flags(table, chosen, role) for role in ("done", "timeout"))
    order = order_rows(table, chosen, done, timeout, found, cut_at_gaps=drop_missing)
    rows, done, timeout = order.rows, done[order.rows], timeout[order.rows]
    unseen = _missing(table, chosen.names["observations"])[rows]
    unknown = _missing(table, _other_columns(chosen))[rows]
    follows = np.append(~order.starts[1:], False)
    derived = "next_observations" not in chosen.names
    usable = follows | done if derived else np.ones(len(rows), bool)
    unknown &= usable  # the last row of an episode may be there for its observation alone
    lost = unseen | unknown
    if lost.any() and not drop_missing:
        _refuse_missing(table, chosen, rows[lost])
    if derived and drop_missing:
        usable &= done | ~np.append(unseen[1:], False) & ~order.gaps
    keep = usable & ~lost
    if not keep.any():
        raise Unusable("observations", "no transition is left: every episode has a single row or missing values")
    # A row ends its episode where the row after it is not the next one that was kept.
    goes_on = follows & np.append(keep[1:], False) & ~order.gaps
    costs = _costs(table, chosen)
    _tell_dropped(usable & lost, ~usable & ~unseen, done, order, costs[rows], chosen, found)
    kept, seen = rows[keep], chosen.names["observations"]
    following = np.where(follows & ~done, np.roll(rows, -1), rows)[keep] if derived else kept
    return {
        "observations": _matrix(table, seen, kept),
        "next_observations": _matrix(table, seen if derived else chosen.names["next_observations"], following),
        "actions": _matrix(table, chosen.names["actions"], kept),
        "rewards": table.columns[chosen.names["reward"][0]].values[kept], "costs": costs[kept],
        "terminated": done[keep], "truncated": (timeout | ~goes_on & ~done)[keep],
    }, kept  # fmt: skip


def _matrix(table: Table, names: list[str], rows: NDArray[np.int64]) -> NDArray[Any]:
    """These columns at these rows, side by side."""
    columns = [table.columns[name].values for name in names]
    matrix = mapped.empty((len(rows), len(names)), np.result_type(*columns), *columns)
    for part in mapped.blocks(matrix):
        for number, column in enumerate(columns):
            matrix[part, number] = column[rows[part]]
        mapped.release(*columns)
    return matrix


def _missing(table: Table, names: list[str]) -> NDArray[np.bool_]:
    masks = [table.columns[name].missing for name in names]
    return np.logical_or.reduce(masks) if masks else np.zeros(table.rows, bool)


def _other_columns(chosen: Chosen) -> list[str]:
    """All that a transition needs but its observation."""
    roles = ("actions", "reward", "cost", "next_observations", "done", "timeout")
    return [name for role in roles for name in chosen.names.get(role, [])] + list(
        chosen.cost.columns if chosen.cost else ()
    )


def _flags(table: Table, chosen: Chosen, role: str) -> NDArray[np.bool_]:
    """A flag of every row; one that is missing is refused or dropped later."""
    name = chosen.one(role)
    if name is None:
        return np.zeros(table.rows, bool)
    column = table.columns[name]
    wrong = np.flatnonzero(~column.missing & (column.values != 0) & (column.values != 1))
    if len(wrong):
        value = column.show(column.values[wrong[0]])
        raise Unusable(role, f"{name} is {value} at {table.place(int(wrong[0]))}; {role} must be 0 or 1")
    return (column.values == 1) & ~column.missing


def _costs(table: Table, chosen: Chosen) -> NDArray[Any]:
    if chosen.cost is None:
        return table.columns[chosen.names["cost"][0]].values
    return chosen.cost.evaluate({name: table.columns[name].values for name in chosen.cost.columns}, table.rows)


def _refuse_missing(table: Table, chosen: Chosen, lost: NDArray[np.int64]) -> None:
    names = dict.fromkeys([*chosen.names["observations"], *_other_columns(chosen)])
    told = []
    for name in names:
        rows = lost[table.columns[name].missing[lost]]
        if len(rows):
            told.append(f"{name} in {len(rows)} row(s), first {table.place(int(rows.min()))}")
    raise Unusable("missing", f"values are missing: {'; '.join(told)}; {MISSING_HELP}")


def _tell_dropped(
    lost: NDArray[np.bool_], last: NDArray[np.bool_], done: NDArray[np.bool_], order: RowOrder, costs: NDArray[Any],
    chosen: Chosen, found: Findings,
) -> None:  # fmt: skip
    """Say which rows are not in the dataset, and what that hides."""
    if lost.any():
        found.warn("missing", f"{int(lost.sum())} row(s) with missing values left out; their episodes were cut there")
    if "next_observations" in chosen.names:
        return
    if last.any():
        with np.errstate(all="ignore"):  # infinite costs are refused later
            hidden = costs[last].sum()
        cost = f" (with a cost of {hidden:g} in all)" if np.isfinite(hidden) and hidden > 0 else ""
        found.warn(
            "next_observations",
            f"next observations were taken from the row that follows; the last row of each episode has none, so "
            f"{int(last.sum())} row(s) were dropped{cost}",
        )
    if done.any():
        found.warn(
            "next_observations",
            f"{int(done.sum())} row(s) end in {chosen.one('done')}: what was seen after them is not in the log, so "
            "their own observation stands for it",
        )


def _warn_of_columns(table: Table, chosen: Chosen, found: Findings) -> None:
    used = {name for names in chosen.names.values() for name in names} | set(
        chosen.cost.columns if chosen.cost else ()
    )
    aside = [name for name in table.columns if name not in used and not (name == "file" and table.parts)]
    if aside:
        found.warn("columns", f"{', '.join(aside)}: not assigned a role; ignored")
    for role in ("observations", "actions"):
        constant = [name for name in chosen.names[role] if table.columns[name].is_constant()]
        if constant:
            found.warn(role, f"{role}: {', '.join(constant)} never changes; kept")
