"""From logs to a policy for a budget in one call: train, calibrate, export, report, into one folder.

Every stage keeps what it made, so a call that was killed goes on where it was: training from its last checkpoint, a
finished calibration is read again, and the rest takes seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lspc import algos, files, lanes, training
from lspc.calibration import certificate, fitted_q
from lspc.calibration.choosing import Calibration, Choice, check_budget
from lspc.calibration.run import calibrate_run
from lspc.data import Dataset
from lspc.deploy.export import export, require_onnx
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.report import page
from lspc.runs import fields, layout
from lspc.tasks import Task
from lspc.training import settings

MODEL, CARD, REPORT = "policy.onnx", "policy.md", "report.html"
DONE = "fit.json"
"""Written last: what was asked for, in a folder that has all of it."""
METHOD = "lspc"
"""The one that serves a budget chosen afterwards."""
HELD_OUT = 0.2
"""Share of the episodes that the policy does not learn from: calibration judges it by what it has not seen."""


@dataclass(frozen=True)
class Fitted:
    """A policy for a cost budget, with what is known about it.

    `act` and `predict` keep to the budget by the eps that was chosen for it; where the logs allow none they refuse,
    and `choice.why` says why.
    """

    folder: Path
    """The run: everything below is in it."""
    policy: TrainedPolicy
    """LSPC-O, for every budget."""
    choice: Choice
    """The budget, the eps chosen for it, the cost and reward estimated from the logs unless a pilot certified it."""

    @property
    def budget(self) -> float:
        return self.choice.budget

    @property
    def calibration(self) -> Calibration:
        """Cost and reward estimated at every eps."""
        return self.policy.calibration

    @property
    def onnx(self) -> Path | None:
        """The file that runs elsewhere; none where no eps fits."""
        return _there(self.folder / MODEL)

    @property
    def card(self) -> Path | None:
        """What that file is, in words."""
        return _there(self.folder / CARD)

    @property
    def report(self) -> Path:
        """The page to open in a browser."""
        return self.folder / REPORT

    @property
    def certificate(self) -> dict[str, Any] | None:
        """What `lspc.pilot` proved with real episodes for this budget; none until then."""
        folder = self.policy.folder
        place = None if folder is None else _there(layout.certificate_path(folder, self.budget))
        if place is None:
            return None
        certificate.load(place.parent, self.budget)  # which refuses one that was changed, or is of another policy
        return files.read_json(place)

    def act(self, observation: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The action for one observation or a batch, in the plant's units."""
        return self.policy.act(observation, rng, budget=self.budget)

    predict = act

    @staticmethod
    def load(folder: str | Path) -> "Fitted":
        """What `lspc.fit` left in a folder."""
        asked = _read_asked(Path(folder))
        if asked is None:
            raise UserError(f"{folder}: it holds no finished `lspc fit`; run that again to continue")
        policy = load_policy(folder, seed=asked.seed)
        return Fitted(Path(folder), policy, policy.choose(asked.budget))

    def __repr__(self) -> str:
        proved = ", certified" if self._is_certified() else ""
        return f"Fitted({str(self.folder)!r}, budget {self.budget:g}: {self.choice.why}{proved})"

    def _is_certified(self) -> bool:
        try:
            found = self.certificate
        except UserError:  # told when it is used
            return False
        return found is not None and found["restriction"] is not None


@dataclass(frozen=True)
class _Asked:
    """What a finished call was asked for."""

    budget: float
    seed: int


def _read_asked(folder: Path) -> _Asked | None:
    place = _there(folder / DONE)
    return None if place is None else fields.parse(_Asked, files.read_json(place), f"{place}")


def _there(path: Path) -> Path | None:
    return path if path.exists() else None


OnStage = Callable[[str, int, int, str], None]
"""Hears the stage, how much of it is done, all of it, and what it is at."""


def no_stage(stage: str, done: int, total: int, words: str) -> None:
    """Hears nothing."""


def fit(
    dataset: Dataset,
    out: Path,
    budget: float,
    *,
    task: Task | None,
    preset: str,
    seed: int,
    updates: int,
    overrides: Mapping[str, Any],
    on_stage: OnStage,
    on_warning: Callable[[str], None],
) -> Fitted:
    """Train LSPC, choose eps for the budget, write ONNX, card and report; a killed call goes on where it was."""
    check_budget(budget)
    require_onnx()  # before minutes of work, not after
    lanes.use_one_device_per_lane(fitted_q.Config.members)  # of the calibration: after training it is too late
    resolved = settings.resolve(algos.get(METHOD), preset, task, overrides)

    def hear(now: training.Progress) -> None:
        on_stage("training", now.step, now.total, f"{now.updates_per_second:.0f}/s")
        for alarm in now.alarms:
            on_warning(alarm)

    _forget_other_budget(out, budget)
    on_stage("training", 0, resolved.config.steps, "compiling")
    training.train_each(
        dataset, {out: resolved}, method=METHOD, seeds=(seed,), task=task, hold_out=HELD_OUT, on_progress=hear
    )
    on_stage("training", resolved.config.steps, resolved.config.steps, "finished")
    calibrate_run(
        out, training.fit_to_task(dataset, task), budgets=(budget,), seed=seed, updates=updates,
        on_stage=lambda what, done, total: on_stage("calibrating", done, total, what),
    )  # fmt: skip
    policy = load_policy(out, seed=seed)
    choice = policy.choose(budget)
    if choice.restriction is None:
        _forget_exported(out)
    else:
        on_stage("exporting", 0, 1, MODEL)
        export(out, out / MODEL, budget=budget, seed=seed)
        on_stage("exporting", 1, 1, MODEL)
    on_stage("reporting", 0, 1, REPORT)
    page.write([out], out / REPORT, film=False)
    files.write_json(out / DONE, asdict(_Asked(budget, seed)))
    on_stage("reporting", 1, 1, REPORT)
    return Fitted(out, policy, choice)


def _forget_other_budget(out: Path, budget: float) -> None:
    """Remove the policy of another budget: where this one allows none, none may lie there."""
    asked = _read_asked(out)
    if asked is not None and asked.budget != budget:
        (out / DONE).unlink(missing_ok=True)
        _forget_exported(out)


def _forget_exported(out: Path) -> None:
    """Where no eps fits, no policy may lie there."""
    for name in (MODEL, CARD):
        (out / name).unlink(missing_ok=True)
