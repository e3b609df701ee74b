"""Run folders written by hand, without training: what a report is made from, with figures to check in the head."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lspc import files
from lspc.data import Dataset, load

CONFIG = {"steps": 500, "restriction": 1.0, "restriction_range": [0.02, 2.0], "hidden": [8, 8], "expectile": 0.7}


def episodes(
    policy: str, costs: Sequence[float], *, seed: int = 0, mode: str = "deterministic", eps: float | None = None,
    reward: float = 500.0, task: str = "BallRun", dataset: str = "f",
) -> list[dict[str, Any]]:  # fmt: skip
    """Records of one policy; each episode's reward is its cost more than `reward`."""
    return [
        {
            "run": "r", "task": task, "trained_on": task, "method": "lspc", "policy": policy, "restriction": eps,
            "mode": mode, "training_seed": seed, "updates": 500, "dataset": dataset, "config": "c",
            "lspc_version": "0.1.0", "seed": 1_000_000 + place, "reward_return": reward + cost, "cost_return": cost,
            "length": 100, "terminated": False,
        }
        for place, cost in enumerate(costs)
    ]  # fmt: skip


def make_run(
    folder: Path, data: Path | Dataset, records: Sequence[dict[str, Any]] = (), *, task: str | None = "BallRun",
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
        "spec": {"observation_dim": 7, "action_dim": 2},
    }  # fmt: skip
    files.write_json(folder / "config.json", description)
    if records:
        files.write_jsonl(folder / "evaluations.jsonl", list(records))
    if metrics:
        files.write_jsonl(folder / "metrics.jsonl", list(metrics))
    return folder
