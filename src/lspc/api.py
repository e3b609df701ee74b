"""The library in a few calls: what `import lspc` offers, with the same layers of settings as the command line."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lspc import algos, calibration, evaluation, training
from lspc.calibration.certificate import Certificate, run_pilot
from lspc.calibration.run import calibrate_run
from lspc.data import Bounds, Dataset
from lspc.data import load as load_dataset
from lspc.data import save as save_dataset
from lspc.data.bounds import Given
from lspc.deploy.export import export
from lspc.errors import UserError
from lspc.policy import load_policy
from lspc.sims.own import name_factory
from lspc.sims.pool import Pool
from lspc.tasks import NAMED_IN_DATA, Task, task_of
from lspc.tasks.own import is_own
from lspc.training import settings

__all__ = ["calibrate", "evaluate", "export", "load_dataset", "load_policy", "pilot", "save_dataset", "train"]


def train(
    dataset: Dataset,
    out: str | Path,
    *,
    algo: str = "lspc",
    preset: str = "default",
    task: str | None = NAMED_IN_DATA,
    seeds: Sequence[int] = (0,),
    action_bounds: Given | Bounds | None = None,
    sweep: str | None = None,
    hold_out: float = 0.0,
    evaluate_every: int | None = None,
    evaluate_episodes: int = 5,
    trackers: Sequence[str] = (),
    on_progress: Callable[[training.Progress], None] | None = None,
    **overrides: Any,
) -> Path:
    """Train in the folder `out` (or go on with the run there); any setting of the method can be overridden.

    The task, which decides some settings, is the one named in the dataset's file unless told; None is no task. With a
    `sweep`, such as "expectile=0.5,0.7", there is a run for each value, in out/NAME=VALUE. The policies are measured
    in the simulator every `evaluate_every` updates, if that is given. `action_bounds`, (low, high) for every
    action or such a pair for each, replace those of the dataset. The share `hold_out` of the episodes is not learned
    from, so that `calibrate` can check its predictions on episodes that nothing has seen.
    """
    dataset = dataset if action_bounds is None else dataset.bound_actions(action_bounds)
    known, method = task_of(dataset.metadata, task), algos.get(algo)
    runs = {
        Path(out) / name: settings.resolve(method, preset, known, {**overrides, **swept})
        for name, swept in settings.parse_sweep(sweep).items()
    }
    with _make_interim(known, evaluate_every, evaluate_episodes) as interim:
        training.train_each(
            dataset, runs, method=algo, seeds=seeds, task=known, trackers=trackers, interim=interim,
            on_progress=on_progress, hold_out=hold_out,
        )  # fmt: skip
    return Path(out)


@contextmanager
def _make_interim(task: Task | None, every: int | None, episodes: int) -> Generator[training.Interim | None]:
    """What measures the policies while they are trained, if that was asked for."""
    if every is None:
        yield None
        return
    if min(every, episodes) < 1:
        raise UserError("--evaluate-every and --evaluate-episodes must be 1 or more")
    if task is None:
        raise UserError("--evaluate-every needs a simulator: say --task TASK (see `lspc tasks`)")
    with Pool(task) as pool:
        yield training.Interim(every, evaluation.Rollouts(pool, task, episodes))


def evaluate(
    run: str | Path,
    *,
    task: str | None = None,
    on: str | Callable[..., Any] | None = None,
    cost_key: str = "cost",
    horizon: int | None = None,
    budgets: Sequence[float] = (),
    episodes: int = 20,
    dataset: Dataset | None = None,
    **options: Any,
) -> list[evaluation.Summary]:
    """Roll out a run's policies in the simulator: one row per policy, below that of the data's own behaviour.

    `on` is an environment of your own in place of a task: `gym:Pendulum-v1`, `module:callable`, or the class or
    function that makes it; `cost_key` is where its `info` holds the cost, `horizon` the most steps of an episode (the
    data's longest unless given). The data are those the run learned from unless given; where they are gone there is
    no such row. Other options are those of `lspc.evaluation.evaluate`.
    """
    own: dict[str, Any] = {"cost_key": cost_key, "horizon": horizon}
    if callable(on):
        on, importable = name_factory(factory := on)
        own["factory"] = None if importable else factory
    name = on or task
    tables = evaluation.evaluate_runs(
        [run], [name] if name else [], own=own if name and is_own(name) else None, budgets=budgets, dataset=dataset,
        episodes=episodes, **options,
    )  # fmt: skip
    return next(iter(tables.values()))


def calibrate(run: str | Path, dataset: Dataset | None = None, *, seed: int | None = None) -> calibration.Calibration:
    """Predict cost and reward at every eps from the data the run learned from, looked for where it was unless given.

    `.choose(budget)` gives the eps for a budget.
    """
    return calibrate_run(run, dataset, seed=seed).calibration


def pilot(
    run: str | Path,
    budget: float,
    *,
    task: str | None = None,
    logs: Mapping[float, Dataset] | None = None,
    **options: Any,
) -> Certificate:
    """Prove with real episodes, in the simulator or from `logs` by eps, that an episode costs at most the budget.

    `.restriction` is the certified eps, or none; the other options are those of `lspc pilot`.
    """
    return run_pilot(run, budget, task=task, logs=logs, **options)[0]
