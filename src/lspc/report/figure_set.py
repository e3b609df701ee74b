"""All figures of the paper for one task: trains what they need, measures it, draws them.

The folder holds the runs and the pictures. Stopped, it goes on where it was: finished runs and measurements are kept.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from lspc import algos, data, evaluation, training
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import load_policy
from lspc.report.figures import FIGURES, draw
from lspc.runs import Run
from lspc.sims.pool import Pool
from lspc.tasks import NAMED_IN_DATA, Task, task_of
from lspc.training import settings

RESTRICTIONS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
POINTS = 16
"""Places on a training curve."""
CURVE_EPISODES = 5
TOGETHER: dict[str, dict[str, Any]] = {
    "lspc": {},
    "converse": {"roles": "converse"},
    # A fixed lambda has an effect only where it is not chosen per batch.
    **{f"lambda={value}": {"cost_share": None, "cost_temperature": float(value)} for value in (1, 2, 4)},
}
"""Runs that share their critics, and what each changes in the preset."""
ALONE: dict[str, tuple[str, dict[str, Any]]] = {
    "expectile=0.5": ("lspc", {"expectile": 0.5}),
    "bc-safe": ("bc", {}),
    "fisor": ("fisor", {}),
}
"""The others: method and changes."""
WITH_CURVE = FIGURES["training-curves"].set_runs or ()


class Stage(NamedTuple):
    what: str
    done: int
    total: int


def draw_set(
    dataset: Dataset | None = None,
    out: Path | None = None,
    *,
    task: str | None = NAMED_IN_DATA,
    preset: str = "cpu",
    seeds: Sequence[int] = (0, 1),
    episodes: int = 20,
    overrides: dict[str, dict[str, Any]] | None = None,
    on_stage: Callable[[Stage], None] = lambda stage: None,
) -> list[Path]:
    """Train, measure and draw into the folder `out`, figures/TASK unless given; returns the pictures.

    Without a dataset it is the bundled one. `overrides` are settings by method, over the preset's.
    """
    given, dataset = dataset is not None, dataset or data.load(data.bundled_file())
    known = task_of(dataset.metadata, task)
    if known is None:
        raise UserError(f"{dataset.source} does not say which task it is from: add --task TASK (see `lspc tasks`)")
    if not given and known != task_of(dataset.metadata):
        raise UserError(f"name the dataset: lspc figure all --task {known.name} --data FILE")
    out = out or Path("figures") / known.name
    runs = out / "runs"
    _train(known, dataset, runs, preset, seeds, overrides or {}, on_stage)
    for name in (*TOGETHER, "expectile=0.5"):
        swept = name in ("lspc", "converse")
        _measure(runs / name, known, seeds, episodes, RESTRICTIONS if swept else (), on_stage)
    on_stage(Stage("drawing", 0, 1))
    return [
        draw(name, out / f"{name}.png", runs=[runs / run for run in figure.set_runs], dataset=dataset, task=known)
        for name, figure in FIGURES.items()
        if figure.set_runs is not None
    ]


def _train(
    task: Task, dataset: Dataset, runs: Path, preset: str, seeds: Sequence[int],
    overrides: dict[str, dict[str, Any]], on_stage: Callable[[Stage], None],
) -> None:  # fmt: skip
    groups = [("lspc", TOGETHER), *((method, {name: changes}) for name, (method, changes) in ALONE.items())]
    with Pool(task) as pool:
        measured = evaluation.Rollouts(pool, task, CURVE_EPISODES)
        for method, group in groups:
            resolved = {
                runs / name: settings.resolve(
                    algos.get(method), preset, task, {**_safe(method, task), **overrides.get(method, {}), **changes}
                )
                for name, changes in group.items()
            }
            total = next(iter(resolved.values())).config.steps
            interim = training.Interim(
                max(total // POINTS, 1),
                lambda run, net, seed, updates: measured(run, net, seed, updates) if run.name in WITH_CURVE else [],
            )
            told = f"training {', '.join(group)}"
            training.train_sweep(
                dataset, resolved, method=method, seeds=seeds, task=task, interim=interim,
                on_progress=lambda now, told=told: on_stage(Stage(told, now.step, now.total)),
            )  # fmt: skip


def _safe(method: str, task: Task) -> dict[str, Any]:
    """Cloning is drawn as BC-Safe, of the episodes within the tightest budget."""
    return {"budget": float(task.thresholds[0])} if method == "bc" else {}


def _measure(
    run: Path, task: Task, seeds: Sequence[int], episodes: int, restrictions: Sequence[float],
    on_stage: Callable[[Stage], None],
) -> None:  # fmt: skip
    """What the figures need of this run and is not there yet."""
    variants = load_policy(run, seed=seeds[0]).net.variants
    records = Run.open(run).records()
    there = Counter((r.policy, r.mode, r.restriction) for r in records if r.guard is None)

    def missing(variant: str, restriction: float | None) -> bool:
        return there[variant, evaluation.usual_mode(variant), restriction] < len(seeds) * episodes

    jobs: list[tuple[list[str], str, list[float]]] = []
    for mode in evaluation.MODES:
        if chosen := [v for v in variants if evaluation.usual_mode(v) == mode and missing(v, None)]:
            jobs.append((chosen, mode, []))
    searching = variants[0]
    if swept := [eps for eps in restrictions if missing(searching, eps)]:
        jobs.append(([searching], evaluation.usual_mode(searching), swept))
    total = episodes * len(seeds) * sum(len(chosen) * max(len(swept), 1) for chosen, _, swept in jobs)
    done = count()
    for chosen, mode, swept in jobs:
        evaluation.evaluate(
            run, task, episodes=episodes, variants=chosen, modes=[mode], restrictions=swept, seeds=seeds,
            on_episode=lambda: on_stage(Stage(f"measuring {run.name}", next(done) + 1, total)),
        )  # fmt: skip
