"""Many runs at a glance: what each is, how far it has come, what it was measured to cost, and in what they differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lspc.errors import UserError
from lspc.runs import layout
from lspc.runs.run import Run


@dataclass(frozen=True)
class Overview:
    path: Path
    method: str
    task: str | None
    data: str
    """The file it learned from."""
    seeds: tuple[int, ...]
    updates: int
    """Those done."""
    steps: int
    """Those it was asked for."""
    finished: bool
    calibrated: bool
    certified: tuple[str, ...]
    """The budgets that real episodes proved."""
    policy: str | None
    """What was measured; none if nothing was."""
    episodes: int
    cost: float | None
    reward: float | None
    """Means of whole episodes, deterministic actions, at the run's own eps."""
    differs: dict[str, Any]
    """The settings in which these runs are not all alike; of other methods, those that both have."""


def list_runs(folders: Sequence[Path]) -> list[Overview]:
    """Every run in or below these folders."""
    found = [path for folder in folders for path in layout.find_runs(folder)]
    if not found:
        raise UserError(f"no run in {' or '.join(map(str, folders))}: a run is a folder that `lspc train` made")
    runs = [Run.open(path) for path in dict.fromkeys(found)]
    return [_look_at(run, _find_differences(runs, run)) for run in runs]


def _find_differences(runs: Sequence[Run], run: Run) -> dict[str, Any]:
    alike = [other for other in runs if other.method == run.method]
    return {
        name: value
        for name, value in run.config.items()
        if name != "steps" and any(other.config.get(name) != value for other in alike)
    }


def _look_at(run: Run, differs: dict[str, Any]) -> Overview:
    plain = [
        record for record in run.records()
        if (record.mode, record.guard, record.restriction) == ("deterministic", None, None)
    ]  # fmt: skip
    names = sorted({record.policy for record in plain}, key=lambda name: (not name.endswith("LSPC-O"), name))
    policy = names[0] if names else None
    own = [record for record in plain if record.policy == policy]
    proved = [path.stem.removeprefix(layout.CERTIFICATE) for path in layout.certificate_paths(run.path)]
    return Overview(
        run.path, run.method, run.task, Path(run.dataset.source).name, run.seeds, run.updates_done(), run.steps,
        run.is_finished(), bool(layout.calibration_paths(run.path)), tuple(proved), policy, len(own),
        float(np.mean([record.cost_return for record in own])) if own else None,
        float(np.mean([record.reward_return for record in own])) if own else None,
        differs,
    )  # fmt: skip
