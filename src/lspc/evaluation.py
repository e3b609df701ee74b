"""Measuring policies in the simulator by DSRL's protocol: raw episodes first, every figure computed from them.

Twenty episodes per training seed, reward normalised by the task's bounds, cost by each of the suite's three
thresholds, intervals by a bootstrap that draws seeds and then episodes within them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lspc import algos, files, sims
from lspc.algos.base import Policy
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.runs import layout
from lspc.runs.record import Record, group, returns_by_seed
from lspc.runs.run import Run
from lspc.runs.statistics import Interval, bootstrap
from lspc.sims.pool import Episode, Pool
from lspc.tasks import Task, normalised_cost, normalised_reward
from lspc.tasks.own import OwnTask
from lspc.version import __version__

FIRST_EPISODE_SEED = 1_000_000
"""Evaluation episodes are numbered from here, far from the seeds that collected data may have used."""
MODES = ("deterministic", "sampled")


def evaluate(
    run: str | Path,
    task: Task,
    *,
    episodes: int = 20,
    variants: Sequence[str] | None = None,
    modes: Sequence[str] = MODES,
    restrictions: Sequence[float] = (),
    guards: Sequence[float] = (),
    seeds: Sequence[int] | None = None,
    records_file: str = layout.EVALUATIONS,
    workers: int | None = None,
    first_seed: int = FIRST_EPISODE_SEED,
    on_start: Callable[[str, int], None] | None = None,
    on_episode: Callable[[], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
) -> list[Record]:
    """Roll out every policy of a finished run; the records replace those of the same policies in the run's folder.

    Each policy's are stored as soon as it is measured.

    `restrictions` are the eps to measure LSPC-O with, in place of the run's own; each of `guards` a budget to measure
    it with under the guard as well (deterministic actions, calibrated seeds only); `seeds` are all unless given.
    """
    if episodes < 1 or not modes or set(modes) - set(MODES):
        raise UserError(f"episodes must be 1 or more and modes among {', '.join(MODES)}; got {episodes}, {modes}")
    opened = Run.open(run)
    check_fits(opened, task)
    seeds = list(seeds or opened.seeds)
    if guards:
        seeds = [seed for seed in seeds if (opened.policy_folder(seed) / layout.CALIBRATION).exists()]
        if not seeds:
            raise UserError(f"{run} has no calibration for the guard: run `lspc calibrate {run}` first")
    files.check_writable(opened.path)
    records: list[Record] = []
    with Pool(task, workers=workers, on_trouble=on_trouble) as pool:
        for cell in _cells(opened, seeds, variants, modes, restrictions, guards):
            if on_start:
                name = _row_name(cell.variant, cell.restriction, cell.guard)
                on_start(f"{name} {cell.mode}, seed {cell.seed}", episodes)
            policy = load_policy(run, seed=cell.seed, variant=cell.variant, restriction=cell.restriction)
            act = (
                policy.for_episodes(sampled=cell.mode == "sampled")
                if cell.guard is None
                else policy.guard.for_episodes(cell.guard)
            )
            rolled = pool.run(
                act,
                [first_seed + i for i in range(episodes)],
                on_episode=lambda _: on_episode() if on_episode else None,
            )
            intervened = None
            if cell.guard is not None:
                counted = policy.guard.interventions
                steps = counted.pop("steps")
                intervened = sum(counted.values()) / max(steps, 1)
            measured = _make_records(opened, task, cell, opened.config["steps"], rolled, intervened)
            opened.store_records(measured, records_file)  # at once: what was measured is kept whatever comes next
            records += measured
    return records


def evaluate_runs(
    runs: Sequence[str | Path],
    on: Sequence[str] = (),
    *,
    own: Mapping[str, Any] | None = None,
    budgets: Sequence[float] = (),
    dataset: Dataset | None = None,
    on_start: Callable[[str, int], None] | None = None,
    **options: Any,
) -> dict[str, list["Summary"]]:
    """Measure runs on the task they were trained for, or on each of the tasks `on`: the rows of a table for each.

    A name with a colon is an environment of the user's own (`lspc.sims.own`), and `own` the options for it; `budgets`
    are what costs are judged by, from now on.

    The data's own behaviour heads a table: of `dataset` or, unless it has moved, of the one the first run learned
    from. The other options are those of `evaluate`.
    """
    if not runs:
        raise UserError("name at least one run folder, such as runs/latest")
    opened = [Run.open(run) for run in runs]
    first = opened[0]
    for run in opened:
        if not on and run.task != first.task:
            raise UserError(
                f"{run.path} was trained for {run.task}, {first.path} for {first.task}: evaluate them one by one"
            )
    if any(budget < 0 for budget in budgets):
        raise UserError(f"budgets {' '.join(f'{budget:g}' for budget in budgets)}: a cost budget must be 0 or more")
    tasks = [first.find_task(name, budgets=budgets, **(own or {})) for name in on or [None]]
    tables: dict[str, list[Summary]] = {}
    for task in tasks:
        records: list[Record] = []
        for run in opened:

            def start(what: str, count: int, about: str = f"{run.name} on {task.name}") -> None:
                if on_start:
                    on_start(f"{about}: {what}", count)

            records += evaluate(run.path, task, on_start=start, **options)
            run.remember_budgets(budgets)
        # What the data's behaviour earned says nothing about another task.
        logged = dataset or (first.load_dataset() if first.task in (None, task.name) else None)
        rows = summarise(records, task, logged)
        tables[task.name] = [behaviour(logged, task), *rows] if logged else rows
    return tables


def _make_records(
    run: Run, task: Task, cell: "_Cell", updates: int, episodes: Iterable[Episode], intervened: float | None = None
) -> list[Record]:
    return [
        Record(
            run=run.name,
            task=task.name,
            trained_on=run.task,
            method=run.method,
            policy=policy_name(cell.variant, run.method, run.config),
            restriction=cell.restriction,
            guard=cell.guard,
            budget=run.config.get("budget"),
            mode=cell.mode,
            training_seed=cell.seed,
            updates=updates,
            dataset=run.dataset.fingerprint,
            config=files.content_hash(run.config),
            lspc_version=__version__,
            intervened=intervened,
            **episode._asdict(),
        )
        for episode in episodes
    ]


class Rollouts:
    """Measures policies while they are trained; `lspc.training.Interim` calls it."""

    def __init__(self, pool: Pool, task: Task, episodes: int) -> None:
        self._pool, self._task = pool, task
        self._seeds = [FIRST_EPISODE_SEED + i for i in range(episodes)]

    def __call__(self, run: Run, net: Policy, seed: int, updates: int) -> list[Record]:
        records: list[Record] = []
        for variant in net.variants:
            mode = usual_mode(variant)
            act = TrainedPolicy(net, variant, run.describe()).for_episodes(sampled=mode == "sampled")
            cell = _Cell(seed, variant, mode, None, None)
            records += _make_records(run, self._task, cell, updates, self._pool.run(act, self._seeds))
        return records


def check_fits(run: Run, task: Task) -> None:
    """Refuse a task in which the run's policies cannot act at all."""
    if isinstance(task, OwnTask):
        sims.make(task, pictures=False).close()  # it looks at the environment's own sizes
    for what in ("observation", "action"):
        trained, asked = getattr(run.spec, f"{what}_dim"), getattr(task, f"{what}_dim")
        if trained != asked:
            raise UserError(f"{run.path} was trained on {what}s of size {trained}, {task.name} has {asked}")


class _Cell(NamedTuple):
    seed: int
    variant: str
    mode: str
    restriction: float | None
    guard: float | None


def _cells(
    run: Run,
    seeds: Sequence[int],
    variants: Sequence[str] | None,
    modes: Sequence[str],
    restrictions: Sequence[float],
    guards: Sequence[float],
) -> list[_Cell]:
    """Everything to measure; only LSPC-O has an eps and a guard."""
    policies = variants or load_policy(run.path, seed=seeds[0]).net.variants
    cells = []
    for seed, variant, mode in product(seeds, policies, modes):
        searching = variant.endswith("LSPC-O")
        for restriction in restrictions if restrictions and searching else (None,):
            watched = guards if searching and mode == "deterministic" else ()
            cells += [_Cell(seed, variant, mode, restriction, guard) for guard in (None, *watched)]
    return cells


def _row_name(policy: str, restriction: float | None, guard: float | None) -> str:
    eps = "" if restriction is None else f", eps {restriction:g}"
    return policy + eps + ("" if guard is None else f", guard {guard:g}")


def usual_mode(policy: str) -> str:
    """How a policy acts in curves and figures: the CVAE's actions without noise would be LSPC-S's to the last bit."""
    return "sampled" if policy == "CVAE" else "deterministic"


def policy_name(variant: str, method: str, config: Mapping[str, Any]) -> str:
    """BC-Safe (10) for BC with a budget, and so for every method that is trained both with and without one."""
    budget = config.get("budget")
    both = budget is not None and algos.get(method).Config().budget is None
    return f"{variant}-Safe ({budget:g})" if both else variant


@dataclass(frozen=True)
class Summary:
    """One row of the table."""

    policy: str
    mode: str
    seeds: int
    episodes: int
    reward: Interval
    """Normalised reward."""
    cost: dict[float, Interval]
    """Normalised cost at each threshold."""
    average_cost: Interval
    """Normalised cost averaged over the thresholds, the figure of DSRL's tables: safe below 1."""
    raw_cost: Interval
    over_budget: dict[float, float]
    """Share of episodes whose cost exceeds the threshold."""
    reached: dict[float, float | None]
    """Normalised reward as a share of that of the data's best episode within the threshold."""


def summarise(records: Iterable[Record], task: Task, dataset: Dataset | None = None) -> list[Summary]:
    """One row for each policy and mode, in the order they were measured.

    Runs that differ in the seed alone are one policy; if they differ in more, the run's name tells the rows apart.
    """
    rows = group(records, lambda record: (_row_name(record.policy, record.restriction, record.guard), record.mode))
    summaries = []
    for (policy, mode), same in rows.items():
        settings = group(same, lambda record: (record.config, record.dataset))
        for alike in settings.values():
            name = policy if len(settings) == 1 else f"{policy}, {alike[0].run}"
            summaries.append(summarise_policy(name, mode, alike, task, dataset))
    return summaries


def summarise_policy(
    name: str, mode: str, records: Sequence[Record], task: Task, dataset: Dataset | None = None
) -> Summary:
    """The row of records that are known to be of one policy."""
    return _summary(name, mode, returns_by_seed(records, "reward"), returns_by_seed(records, "cost"), task, dataset)


def behaviour(dataset: Dataset, task: Task) -> Summary:
    """The same row for the data's own episodes: what the logged behaviour earned and cost."""
    return _summary("data", "logged", [dataset.returns], [dataset.cost_returns], task, dataset)


def _summary(policy: str, mode: str, returns: Sequence[np.ndarray], costs: Sequence[np.ndarray], task: Task,
             dataset: Dataset | None) -> Summary:  # fmt: skip
    """From the returns and costs of episodes, an array for each training seed."""
    at = {k: [normalised_cost(c, k) for c in costs] for k in task.thresholds}
    every = np.concatenate(costs)
    mean_return = float(np.mean([r.mean() for r in returns]))
    reached: dict[float, float | None] = dict.fromkeys(task.thresholds)
    if dataset is not None:
        for threshold in task.thresholds:
            inside = dataset.cost_returns <= threshold
            best = normalised_reward(task, float(dataset.returns[inside].max())) if inside.any() else 0.0
            reached[threshold] = normalised_reward(task, mean_return) / best if best > 0 else None
    return Summary(
        policy=policy,
        mode=mode,
        seeds=len(costs),
        episodes=len(every),
        reward=bootstrap([normalised_reward(task, r) for r in returns]),
        cost={k: bootstrap(groups) for k, groups in at.items()},
        average_cost=bootstrap([np.mean([at[k][i] for k in task.thresholds], axis=0) for i in range(len(costs))]),
        raw_cost=bootstrap(costs),
        over_budget={k: float((every > k).mean()) for k in task.thresholds},
        reached=reached,
    )
