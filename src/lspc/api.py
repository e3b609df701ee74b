"""The library in a few calls: what `import lspc` offers, with the same layers of settings as the command line."""

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from lspc import algos, calibration, evaluation, fitting, lanes, training
from lspc.calibration.certificate import Certificate, run_pilot
from lspc.calibration.choosing import check_budget
from lspc.calibration.run import OnStage, calibrate_run
from lspc.data import Bounds, Dataset, cost_warning
from lspc.data import load as load_dataset
from lspc.data import save as save_dataset
from lspc.data.bounds import Given
from lspc.data.validate import check_built
from lspc.deploy.export import export
from lspc.errors import UserError
from lspc.fitting import Fitted
from lspc.policy import load_policy
from lspc.runs.run import Foreseen, Run
from lspc.sims.own import name_factory
from lspc.sims.pool import Pool
from lspc.tasks import NAMED_IN_DATA, Task, task_of
from lspc.tasks.own import is_own
from lspc.training import devices, settings

__all__ = ["calibrate", "evaluate", "export", "fit", "load_dataset", "load_policy", "pilot", "save_dataset", "train"]


def fit(
    logs: Any,
    budget: float,
    out: str | Path = "model",
    *,
    preset: str = "cpu",
    task: str | None = NAMED_IN_DATA,
    seed: int = 0,
    updates: int = 6_000,
    device: str | None = None,
    progress: bool = False,
    on_stage: fitting.OnStage | None = None,
    on_warning: Callable[[str], None] = warnings.warn,
    **overrides: Any,
) -> Fitted:
    """Learn a policy that keeps an episode's cost within `budget`, from logs alone: what `lspc fit` does.

    `logs` is a dataset, or anything that `lspc.load_dataset` opens. The folder `out` gets the run, the ONNX file with
    its card, and a report; a call that was killed goes on where it was. `progress` shows a bar for each stage,
    `on_stage` hears the stage, how much of it is done, all of it, and what it is at. `updates` are those of the
    calibration's networks; other options are settings of LSPC, such as `steps`.

        fitted = lspc.fit("logs.csv", budget=10)
        action = fitted.predict(observation)
    """
    devices.use(device)
    dataset = _open(logs)
    if on_stage is None and (warning := cost_warning(dataset.costs)):  # the command line has shown it already
        on_warning(f"{dataset.source}: {warning}")
    with ExitStack() as stack:
        if progress:
            from lspc.report import terminal

            bars = stack.enter_context(terminal.progress())
            on_stage, on_warning = bars.show, bars.warn
        return fitting.fit(
            dataset, Path(out), budget, task=task_of(dataset.metadata, task), preset=preset, seed=seed,
            updates=updates, overrides=overrides, on_warning=on_warning, on_stage=on_stage or fitting.no_stage,
        )  # fmt: skip


def train(
    data: Any,
    out: str | Path = "runs/latest",
    *,
    algo: str = "lspc",
    preset: str = "default",
    task: str | None = NAMED_IN_DATA,
    budget: float | None = None,
    seeds: Sequence[int] = (0,),
    action_bounds: Given | Bounds | None = None,
    sweep: str | None = None,
    hold_out: float = 0.0,
    evaluate_every: int | None = None,
    evaluate_episodes: int = 5,
    trackers: Sequence[str] = (),
    device: str | None = None,
    progress: bool = False,
    on_progress: Callable[[training.Progress], None] | None = None,
    **overrides: Any,
) -> Path:
    """Train in the folder `out` (or go on with the run there); any setting of the method can be overridden.

    `data` is a dataset, or anything that `lspc.load_dataset` opens. The task, which decides some settings, is the one
    named in the dataset's file unless told; None is no task. `budget` is the cost an episode may have: a setting of
    the methods that are trained for one, and what everything that follows judges by. With a `sweep`, such as
    "expectile=0.5,0.7", there is a run for each value, in out/NAME=VALUE. The policies are measured in the simulator
    every `evaluate_every` updates, if that is given. `action_bounds`, (low, high) for every action or such a pair for
    each, replace those of the dataset. The share `hold_out` of the episodes is not learned from, so that `calibrate`
    can check its predictions on episodes that nothing has seen. `device` is cpu, gpu or tpu; on CPUs several seeds
    use several cores, if JAX has computed nothing yet. `progress` shows a bar, `on_progress` hears how far it is.
    """
    devices.use(device)
    lanes.use_one_device_per_lane(len(seeds))
    dataset = _open(data)
    dataset = dataset if action_bounds is None else dataset.bound_actions(action_bounds)
    known = task_of(dataset.metadata, task)
    if budget is not None:
        check_budget(budget)
        overrides = {**overrides, "budget": budget} if _has_budget(algo) else overrides
    runs = _resolve(Path(out), algo, preset, known, sweep, overrides)
    with _make_interim(known, evaluate_every, evaluate_episodes) as interim, ExitStack() as stack:
        if progress and on_progress is None:
            from lspc.report import terminal

            bars = stack.enter_context(terminal.progress())
            on_progress = terminal.show_training(bars, next(iter(runs.values())).config.steps)
        training.train_each(
            dataset, runs, method=algo, seeds=seeds, task=known, trackers=trackers, interim=interim,
            on_progress=on_progress, hold_out=hold_out,
        )  # fmt: skip
    for folder in runs:
        Run.open(folder).remember_budgets(() if budget is None else (budget,))
    return Path(out)


def _open(data: Any) -> Dataset:
    """What to learn from; `Dataset(...)` itself looks at shapes alone."""
    return check_built(data) if isinstance(data, Dataset) else load_dataset(data)


def foresee(
    dataset: Dataset,
    out: str | Path,
    *,
    algo: str,
    preset: str,
    task: str | None,
    seeds: Sequence[int],
    sweep: str | None,
    hold_out: float = 0.0,
    **overrides: Any,
) -> dict[Path, Foreseen]:
    """What `train` would do in each folder; what it would refuse is refused."""
    known = task_of(dataset.metadata, task)
    runs = _resolve(Path(out), algo, preset, known, sweep, overrides)
    planned, _ = training.plan_runs(dataset, runs, method=algo, seeds=seeds, task=known, hold_out=hold_out)
    return {run.path: run.foresee() for run, _ in planned}


def _resolve(
    out: Path, algo: str, preset: str, task: Task | None, sweep: str | None, overrides: Mapping[str, Any]
) -> dict[Path, settings.Resolved]:
    """The settings of the run in each folder."""
    method = algos.get(algo)
    return {
        out / name: settings.resolve(method, preset, task, {**overrides, **swept})
        for name, swept in settings.parse_sweep(sweep).items()
    }


def _has_budget(algo: str) -> bool:
    return "budget" in {field.name for field in fields(algos.get(algo).Config)}


@contextmanager
def _make_interim(task: Task | None, every: int | None, episodes: int) -> Generator[training.Interim | None]:
    """What measures the policies while they are trained, if that was asked for."""
    if every is None:
        yield None
        return
    if min(every, episodes) < 1:
        raise UserError("--evaluate-every and --evaluate-episodes must be 1 or more")
    if task is None:
        raise UserError("--evaluate-every needs a simulator: add --task TASK (see `lspc tasks`)")
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
    progress: bool = False,
    **options: Any,
) -> list[evaluation.Summary]:
    """Roll out a run's policies in the simulator: one row per policy, below that of the data's own behaviour.

    `on` is an environment of your own in place of a task: `gym:Pendulum-v1`, `module:callable`, or the class or
    function that makes it; `cost_key` is where its `info` holds the cost, `horizon` the most steps of an episode (the
    data's longest unless given). The data are those the run learned from unless given; where they are gone there is
    no such row. `progress` shows a bar. Other options are those of `lspc.evaluation.evaluate`, such as `on_episode`,
    which hears of every finished one.
    """
    own: dict[str, Any] = {"cost_key": cost_key, "horizon": horizon}
    if callable(on):
        on, importable = name_factory(factory := on)
        own["factory"] = None if importable else factory
    name = on or task
    with ExitStack() as stack:
        if progress:
            from lspc.report import terminal

            bars = stack.enter_context(terminal.progress(counted=True))
            options = terminal.show_evaluation(bars) | options
        tables = evaluation.evaluate_runs(
            [run], [name] if name else [], own=own if name and is_own(name) else None, budgets=budgets,
            dataset=dataset, episodes=episodes, **options,
        )  # fmt: skip
    return next(iter(tables.values()))


def calibrate(
    run: str | Path,
    dataset: Dataset | None = None,
    *,
    seed: int | None = None,
    updates: int = 6_000,
    progress: bool = False,
    on_stage: OnStage | None = None,
) -> calibration.Calibration:
    """Predict cost and reward at every eps from the data the run learned from, looked for where it was unless given.

    `.choose(budget)` gives the eps for a budget. `updates` are those of the predicting networks; a curve that was
    made with as many lies beside the policy and is used again. `progress` shows a bar; `on_stage` hears what it is
    at, how much of it is done, and all of it.
    """
    with _hear_stages("calibrating", progress, on_stage) as hear:
        return calibrate_run(run, dataset, seed=seed, updates=updates, on_stage=hear).calibration


def pilot(
    run: str | Path,
    budget: float,
    *,
    task: str | None = None,
    logs: Mapping[float, Dataset] | None = None,
    progress: bool = False,
    on_stage: OnStage | None = None,
    **options: Any,
) -> Certificate:
    """Prove with real episodes, in the simulator or from `logs` by eps, that an episode costs at most the budget.

    `.restriction` is the certified eps, or none. `progress` shows a bar; `on_stage` hears the eps, its episodes so
    far, and how many it may have. The other options are those of `lspc pilot`.
    """
    with _hear_stages("pilot", progress, on_stage) as hear:
        return run_pilot(run, budget, task=task, logs=logs, on_stage=hear, **options)[0]


@contextmanager
def _hear_stages(bar: str, progress: bool, on_stage: OnStage | None) -> Generator[OnStage]:
    """Who hears of stages: the caller, else a bar if one is wanted, else nobody."""
    if on_stage or not progress:
        yield on_stage or (lambda what, done, total: None)
        return
    from lspc.report import terminal

    with terminal.progress() as bars:
        yield lambda what, done, total: bars.show(bar, done, total, what)
