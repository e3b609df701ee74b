"""Weights & Biases, one W&B run per seed, grouped by the run's folder.

Offline unless WANDB_MODE says otherwise: no account, no network, nothing written outside the run's folder.
"""

import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lspc import files
from lspc.errors import UserError
from lspc.training.tracking.base import Line, split

ID_FILE = "run-id"


class Wandb:
    def __init__(self) -> None:
        try:
            import wandb
        except ImportError as error:
            raise UserError("wandb is not installed: pip install 'lspc[track]'") from error
        self._wandb = wandb
        self._mode: Any = os.environ.get("WANDB_MODE", "offline")

    def open(self, folder: Path, description: Mapping[str, Any], history: Sequence[Line]) -> None:
        name = _choose_id(folder, description)
        for old in (folder / "wandb").glob(f"offline-run-*-{name}-seed-*"):
            shutil.rmtree(old)
        self._runs: dict[int, Any] = {}
        with ExitStack() as undo, _keep_inside(folder / "wandb"):
            undo.callback(self.close)
            for seed in description["seeds"]:
                self._runs[seed] = self._start(folder, description, f"{name}-seed-{seed}", seed)
            self.log(history)
            undo.pop_all()

    def _start(self, folder: Path, description: Mapping[str, Any], name: str, seed: int) -> Any:
        try:
            return self._wandb.init(
                dir=str(folder), mode=self._mode, id=name, resume=None if self._mode == "offline" else "allow",
                project=os.environ.get("WANDB_PROJECT", "lspc"), group=folder.name, name=f"{folder.name}-seed-{seed}",
                config=files.as_json({**description, "training_seed": seed}), reinit="create_new", save_code=False,
                settings=self._wandb.Settings(silent=True, console="off", disable_git=True),
            )  # fmt: skip
        except self._wandb.Error as error:
            raise UserError(f"wandb cannot start ({error}); WANDB_MODE=offline needs no account") from error

    def log(self, lines: Sequence[Line]) -> None:
        for step, seed, metrics in map(split, lines):
            run = self._runs[seed]
            # W&B's server cannot forget, but what it has beyond the checkpoint is what a resumed run, being the same
            # bit for bit, would send again.
            if step >= run.step:
                run.log(metrics, step=step, commit=True)

    def close(self) -> None:
        for run in self._runs.values():
            run.finish()


def _choose_id(folder: Path, description: Mapping[str, Any]) -> str:
    """The run's id at W&B: chosen once and stored, so that a folder that moves remains the same run."""
    path = folder / "wandb" / ID_FILE
    if not path.exists():
        files.write_text(path, files.content_hash({"folder": str(folder.resolve()), **description}) + "\n")
    return path.read_text(encoding="utf-8").strip()


@contextmanager
def _keep_inside(folder: Path) -> Generator[None]:
    """W&B's caches and logs in `folder` and no crash reports, unless the user has decided on these already."""
    ours = {f"WANDB_{name}_DIR": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT")}
    ours["WANDB_ERROR_REPORTING"] = "false"
    added = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
