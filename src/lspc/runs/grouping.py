"""Which records are of one policy, when they come from several runs, at several eps and under guards."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lspc import files
from lspc.runs.record import Record
from lspc.runs.run import Run


class PolicyKey(NamedTuple):
    """What makes records those of one policy."""

    policy: str
    mode: str
    settings: str
    """Hash of the run's settings, but for eps, and of its data."""
    guard: float | None
    """The budget that a guard watched over."""
    restriction: float | None
    """eps; none for a policy that has none."""

    @property
    def family(self) -> tuple[str, str, str, float | None]:
        """All but eps."""
        return self[:4]


class Grouped(NamedTuple):
    groups: dict[PolicyKey, list[Record]]
    """The same episode found twice counts once."""
    own: set[PolicyKey]
    """The policies that have their run's own eps."""
    conflicts: list[str]
    """A line for each run whose episodes clash with those of an earlier one."""


def own_restriction(run: Run, policy: str) -> float | None:
    """The eps that a policy of the run has unless told; only LSPC-O has one."""
    return run.config.get("restriction") if policy.endswith("LSPC-O") else None


def group_by_policy(measured: Iterable[tuple[Run, Sequence[Record]]], task: str | None) -> Grouped:
    """The runs' records on `task` by policy: seeds may be spread over runs that differ in nothing else."""
    groups: dict[PolicyKey, dict[tuple[int, int], Record]] = {}
    own: set[PolicyKey] = set()
    conflicts: dict[str, None] = {}
    for run, records in measured:
        but_eps = {name: value for name, value in run.config.items() if name != "restriction"}
        for record in (record for record in records if record.task == task):
            usual = own_restriction(run, record.policy)
            eps = usual if record.restriction is None else record.restriction
            settings = files.content_hash([but_eps, record.dataset])
            key = PolicyKey(record.policy, record.mode, settings, record.guard, eps)
            if eps == usual:
                own.add(key)
            first = groups.setdefault(key, {}).setdefault((record.training_seed, record.seed), record)
            if (first.reward_return, first.cost_return) != (record.reward_return, record.cost_return):
                what = f"{record.policy} {record.mode} on {task} was measured twice with different results"
                conflicts[f"{what}; those of {run.name} are left out"] = None
    return Grouped({key: list(episodes.values()) for key, episodes in groups.items()}, own, list(conflicts))
