"""Where batches come from: a table on the device, or rows that the host gathers while the device computes.

Which rows an update learns from depends on its seed and number alone, so that both ways draw the same ones. A table
may be any tree of arrays; in place of those that are larger than memory it has `HostRows`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from numpy.typing import NDArray

from lspc.data import mapped

Build = Callable[..., Any]
"""(columns) -> the table of these columns, whether all rows of them or some."""


class HostRows:
    """A table that stays on the host: the bytes of its rows, and how a batch is built of them."""

    def __init__(self, columns: Sequence[NDArray[Any]], build: Build) -> None:
        self._rows, self._kinds, self._build = mapped.side_by_side(columns), [column[:0] for column in columns], build
        self.size = len(self._rows)

    def gather(self, places: NDArray[np.integer]) -> Any:
        """The table at these rows, in memory; read in the order of the file, which disks like."""
        order = np.argsort(places, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return self._build(*mapped.split(mapped.gather(self._rows, places[order])[back], self._kinds))


class Drawn(eqx.Module):
    """The rows that were drawn for a chunk of updates, one batch after the other, and the number of the update."""

    rows: Any = None
    number: Any = None


class _Recorder:
    """Notes which rows would be drawn."""

    def __init__(self, rows: HostRows) -> None:
        self.rows, self.places = rows, []

    def draw(self, places: Array) -> Any:
        self.places.append(places)
        return jax.tree.map(jnp.asarray, self.rows.gather(np.zeros(len(places), np.int64)))


def build_table(columns: Sequence[NDArray[Any]], build: Build) -> Any:
    """The table of these columns; one that stays on the host if they are larger than memory."""
    streamed = any(mapped.mapping_of(column) is not None for column in columns)
    return HostRows(columns, build) if streamed else build(*columns)


def to_device(column: Any) -> Any:
    """A column of a table on the device; what stays on the host stays there."""
    return column if isinstance(column, HostRows) else jnp.asarray(column)


def draw_rows(table: Any, key: PRNGKeyArray, count: int, size: Array | int | None = None) -> Any:
    """Rows of a table, or of the first `size` of them, drawn independently, each as likely as the others."""
    return gather_rows(table, jax.random.randint(key, (count,), 0, row_count(table) if size is None else size))


def row_count(table: Any) -> int:
    """How many rows can be drawn; 1 where they have been drawn already."""
    if isinstance(table, Drawn):
        return 1
    return table.rows.size if isinstance(table, _Recorder) else jax.tree.leaves(table)[0].shape[0]


def gather_rows(table: Any, places: Array) -> Any:
    """The rows at these places; where they have been drawn already, those of this update."""
    if isinstance(table, _Recorder):
        return table.draw(places)
    if isinstance(table, Drawn):
        table, places = table.rows, table.number * len(places) + jnp.arange(len(places))
    return jax.tree.map(lambda column: column[places], table)


def fill_in(table: Any, drawn: Any, number: Array) -> Any:
    """The table with the rows that were drawn for this update, where it has none of its own."""
    return _replace(table, Drawn, lambda _: Drawn(drawn, number))


def _replace(table: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    def is_one(node: Any) -> bool:
        return isinstance(node, kind)

    return jax.tree.map(lambda node: change(node) if is_one(node) else node, table, is_leaf=is_one)


class Source:
    """What a loop asks for the rows of its next updates; of a table in memory there is nothing to ask.

    `draw(table, lane, update)` draws the batch of an update in one lane: a training seed, a member of an ensemble.
    """

    def __init__(
        self, table: Any, draw: Callable[[Any, Array, Array], Any], lanes: Sequence[int], chunk: int
    ) -> None:
        self.resident = _replace(table, HostRows, lambda _: Drawn())
        """What is put on the device."""
        found = [node for node in jax.tree.leaves(table) if isinstance(node, HostRows)]
        self._host = found[0] if found else None
        self._lanes, self._chunk = jnp.asarray(lanes), chunk
        self._table, self._draw = jax.tree.map(to_device, table) if found else None, draw
        self._places = jax.jit(jax.vmap(jax.vmap(self._find_places, (None, 0)), (0, None)))
        self._thread = ThreadPoolExecutor(1) if found else None
        self._next: tuple[int, Future[Any]] | None = None

    def _find_places(self, lane: Array, update: Array) -> Array:
        recorders: list[_Recorder] = []

        def record(rows: HostRows) -> _Recorder:
            recorders.append(_Recorder(rows))
            return recorders[-1]

        self._draw(_replace(self._table, HostRows, record), lane, update)
        [places] = recorders[0].places
        return places

    def ask(self, start: int, total: int) -> Any:
        """The rows of the chunk of updates that begins with `start`; those of the next one are then on their way."""
        if self._host is None:
            return None
        if self._next is None or self._next[0] != start:
            self._next = self._begin(start)
        rows = self._next[1].result()
        if (following := start + self._chunk - start % self._chunk) < total:
            self._next = self._begin(following)
        return rows

    def _begin(self, start: int) -> tuple[int, Future[Any]]:
        assert self._thread is not None
        places = np.asarray(self._places(self._lanes, start + jnp.arange(self._chunk)))
        return start, self._thread.submit(self._gather, places.reshape(len(self._lanes), -1))

    def _gather(self, places: NDArray[np.integer]) -> Any:
        assert self._host is not None
        lanes = [self._host.gather(lane) for lane in places]
        return jax.tree.map(lambda *parts: np.stack(parts), *lanes)
