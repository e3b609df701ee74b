"""The library in a few calls: what `import lspc` offers, with the same layers of settings as the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lspc import algos, calibration, evaluation, training
from lspc.data import Dataset
from lspc.data import load as load_dataset
from lspc.data import save as save_dataset
from lspc.deploy.export import export
from lspc.errors import UserError
from lspc.policy import load_policy
from lspc.runs import Run
from lspc.tasks import NAMED_IN_DATA, get_task, task_of
from lspc.training import settings

__all__ = ["calibrate", "evaluate", "export", "load_dataset", "load_policy", "save_dataset", "train"]


def train(
    dataset: Dataset,
    out: str | Path,
    *,
    algo: str = "lspc",
    preset: str = "default",
    task: str | None = NAMED_IN_DATA,
    seeds: Sequence[int] = (0,),
    **overrides: Any,
) -> Path:
    """Train in the folder `out` (or go on with the run there); any setting of the method can be overridden.

    The task, which decides some settings, is the one named in the dataset's file unless told; None is no task.
    """
    known = task_of(dataset.metadata, task)
    config, provenance = settings.resolve(algos.get(algo), preset, known, overrides)
    return training.train(dataset, out, config, method=algo, seeds=seeds, task=known, provenance=provenance)


def evaluate(
    run: str | Path, *, task: str | None = None, episodes: int = 20, dataset: Dataset | None = None
) -> list[evaluation.Summary]:
    """Roll out a run's policies in the simulator: one row per policy, and the data's own behaviour if given."""
    name = task or Run.open(run).task
    if name is None:
        raise UserError(f"{run} was not trained for a task: name one")
    known = get_task(name)
    rows = evaluation.summarise(evaluation.evaluate(run, known, episodes=episodes), known, dataset)
    return [evaluation.behaviour(dataset, known), *rows] if dataset else rows


def calibrate(run: str | Path, dataset: Dataset, *, seed: int | None = None) -> calibration.Calibration:
    """Predict cost and reward at every eps from the run's own data; `.choose(budget)` gives the eps for a budget."""
    return calibration.calibrate_policy(load_policy(run, seed=seed), dataset)
