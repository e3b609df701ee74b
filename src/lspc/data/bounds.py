"""Action bounds: the least and the most of each action in the plant's own units, and the way to [-1, 1] and back.

Methods learn in [-1, 1]. A dataset, a policy's answer and an exported graph are in the plant's units.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lspc.data import mapped
from lspc.errors import UserError

EXCESS = 0.1
"""Actions may leave [-1, 1] by this much and still be meant to lie within it, as in some of DSRL's files."""
FEW = 0.01
"""Share of the rows that may lie outside bounds that were given: more, and the bounds are of other data."""
LOW, HIGH = "action_low", "action_high"
"""What a file's metadata call them."""

Given = Sequence[float] | Sequence[Sequence[float]] | NDArray[Any]
"""What a user may write: (0, 100) for every action alike, or such a pair for each."""


@dataclass(frozen=True)
class Bounds:
    """A number for each action; with none at all, [-1, 1] for however many there are. Float32, as data are.

    An action whose bounds are equal never varied in the data: it is 0 for a method, and that one value for the plant.
    """

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            with np.errstate(over="ignore"):  # what is too large is infinite, and refused below
                values = tuple(float(np.float32(value)) for value in getattr(self, name))
            object.__setattr__(self, name, values)
        if len(self.low) != len(self.high):
            raise UserError(f"action bounds: {len(self.low)} lower and {len(self.high)} upper ones; give pairs")
        for number, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not (np.isfinite([low, high]).all() and low <= high):
                raise UserError(
                    f"action bounds: those of action {number} are {low:g} and {high:g}; give low, then high"
                )

    @staticmethod
    def of(given: "Given | Bounds") -> "Bounds":
        """From pairs of low and high, flat or nested: one for all actions or one for each."""
        if isinstance(given, Bounds):
            return given
        flat = np.asarray(given, np.float64).reshape(-1)
        if len(flat) == 0 or len(flat) % 2:
            raise UserError(f"action bounds: {len(flat)} number(s) are not pairs of low and high, such as 0 100")
        return Bounds(tuple(flat[::2].tolist()), tuple(flat[1::2].tolist()))

    def for_actions(self, size: int, source: str) -> "Bounds":
        """A pair for each of `size` actions."""
        if self.are_unit:
            return Bounds((-1.0,) * size, (1.0,) * size)
        if len(self.low) == 1:
            return Bounds(self.low * size, self.high * size)
        if len(self.low) != size:
            raise UserError(f"{source}: {len(self.low)} pairs of action bounds for actions of size {size}")
        return self

    @cached_property
    def are_unit(self) -> bool:
        return all(low == -1.0 for low in self.low) and all(high == 1.0 for high in self.high)

    @cached_property
    def _middle_and_reach(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = self._edges
        return (high + low) / 2, (high - low) / 2

    @cached_property
    def _edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.array(self.low), np.array(self.high)

    def to_unit(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """From the plant's units to [-1, 1]."""
        if self.are_unit:
            return actions
        middle, reach = self._middle_and_reach
        scaled = np.where(reach > 0, (actions - middle) / np.where(reach > 0, reach, 1.0), 0.0)
        return np.clip(scaled, -1.0, 1.0).astype(np.float32)

    def to_plant(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """From [-1, 1] to the plant's units."""
        if self.are_unit:
            return actions
        middle, reach = self._middle_and_reach
        return np.clip(middle + reach * actions, *self._edges).astype(np.float32)

    def clip(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.clip(actions, self.low, self.high)

    def excess(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """By how much each action leaves the bounds, in units of half their width; 0 inside."""
        _, reach = self._middle_and_reach
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        beyond = np.maximum(np.maximum(low - actions, actions - high), 0.0)
        return (beyond / np.where(reach > 0, reach, 1.0)).astype(np.float32)

    def __str__(self) -> str:
        pairs = dict.fromkeys(f"[{low:g}, {high:g}]" for low, high in zip(self.low, self.high, strict=True))
        if len(pairs) > 1:
            return " x ".join(f"[{low:g}, {high:g}]" for low, high in zip(self.low, self.high, strict=True))
        return next(iter(pairs), "[-1, 1]")


def observe_bounds(actions: NDArray[np.float32]) -> Bounds:
    """Each action's least and most in the data."""
    low, high = mapped.extremes(actions)
    return Bounds(tuple(low.tolist()), tuple(high.tolist()))


class Outside(NamedTuple):
    """Actions beyond their bounds."""

    first: int
    """The first row with one."""
    share: float
    """Of the rows: those beyond the slack."""
    largest: float
    """In units of half the bounds' width."""
    told: str
    """All of it in words."""


def measure_outside(actions: NDArray[np.float32], bounds: Bounds, slack: float = 0.0) -> Outside | None:
    """How many rows lie outside the bounds, where and how far; none if there are none."""
    count, beyond, largest, first, worst = 0, 0, 0.0, -1, 0.0
    for rows in mapped.blocks(actions):
        excess = bounds.excess(actions[rows])
        places = np.flatnonzero(excess.any(axis=1))
        if len(places) == 0:
            continue
        if first < 0:
            first = rows.start + int(places[0])
            worst = actions[first, int(excess[places[0]].argmax())]
        count += len(places)
        beyond += int((excess > slack).any(axis=1).sum())
        largest = max(largest, float(excess.max()))
    if count == 0:
        return None
    told = f"actions lie outside {bounds} in {count} of {len(actions)} rows, first {worst:g} at row {first}"
    return Outside(first, beyond / len(actions), largest, told)


def read_bounds(metadata: Mapping[str, Any]) -> Bounds | None:
    """What a file's metadata say of its actions: a number, or a JSON list of one for each action."""
    if LOW not in metadata and HIGH not in metadata:
        return None
    try:
        low, high = (np.asarray(json.loads(str(metadata[name])), np.float64).reshape(-1) for name in (LOW, HIGH))
    except (KeyError, ValueError) as error:
        raise UserError(f"its metadata must hold both {LOW} and {HIGH}, each a number or a JSON list") from error
    return Bounds(tuple(low.tolist()), tuple(high.tolist()))


def write_bounds(bounds: Bounds) -> dict[str, str]:
    """The metadata that `read_bounds` reads."""
    return {} if bounds.are_unit else {LOW: json.dumps(bounds.low), HIGH: json.dumps(bounds.high)}
