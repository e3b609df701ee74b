"""What a dataset is: transitions in the order they happened, with reward and cost, cut into episodes.

A `Dataset` never changes after it is made; what is derived from it is computed once, when first asked for.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data import mapped
from lspc.data.bounds import EXCESS, FEW, Bounds, Given, measure_outside
from lspc.errors import UserError

FLOAT_FIELDS = {"observations": 2, "actions": 2, "rewards": 1, "costs": 1, "next_observations": 2}
"""The float32 arrays of a dataset and their number of dimensions."""
FLAG_FIELDS = ("terminated", "truncated")
"""The bool arrays of a dataset: (N,)."""
FIELDS = (*FLOAT_FIELDS, *FLAG_FIELDS)

Metadata = Mapping[str, str | int | float]
"""What a file says of its data beside the arrays, such as the task they are of."""

SMALLEST_STD = 1e-3
CONSTANT_STD = 1e-6


@dataclass(frozen=True, eq=False)
class Statistics:
    """The numbers of a dataset that travel with a policy trained on it."""

    observation_mean: NDArray[np.float32]
    observation_std: NDArray[np.float32]
    """Safe to divide by: never below 1e-3, and 1 where the feature never varies in the data, so that a sensor
    that first moves after deployment is passed on as it is instead of magnified a thousand times."""
    return_min: float
    return_max: float
    cost_return_max: float
    episode_length_mean: float


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """N transitions in order; an episode ends where `terminated` or `truncated` is set, as in the last row.

    Arrays are cast to float32 and bool, checked for shape, and made read-only. `from_arrays`, `from_episodes` and
    `from_table` also check what is in them, as opening a file does.
    """

    observations: NDArray[np.float32]
    actions: NDArray[np.float32]
    rewards: NDArray[np.float32]
    costs: NDArray[np.float32]
    next_observations: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    """The task ended the episode: there is no future to value."""
    truncated: NDArray[np.bool_]
    """The clock ended the episode: the future exists but was not recorded."""
    warnings: tuple[str, ...] = ()
    """What was found and mended while opening the file, one line each."""
    source: str = "arrays"
    """Where the data came from, for messages."""
    metadata: Metadata = field(default_factory=dict)
    """What the file says of its data: read-only, kept by `select` and `within`, no part of the fingerprint."""
    action_bounds: Bounds = field(default_factory=Bounds)
    """Between what the actions lie, in the plant's units; [-1, 1] unless told. Methods see `scale_actions()`."""

    opened: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of `load` beside the file that made these data of it, such as the columns of a table."""

    def __post_init__(self) -> None:
        for name in FIELDS:
            dtype = np.float32 if name in FLOAT_FIELDS else np.bool_
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        for name in ("metadata", "opened"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        self._check_shapes()
        object.__setattr__(self, "action_bounds", self.action_bounds.for_actions(self.action_dim, self.source))

    def __getstate__(self) -> dict[str, Any]:
        # A read-only view of a dict cannot be copied into another process, nor by copy.deepcopy.
        return {**vars(self), "metadata": dict(self.metadata), "opened": dict(self.opened)}

    def __repr__(self) -> str:
        returns, costs = self.returns, self.cost_returns
        return (
            f"Dataset({self.source}: {len(self.episodes):,} episodes, {self.transitions:,} transitions, "
            f"{self.observation_dim} observations, {self.action_dim} actions, "
            f"return {returns.min():.4g} to {returns.max():.4g}, cost {costs.min():.4g} to {costs.max():.4g})"
        )

    @staticmethod
    def from_arrays(
        observations: Any,
        actions: Any,
        rewards: Any,
        costs: Any,
        *,
        terminated: Any = None,
        truncated: Any = None,
        next_observations: Any = None,
        source: str = "arrays",
        metadata: Metadata | None = None,
        **opening: Any,
    ) -> "Dataset":
        """The dataset in arrays of one row per step, in order; an episode ends where one of the two flags is set.

        Without `next_observations` they are the observations of the rows that follow; what is wrong is a UserError.
        `opening` are the fields of `lspc.data.Opening`.
        """
        arrays = {
            "observations": observations, "actions": actions, "rewards": rewards, "costs": costs,
            "terminated": terminated, "truncated": truncated, "next_observations": next_observations,
        }  # fmt: skip
        given = {name: array for name, array in arrays.items() if array is not None}
        return Dataset.from_table(given, source=source, metadata=metadata, **opening)

    @staticmethod
    def from_episodes(
        episodes: Sequence[Mapping[str, Any]],
        *,
        source: str = "list of episodes",
        metadata: Metadata | None = None,
        **opening: Any,
    ) -> "Dataset":
        """The dataset in a list of episodes, each a dict of arrays with a row for each step.

        Observations may have a row more, the one after the last action, and `terminated` may be True or False.
        """
        return Dataset.from_table(list(episodes), source=source, metadata=metadata, **opening)

    @staticmethod
    def from_table(
        table: Any, *, source: str | None = None, metadata: Metadata | None = None, **opening: Any
    ) -> "Dataset":
        """The dataset in a pandas, polars or pyarrow table or a dict of arrays, opened as `load` does."""
        from lspc.data.opening import Opening
        from lspc.data.tables import open_table

        return open_table(table, Opening(**opening), source=source, metadata=metadata)

    def _check_shapes(self) -> None:
        for name in FIELDS:
            array: NDArray[np.generic] = getattr(self, name)
            rank = FLOAT_FIELDS.get(name, 1)
            if array.ndim != rank:
                raise UserError(f"{self.source}: {name} has shape {array.shape}; it must be of rank {rank}")
            if len(array) != self.transitions:
                raise UserError(
                    f"{self.source}: {name} has {len(array)} rows but observations has {self.transitions}"
                )
        if self.transitions == 0:
            raise UserError(f"{self.source}: there are no transitions")
        if self.next_observations.shape != self.observations.shape:
            raise UserError(
                f"{self.source}: next_observations has {self.next_observations.shape[1]} columns "
                f"but observations has {self.observation_dim}"
            )
        if not (self.terminated[-1] or self.truncated[-1]):
            raise UserError(f"{self.source}: the last row ends no episode; set terminated or truncated there")

    @property
    def transitions(self) -> int:
        return len(self.observations)

    @property
    def is_mapped(self) -> bool:
        """Whether the data are larger than memory, and lie in a file."""
        return mapped.mapping_of(self.observations) is not None

    @property
    def memory_needed(self) -> int:
        """Bytes that must be free for the data to be opened and learned from in memory."""
        return mapped.COPIES * self._bytes

    @property
    def _bytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in FIELDS)

    @property
    def observation_dim(self) -> int:
        return self.observations.shape[1]

    @property
    def action_dim(self) -> int:
        return self.actions.shape[1]

    @cached_property
    def episodes(self) -> list[slice]:
        """The rows of each episode."""
        stops = np.flatnonzero(self.terminated | self.truncated) + 1
        starts = np.concatenate([[0], stops[:-1]])
        return [slice(start, stop) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.array([episode.start for episode in self.episodes], dtype=np.int64)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Transitions per episode."""
        return np.array([episode.stop - episode.start for episode in self.episodes], dtype=np.int64)

    @cached_property
    def returns(self) -> NDArray[np.float64]:
        """Undiscounted reward of each episode."""
        return np.add.reduceat(self.rewards.astype(np.float64), self._starts)

    @cached_property
    def cost_returns(self) -> NDArray[np.float64]:
        """Undiscounted cost of each episode."""
        return np.add.reduceat(self.costs.astype(np.float64), self._starts)

    @cached_property
    def initial_observations(self) -> NDArray[np.float32]:
        """The first observation of each episode."""
        return mapped.gather(self.observations, self._starts)

    def hold_out(self, share: float) -> NDArray[np.int64]:
        """Numbers of the episodes to hold out: evenly many of all costs, always the same ones."""
        if not 0 <= share <= 0.5:
            raise UserError(f"--hold-out must be from 0 to 0.5 of the episodes, not {share:g}")
        number = round(share * len(self.episodes))
        by_cost = np.argsort(self.cost_returns, kind="stable")
        places = (np.arange(number) + 0.5) * len(self.episodes) / max(number, 1)
        return np.sort(by_cost[places.astype(np.int64)])

    @cached_property
    def statistics(self) -> Statistics:
        mean, std = mapped.moments(self.observations)
        std = np.where(std < CONSTANT_STD, 1.0, np.maximum(std, SMALLEST_STD))
        return Statistics(
            observation_mean=mean.astype(np.float32),
            observation_std=std.astype(np.float32),
            return_min=float(self.returns.min()),
            return_max=float(self.returns.max()),
            cost_return_max=float(self.cost_returns.max()),
            episode_length_mean=float(self.lengths.mean()),
        )

    @cached_property
    def changes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of what a step changes in each feature."""
        now, then = self.observations, self.next_observations
        return mapped.moments(now, then, change=lambda rows: then[rows] - now[rows])

    @cached_property
    def observation_range(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The least and the most of each feature."""
        return mapped.extremes(self.observations)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content: equal data has an equal fingerprint, whatever file it came from."""
        digest = hashlib.sha256()
        for name in FIELDS:
            array: NDArray[np.generic] = getattr(self, name)
            little_endian = array.dtype.newbyteorder("<")
            digest.update(f"{name} {little_endian.str} {array.shape}\n".encode())
            for rows in mapped.blocks(array):
                digest.update(array[rows].astype(little_endian, copy=False).data)
        if not self.action_bounds.are_unit:  # the same numbers in other bounds are other actions
            digest.update(f"action bounds {self.action_bounds.low} {self.action_bounds.high}\n".encode())
        return digest.hexdigest()

    def select(self, episode_indices: Iterable[int] | NDArray[np.integer]) -> "Dataset":
        """The dataset of these episodes, in the order given."""
        indices = [int(index) for index in episode_indices]
        if not indices:
            raise UserError(f"{self.source}: no episode was selected")
        for index in indices:
            if not 0 <= index < len(self.episodes):
                raise UserError(f"{self.source}: there is no episode {index}; there are {len(self.episodes)}")
        rows = np.concatenate([np.r_[self.episodes[index]] for index in indices])
        size = len(rows) * self._bytes // self.transitions
        take = mapped.take if mapped.exceeds_memory(size) else mapped.gather  # a part of large data may be small
        return replace(self, **{name: take(getattr(self, name), rows) for name in FIELDS})

    def within(self, budget: float) -> "Dataset":
        """The episodes whose cost return is at most `budget`."""
        inside = np.flatnonzero(self.cost_returns <= budget)
        if len(inside) == 0:
            raise UserError(
                f"{self.source}: no episode costs {budget:g} or less (the cheapest costs "
                f"{self.cost_returns.min():g}); raise the budget or add safer data"
            )
        return self.select(inside)

    def bound_actions(self, given: Given | Bounds, *, slack: float = 0.0) -> "Dataset":
        """The same data with these action bounds; what lies outside is clipped, and told in the warnings.

        Refused if more than one row in a hundred is outside by more than `slack`, in units of half the bounds' width.
        """
        bounds = Bounds.of(given).for_actions(self.action_dim, self.source)
        outside = measure_outside(self.actions, bounds, slack)
        if outside is None:
            return self if bounds == self.action_bounds else replace(self, action_bounds=bounds)
        if outside.share > FEW:
            raise UserError(
                f"{self.source}: {outside.told}; are the bounds those of this plant, in the units of the data?"
            )
        return replace(
            self, actions=mapped.transform(self.actions, bounds.clip, np.float32), action_bounds=bounds,
            warnings=(*self.warnings, f"{self.source}: {outside.told}; they were clipped"),
        )  # fmt: skip

    def scale_actions(self) -> "Dataset":
        """The same data with the actions scaled to [-1, 1], as methods and models learn them."""
        outside = measure_outside(self.actions, self.action_bounds)
        if outside is not None and outside.largest > EXCESS:  # data from a file never do
            raise UserError(f"{self.source}: {outside.told}; give the data their action_bounds")
        if self.action_bounds.are_unit:
            return self
        scaled = mapped.transform(self.actions, self.action_bounds.to_unit, np.float32)
        return replace(self, actions=scaled, action_bounds=Bounds())
