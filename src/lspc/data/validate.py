"""The checks between a file's raw arrays and a `Dataset`: every problem in one pass, one line each.

A fatal problem means no dataset; a warning means the data was mended, and the line says how.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lspc.data import mapped
from lspc.data.bounds import EXCESS, FEW, Bounds, measure_outside, observe_bounds, read_bounds
from lspc.data.dataset import FIELDS, FLAG_FIELDS, FLOAT_FIELDS, Dataset, Metadata
from lspc.data.filters import apply_filters
from lspc.data.opening import AS_NAMED, Opening
from lspc.errors import UserError

FILE_NAMES = {field: field for field in FIELDS} | {"terminated": "terminals", "truncated": "timeouts"}
"""What DSRL calls each field in its files; our own names are understood as well."""
CONTINUITY_TOLERANCE = 1e-4
ROWS_AT_ONCE = 65536
MOST_CHOICES = 16
"""Whole numbers with no more different values than this are taken for choices."""
SWITCHED_ROWS = 20
"""Two different values of any kind in so many rows are those of a switch."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a file; `message` says it all: file, field, row, what was found and what to do."""

    severity: Literal["fatal", "warning"]
    field: str
    index: int | None
    message: str


class Findings:
    """The problems of one file, collected while it is checked."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self._columns: Mapping[str, Sequence[str]] = {}
        self.row: Callable[[int], str] = lambda row: f"row {row}"
        """How a row is called where it came from."""

    def name_places(self, columns: Mapping[str, Sequence[str]], row: Callable[[int], str]) -> None:
        """Speak of a table's own columns and rows instead of the arrays made of them."""
        self._columns, self.row = columns, row

    def locate(self, field: str, name: str, row: int, column: int | None = None) -> tuple[str, str]:
        """What to call an array's value, and its place: its column of the table, or a column of the array."""
        if field in self._columns:
            return self._columns[field][column or 0], self.row(row)
        return name, self.row(row) + ("" if column is None else f", column {column}")

    def fatal(self, field: str, text: str, index: int | None = None) -> None:
        self.problems.append(Problem("fatal", field, index, f"{self.source}: {text}"))

    def warn(self, field: str, text: str, index: int | None = None) -> None:
        self.problems.append(Problem("warning", field, index, f"{self.source}: {text}"))

    def fatal_in(self, *fields: str) -> bool:
        """Whether something fatal was found in one of `fields`, or anywhere when none is named."""
        return any(p.severity == "fatal" and (not fields or p.field in fields) for p in self.problems)

    def require(self, dataset: Dataset | None) -> Dataset:
        """The dataset, or a UserError with everything that makes it unusable, one problem per line."""
        if dataset is None:
            raise UserError("\n".join(problem.message for problem in self.problems if problem.severity == "fatal"))
        return dataset

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(problem.message for problem in self.problems if problem.severity == "warning")


def check_arrays(
    raw: Mapping[str, NDArray[Any]],
    found: Findings,
    opening: Opening = AS_NAMED,
    *,
    metadata: Metadata | None = None,
    columns: Mapping[str, Any] | None = None,
) -> Dataset | None:
    """Turn raw arrays into a dataset, or add to `found` every reason why that cannot be done.

    Actions lie within the bounds that were given, else within those that the metadata name, else within what the
    data show. `columns` are those of the table that the arrays were made of.
    """
    arrays: Arrays = {}
    for field in FIELDS:
        name = FILE_NAMES[field] if FILE_NAMES[field] in raw else field
        if name in raw:
            array = _check_field(field, name, raw[name], found)
            if array is not None:
                arrays[field] = array
        elif not found.fatal_in(field):  # a field the reader could not read has been reported already
            needed = ", ".join(FILE_NAMES.values())
            instead = ', or add --cost "observations_0 > LIMIT"' if field == "costs" else ""
            found.fatal(field, f"{FILE_NAMES[field]} is missing; a file must hold {needed}{instead}")
    _check_sizes(arrays, found)
    _check_continuity(arrays, found)
    bounds = _check_actions(arrays, opening.bounds, metadata or {}, found)
    if not opening.continuous:
        _check_discrete(arrays, found)
    keep = _finished_rows(arrays, found)
    if found.fatal_in():
        return None
    arrays["actions"] = mapped.transform(arrays["actions"], bounds.clip, np.float32)
    kept = {field: array[:keep] for field, array in arrays.items()}
    if warning := cost_warning(kept["costs"]):
        found.warn("costs", warning)
    dataset = Dataset(
        **kept, warnings=found.warnings, source=found.source, metadata=metadata or {}, action_bounds=bounds,
        opened=opening.describe(columns),
    )  # fmt: skip
    return apply_filters(dataset, opening.filter, opening.filter_seed)


def check_built(dataset: Dataset) -> Dataset:
    """A dataset that may have been built by hand, or a UserError: opening a file checks all this and more."""
    if dataset.is_mapped:  # nobody builds those
        return dataset
    found = Findings(dataset.source)
    arrays: Arrays = {field: getattr(dataset, field) for field in FIELDS}
    for field in FLOAT_FIELDS:
        _check_finite(field, field, arrays[field], arrays[field], found)
    _check_costs("costs", dataset.costs, found)
    if not dataset.opened.get("continuous"):
        _check_discrete(arrays, found)
    return found.require(None if found.fatal_in() else dataset)


def cost_warning(costs: NDArray[Any], what: str = "steps") -> str | None:
    """A line for the user when the data show no cost at all: more often lost on the way than never there.

    `what` is what the costs are of.
    """
    if (costs > 0).any():
        return None
    return (
        f"costs: NONE of the {len(costs):,} {what} has a cost above 0, so nothing shows what is unsafe and "
        "every policy will look safe; check that costs were recorded"
    )


def budget_warning(dataset: Dataset, thresholds: Sequence[float]) -> str | None:
    """A line for the user when no episode fits even the largest budget: there is nothing safe to imitate."""
    cheapest = dataset.cost_returns.min()
    if len(thresholds) == 0 or cheapest <= max(thresholds):
        return None
    budgets = ", ".join(f"{threshold:g}" for threshold in thresholds)
    return (
        f"{dataset.source}: costs: no episode is within any budget ({budgets}), the cheapest costs "
        f"{cheapest:g}; raise the budget or add safer data"
    )


def _check_field(field: str, name: str, array: NDArray[Any], found: Findings) -> NDArray[Any] | None:
    """The array in its final type; None when its type or shape leaves nothing to look into."""
    rank = FLOAT_FIELDS.get(field, 1)
    if array.dtype.kind not in "biuf":
        found.fatal(field, f"{name} has type {array.dtype}, not numbers; store it as float32 (flags as bool)")
        return None
    if array.ndim != rank:
        wanted = "(N,)" if rank == 1 else "(N, columns)"
        found.fatal(field, f"{name} has shape {array.shape}; reshape it to {wanted}")
        return None
    if rank == 2 and array.shape[1] == 0:
        found.fatal(field, f"{name} has shape {array.shape}: no columns; store at least one")
        return None
    if field in FLAG_FIELDS:
        return _check_flags(field, name, array, found)
    numbers = array
    if array.dtype != np.float32:
        with np.errstate(over="ignore"):  # what overflows becomes inf, and is reported as such
            numbers = mapped.transform(array, lambda part: part.astype(np.float32), np.float32)
    _check_finite(field, name, array, numbers, found)
    if field == "costs":
        _check_costs(name, numbers, found)
    return numbers


def _check_flags(field: str, name: str, array: NDArray[Any], found: Findings) -> NDArray[np.bool_]:
    wrong = np.flatnonzero((array != 0) & (array != 1))
    if len(wrong):
        first = int(wrong[0])
        found.fatal(field, f"{name} is {array[first]} at row {first}; flags must be 0 or 1", first)
    return array.astype(np.bool_)


def _check_finite(field: str, name: str, array: NDArray[Any], numbers: NDArray[np.float32], found: Findings) -> None:
    count, first = 0, ()
    for rows in mapped.blocks(numbers):
        wrong = np.argwhere(~np.isfinite(numbers[rows]))
        if len(wrong) and not first:
            first = (rows.start + int(wrong[0][0]), *(int(i) for i in wrong[0][1:]))
        count += len(wrong)
    if not first:
        return
    name, place = found.locate(field, name, *first)
    what = f"{array[first]}" + (", too large for float32," if np.isfinite(array[first]) else "")
    found.fatal(
        field, f"{name} is {what} at {place} ({count} such value(s) in all); remove or repair the episode", first[0]
    )


def _check_costs(name: str, costs: NDArray[np.float32], found: Findings) -> None:
    wrong = np.flatnonzero(costs < 0)
    if len(wrong):
        first = int(wrong[0])
        name, place = found.locate("costs", name, first)
        found.fatal(
            "costs",
            f"{name} is {costs[first]:g} at {place} ({len(wrong)} negative value(s) in all); "
            "a cost must be 0 or more: check its sign",
            first,
        )


def _check_sizes(arrays: Arrays, found: Findings) -> None:
    """All arrays must have as many rows as most of them, and both observation arrays the same columns."""
    if not arrays:
        return
    rows, _ = Counter(len(array) for array in arrays.values()).most_common(1)[0]
    if rows == 0:
        found.fatal("observations", "there are no transitions; collect or export the data again")
        return
    for field, array in arrays.items():
        if len(array) != rows:
            found.fatal(
                field,
                f"{FILE_NAMES[field]} has {len(array)} rows where others have {rows}; make them equal",
            )
    if "observations" in arrays and "next_observations" in arrays:
        now, then = arrays["observations"].shape[1], arrays["next_observations"].shape[1]
        if now != then:
            found.fatal(
                "next_observations",
                f"next_observations has {then} columns but observations has {now}; make them equal",
            )


def _check_continuity(arrays: Arrays, found: Findings) -> None:
    """Inside an episode, the next observation of a row must be the observation of the following row."""
    needed = ("observations", "next_observations", *FLAG_FIELDS)
    if found.fatal_in(*needed) or any(field not in arrays for field in needed):
        return
    now, then = arrays["observations"], arrays["next_observations"]
    scale = np.maximum.reduce([np.abs(extreme) for array in (now, then) for extreme in mapped.extremes(array)])
    inside = ~(arrays["terminated"] | arrays["truncated"])[:-1]
    breaks = 0
    first: int | None = None
    for start in range(0, len(inside), ROWS_AT_ONCE):  # in pieces, to spare memory on large files
        stop = min(start + ROWS_AT_ONCE, len(inside))
        with np.errstate(over="ignore"):
            jump = np.abs(then[start:stop] - now[start + 1 : stop + 1]) > CONTINUITY_TOLERANCE * scale
        broken = np.flatnonzero(jump.any(axis=1) & inside[start:stop])
        breaks += len(broken)
        if first is None and len(broken):
            first = start + int(broken[0])
        mapped.release(now, then)
    if first is not None:
        found.fatal(
            "next_observations",
            f"next_observations at {found.row(first)} differs from observations at {found.row(first + 1)} in the "
            f"same episode ({breaks} such row(s) in all); keep rows in time order and mark every episode's "
            "last row in terminals or timeouts",
            first,
        )


def _check_actions(arrays: Arrays, given: Bounds | None, metadata: Metadata, found: Findings) -> Bounds:
    """The bounds of the actions: given, named by the file, [-1, 1] or, where they lie far outside, the data's own."""
    if "actions" not in arrays or found.fatal_in("actions"):
        return Bounds()
    actions = arrays["actions"]
    try:
        known = given or read_bounds(metadata)
        bounds = (known or Bounds()).for_actions(actions.shape[1], "actions")
    except UserError as error:
        found.fatal("actions", str(error))
        return Bounds()
    outside = measure_outside(actions, bounds)
    if outside is None:
        return bounds
    first, told = outside.first, outside.told
    if known is None and outside.largest > EXCESS:
        seen = observe_bounds(actions)
        found.warn(
            "actions", f"{told}; their bounds were taken from the data, {seen}: add --action-bounds LOW HIGH if the "
            "plant's are wider", first,
        )  # fmt: skip
        return seen
    if known is not None and outside.share > FEW:
        found.fatal("actions", f"{told}; are the bounds those of this plant, in the units of the data?", first)
    else:
        found.warn("actions", f"{told}; they were clipped", first)
    return bounds


def _check_discrete(arrays: Arrays, found: Findings) -> None:
    """Methods here choose actions from a range; numbers of choices, such as 0 and 1, have no range between them."""
    if "actions" not in arrays or found.fatal_in("actions"):
        return
    for number, different in enumerate(_find_choices(arrays["actions"])):
        if different is None or len(different) < 2:
            continue
        is_switch = len(different) == 2 and len(arrays["actions"]) >= SWITCHED_ROWS
        if is_switch or (different == np.round(different)).all():
            name, _ = found.locate("actions", f"column {number}", 0, number)
            listed = ", ".join(f"{value:g}" for value in different[:5]) + (", ..." if len(different) > 5 else "")
            found.fatal(
                "actions",
                f"actions look discrete: {len(different)} values ({listed}) in {name}, and lspc learns continuous "
                "ones; if these are set points of a range, add --continuous (continuous=True)",
            )
            return


def _find_choices(actions: NDArray[np.float32]) -> list[NDArray[np.float32] | None]:
    """The different values of each action; none for one that has more than a few."""
    found: list[NDArray[np.float32] | None] = [actions[:0, 0]] * actions.shape[1]
    for rows in mapped.blocks(actions):
        for number, column in enumerate(actions[rows].T):
            before = found[number]
            if before is None or len(np.unique(column[: MOST_CHOICES + 1])) > MOST_CHOICES:
                found[number] = None  # most actions are told by their first rows
                continue
            different = np.union1d(before, column)
            found[number] = different if len(different) <= MOST_CHOICES else None
    return found


def _finished_rows(arrays: Arrays, found: Findings) -> int:
    """How many rows to keep: those after the last end belong to an episode whose return is not known."""
    if found.fatal_in("observations", *FLAG_FIELDS) or any(field not in arrays for field in FLAG_FIELDS):
        return 0
    ends = np.flatnonzero(arrays["terminated"] | arrays["truncated"])
    rows = len(arrays["terminated"])
    if len(ends) == 0:
        found.fatal(
            "truncated",
            "no episode ends: terminals and timeouts are never set; mark every episode's last row",
        )
        return 0
    keep = int(ends[-1]) + 1
    if keep < rows:
        found.warn(
            "truncated",
            f"timeouts: the last episode, from row {keep}, is unfinished; its {rows - keep} transition(s) "
            "were dropped",
            keep,
        )
    return keep
