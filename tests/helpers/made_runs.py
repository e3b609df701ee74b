"""Run folders written by hand, without training: what a report is made from, with figures to check in the head."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lspc import files
from lspc.algos.base import Spec
from lspc.data import Dataset, load
from lspc.runs import Record, Run, layout, record

CONFIG = {"steps": 500, "restriction": 1.0, "restriction_range": [0.02, 2.0], "hidden": [8, 8], "expectile": 0.7}


def make_record(reward: float = 0.0, cost: float = 0.0, **changes: Any) -> Record:
    """One episode of LSPC-O on BallRun."""
    known: dict[str, Any] = {
        "run": "r", "task": "BallRun", "trained_on": "BallRun", "method": "lspc", "policy": "LSPC-O", "budget": None,
        "mode": "deterministic", "training_seed": 0, "updates": 500, "dataset": "f", "config": "c",
        "lspc_version": "0.1.0", "seed": 1_000_000, "reward_return": float(reward), "cost_return": float(cost),
        "length": 100, "terminated": False,
    }  # fmt: skip
    return Record(**{**known, **changes})


def episodes(
    policy: str, costs: Sequence[float], *, seed: int = 0, mode: str = "deterministic", eps: float | None = None,
    reward: float = 500.0, task: str = "BallRun", dataset: str = "f",
) -> list[Record]:  # fmt: skip
    """Records of one policy; each episode's reward is its cost more than `reward`."""
    return [
        make_record(
            reward + cost, cost, policy=policy, restriction=eps, mode=mode, training_seed=seed, task=task,
            trained_on=task, dataset=dataset, seed=1_000_000 + place,
        )
        for place, cost in enumerate(costs)
    ]  # fmt: skip


def make_run(
    folder: Path, data: Path | Dataset, records: Sequence[Record] = (), *, task: str | None = "BallRun",
    method: str = "lspc", metrics: Sequence[dict[str, Any]] = (), **settings: Any,
) -> Path:  # fmt: skip
    dataset = data if isinstance(data, Dataset) else load(data)
    description = {
        "lspc_version": "0.1.0", "method": method, "task": task, "seeds": [0, 1], "config": {**CONFIG, **settings},
        "provenance": {"steps": "preset cpu", **dict.fromkeys(settings, "user")},
        "dataset": {
            "source": dataset.source, "fingerprint": dataset.fingerprint, "episodes": 20, "episodes_used": 20,
            "transitions_used": 1000,
        },
        "spec": asdict(Spec.of(dataset)),
    }  # fmt: skip
    files.write_json(layout.config_path(folder), files.seal(files.as_json(description)))
    if records:
        record.write(folder / layout.EVALUATIONS, records)
    if metrics:
        files.write_jsonl(folder / layout.METRICS, list(metrics))
    return folder


def change_description(folder: Path, **changes: Any) -> dict[str, Any]:
    """Write other values into a run's description, and return it."""
    changed = {**Run.open(folder).describe(), **changes}
    files.write_json(layout.config_path(folder), files.seal(files.as_json(changed)))
    return files.as_json(changed)
