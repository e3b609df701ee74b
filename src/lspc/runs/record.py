"""One episode of one policy as it was measured: raw, a line of JSON each; every figure is computed from these."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from lspc import files
from lspc.runs import fields

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Record:
    run: str
    """The name of the run's folder."""
    task: str
    """What it was measured on."""
    trained_on: str | None
    """The task of the run, if it has one."""
    method: str
    policy: str
    restriction: float | None = None
    """eps, if it was not the run's own."""
    guard: float | None = None
    """The budget that a guard watched over."""
    budget: float | None
    """What the run was trained for, if it was trained for a budget."""
    mode: str
    training_seed: int
    updates: int
    """Of the policy, when it was measured."""
    dataset: str
    """Fingerprint of the data that the run learned from."""
    config: str
    """Hash of the run's settings."""
    lspc_version: str
    intervened: float | None = None
    """Share of the steps in which the guard stepped in."""
    seed: int
    """Of the episode."""
    reward_return: float
    cost_return: float
    length: int
    terminated: bool


def read(path: Path, known: Mapping[str, Any] | None = None) -> list[Record]:
    """The records in a file; `known` is what its lines may leave out, such as the budget of the run it belongs to."""
    records = []
    for number, values in enumerate(files.read_jsonl(path), start=1):
        if isinstance(values, dict):
            # Before a policy could be measured elsewhere, it was measured on the task it was trained for.
            values = {"trained_on": values.get("task"), **(known or {}), **values}
        records.append(fields.parse(Record, values, f"{path}, line {number}"))
    return records


def as_json(record: Record) -> dict[str, Any]:
    values: dict[str, Any] = asdict(record)
    if record.guard is None:
        del values["intervened"]
    return values


def write(path: Path, records: Iterable[Record]) -> None:
    files.write_jsonl(path, [as_json(record) for record in records])


def append(path: Path, records: Iterable[Record]) -> None:
    files.append_jsonl(path, [as_json(record) for record in records])


def store(path: Path, records: Sequence[Record], known: Mapping[str, Any] | None = None) -> None:
    """Replace what was measured before of the same policies on the same task, keep the rest."""

    def measured(record: Record) -> tuple[object, ...]:
        return record.task, record.policy, record.restriction, record.guard, record.mode, record.training_seed

    now = {measured(record) for record in records}
    kept = [record for record in read(path, known) if measured(record) not in now] if path.exists() else []
    write(path, [*kept, *records])


def group(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Records by `key`, groups and records in the order they come."""
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def returns_by_seed(records: Iterable[Record], what: Literal["reward", "cost"]) -> list[np.ndarray]:
    """The episodes' returns, an array for each training seed."""
    by_seed = group(records, lambda record: record.training_seed).values()
    return [np.array([getattr(record, f"{what}_return") for record in some], float) for some in by_seed]


def training_seeds(records: Iterable[Record]) -> set[int]:
    return {record.training_seed for record in records}
