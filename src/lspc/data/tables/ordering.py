"""The rows of a table in the order they happened: by episode and step, and where the step counter shows a gap."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.tables.columns import Chosen
from lspc.data.tables.table import Table, Unusable
from lspc.data.validate import Findings

GAP = 1.5
"""A step that is longer than this many usual ones has left rows out."""


@dataclass(frozen=True, eq=False)
class RowOrder:
    """Which row of the table comes when."""

    rows: NDArray[np.int64]
    starts: NDArray[np.bool_]
    """Where an episode begins, in the order of `rows`."""
    gaps: NDArray[np.bool_]
    """After which of `rows` an episode is cut, because the step counter jumps there."""


def order_rows(
    table: Table,
    chosen: Chosen,
    done: NDArray[np.bool_],
    timeout: NDArray[np.bool_],
    found: Findings,
    *,
    cut_at_gaps: bool,
) -> RowOrder:
    for role in ("episode", "step"):
        name = chosen.one(role)
        if name and (lost := np.flatnonzero(table.columns[name].missing)).size:
            raise Unusable(
                role, f"{name} is missing in {len(lost)} row(s), first {table.place(int(lost[0]))}; "
                f"a row without its {role} has no place: fill it in or delete the row",
            )  # fmt: skip
    if chosen.one("episode"):
        rows, starts = _sort_by_episode(table, chosen, found)
        _check_ends(table, chosen, rows, starts, done, timeout)
    else:
        rows, starts = _cut_at_flags(table, done | timeout, found)
    gaps = _find_gaps(table, chosen, rows, starts, found, cut_at_gaps)
    return RowOrder(rows, starts, gaps & cut_at_gaps)


def _sort_by_episode(table: Table, chosen: Chosen, found: Findings) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Episodes in the order of their names; where there is no step, each must stand in one piece."""
    name, step = chosen.names["episode"][0], chosen.one("step")
    episode = _number(table.columns[name].values)
    if step and _is_sorted(episode, table.columns[step].values):
        rows = np.arange(table.rows)
    elif step:
        rows = np.lexsort((table.columns[step].values, episode))
    else:
        begins = np.flatnonzero(np.append(True, episode[1:] != episode[:-1]))
        pieces = np.bincount(episode[begins])
        if (pieces > 1).any():
            second = int(begins[episode[begins] == int(np.argmax(pieces > 1))][1])
            label = table.columns[name].show(table.columns[name].values[second])
            raise Unusable(
                "episode", f"episode {label} begins again at {table.place(second)}; add --columns step=COLUMN to "
                f"sort the rows, or make {name} different for different episodes",
            )  # fmt: skip
        rows = np.argsort(episode, kind="stable")
    if (np.diff(rows) != 1).any():
        found.warn("episode", f"rows were sorted by {name}" + (f" and {step}" if step else ""))
    ordered = episode[rows]
    return rows, np.append(True, ordered[1:] != ordered[:-1])


def _number(values: NDArray[Any]) -> NDArray[np.int64]:
    """Equal values as equal numbers, in order; most logs are sorted, and then it takes little memory."""
    if bool((values[1:] >= values[:-1]).all()):
        return np.cumsum(np.append(False, values[1:] != values[:-1]))
    return np.unique(values, return_inverse=True)[1]


def _is_sorted(episode: NDArray[np.int64], step: NDArray[Any]) -> bool:
    same = episode[1:] == episode[:-1]
    return bool((episode[1:] >= episode[:-1]).all() and (~same | (step[1:] >= step[:-1])).all())


def _check_ends(
    table: Table, chosen: Chosen, rows: NDArray[np.int64], starts: NDArray[np.bool_], done: NDArray[np.bool_],
    timeout: NDArray[np.bool_],
) -> None:  # fmt: skip
    """A flag that ends an episode stands in its last row."""
    inside = np.append(~starts[1:], False)
    for role, flags in (("done", done), ("timeout", timeout)):
        early = rows[inside & flags[rows]]
        if len(early):
            raise Unusable(
                role, f"{chosen.one(role)} is set at {table.place(int(early.min()))}, where {chosen.one('episode')} "
                f"goes on ({len(early)} such row(s) in all); name another episode column, or leave {role} out",
            )  # fmt: skip


def _cut_at_flags(
    table: Table, ends: NDArray[np.bool_], found: Findings
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows as they stand, an episode up to each end; what comes after the last end is unfinished."""
    last = np.flatnonzero(ends)
    if len(last) == 0:
        raise Unusable("timeout", "no episode ends: done and timeout are never set; add --columns episode=COLUMN")
    rows = np.arange(int(last[-1]) + 1)
    if len(rows) < table.rows:
        found.warn(
            "timeout",
            f"the last episode, from {table.place(len(rows))}, is unfinished; its {table.rows - len(rows)} row(s) "
            "were dropped",
        )
    return rows, np.append(True, ends[rows][:-1])


def _find_gaps(
    table: Table, chosen: Chosen, rows: NDArray[np.int64], starts: NDArray[np.bool_], found: Findings, cut: bool
) -> NDArray[np.bool_]:
    """Where rows are lost, told; a step that stands still or goes back is refused."""
    gaps = np.zeros(len(rows), bool)
    step = chosen.one("step")
    inside = np.flatnonzero(~starts[1:])
    if step is None or len(inside) == 0:
        return gaps
    column = table.columns[step]
    values = column.values[rows]
    values = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    if not np.isfinite(values).all():
        raise Unusable(
            "step", f"{step} is infinite at {table.place(int(rows[~np.isfinite(values)].min()))}; repair it"
        )
    taken = (values[1:] - values[:-1])[inside]
    if (taken <= 0).any():
        at = int(inside[np.flatnonzero(taken <= 0)[0]])
        first, second = sorted((int(rows[at]), int(rows[at + 1])))
        if chosen.one("episode"):
            raise Unusable(
                "step", f"{table.place(first)} and {table.place(second)} are the same {step} of one episode "
                f"({int((taken <= 0).sum())} such pair(s) in all); remove one of them",
            )  # fmt: skip
        raise Unusable(
            "step", f"{step} does not grow from {table.place(first)} to {table.place(second)}, within an episode; "
            "add --columns episode=COLUMN, or mark the end of the episode",
        )  # fmt: skip
    jumps = taken > GAP * np.median(taken)
    gaps[inside[jumps]] = True
    if jumps.any():
        at = int(inside[np.flatnonzero(jumps)[0]])
        before, after = (column.show(column.values[row]) for row in rows[at : at + 2])
        told = "episodes were cut there" if cut else "--drop-missing (drop_missing=True) cuts episodes there"
        found.warn(
            "step",
            f"{step} jumps from {before} to {after} at "
            f"{table.place(int(rows[at + 1]))} ({int(jumps.sum())} such gap(s) in all); {told}",
        )
    return gaps
