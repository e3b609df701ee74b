"""Training several settings of one method at once: each as if it were alone, what they share computed once.

A method says in POLICY_SETTINGS which settings its critics do not depend on, and has `update_sweep` for them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lspc import algos
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.tasks import Task
from lspc.training import loop
from lspc.training.settings import Resolved


def train_sweep(
    dataset: Dataset,
    runs: Mapping[Path, Resolved],
    *,
    method: str = "lspc",
    seeds: Sequence[int] = (0,),
    task: Task | None = None,
    trackers: Sequence[str] = (),
    interim: loop.Interim | None = None,
    on_progress: Callable[[loop.Progress], None] | None = None,
    hold_out: float = 0.0,
) -> None:
    """Train one run in each folder, in the time of one and a part of the others.

    Their settings may differ only in what the method can share the rest of (its POLICY_SETTINGS).
    """
    if name := first_unshared_setting(method, [config for config, _ in runs.values()]):
        raise UserError(f"runs of {method} that differ in {name} cannot be trained together: train them one by one")
    loop.train_runs(
        dataset, runs, method=method, seeds=seeds, task=task, trackers=trackers, interim=interim,
        on_progress=on_progress, hold_out=hold_out,
    )  # fmt: skip


def train_each(dataset: Dataset, runs: Mapping[Path, Resolved], *, method: str = "lspc", **options: Any) -> None:
    """Train one run in each folder: at once where their settings allow it, else one after the other."""
    alone = first_unshared_setting(method, [config for config, _ in runs.values()])
    for part in [{out: run} for out, run in runs.items()] if alone else [runs]:
        train_sweep(dataset, part, method=method, **options)


def first_unshared_setting(method: str, configs: Sequence[Any]) -> str | None:
    """The first setting whose difference forbids that these runs are trained together."""
    can_differ = getattr(algos.get(method), "POLICY_SETTINGS", ())
    for config in configs[1:]:
        for name, value in asdict(config).items():
            if value != getattr(configs[0], name) and name not in can_differ:
                return name
    return None
