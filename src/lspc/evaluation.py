"""Measuring policies in the simulator by DSRL's protocol: raw episodes first, every figure computed from them.

Twenty episodes per training seed, reward normalised by the task's bounds, cost by each of the suite's three
thresholds, intervals by a bootstrap that draws seeds and then episodes within them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lspc import calibration, files
from lspc.algos.base import Policy
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy, policy_folder
from lspc.sims.pool import Pool
from lspc.tasks import Task, normalised_cost, normalised_reward
from lspc.version import __version__

FIRST_EPISODE_SEED = 1_000_000
"""Evaluation episodes are numbered from here, far from the seeds that collected data may have used."""
RECORDS = "evaluations.jsonl"
MODES = ("deterministic", "sampled")
Record = dict[str, Any]


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
    records_file: str = RECORDS,
    workers: int | None = None,
    first_seed: int = FIRST_EPISODE_SEED,
    on_start: Callable[[str, int], None] | None = None,
    on_episode: Callable[[], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
) -> list[Record]:
    """Roll out every policy of a finished run; the records replace those of the same policies in the run's folder.

    `restrictions` are the eps to measure LSPC-O with, in place of the run's own; each of `guards` a budget to measure
    it with under the guard as well (deterministic actions, calibrated seeds only); `seeds` are all unless given.
    """
    run = Path(run)
    if episodes < 1 or not modes or set(modes) - set(MODES):
        raise UserError(f"episodes must be 1 or more and modes among {', '.join(MODES)}; got {episodes}, {modes}")
    description = check_fits(run, task)
    seeds = list(seeds or description["seeds"])
    if guards:
        seeds = [seed for seed in seeds if (policy_folder(run, seed) / calibration.FILE).exists()]
        if not seeds:
            raise UserError(f"{run} has no calibration for the guard: run `lspc calibrate {run}` first")
    records: list[Record] = []
    with Pool(task, workers=workers, on_trouble=on_trouble) as pool:
        for cell in _cells(run, seeds, variants, modes, restrictions, guards):
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
            identity = _identity(run, description, task, cell, description["config"]["steps"])
            if cell.guard is not None:
                counted = policy.guard.interventions
                identity["intervened"] = (counted["too_costly"] + counted["unfamiliar"]) / max(counted["steps"], 1)
            records += [{**identity, **episode._asdict()} for episode in rolled]
    _store(run / records_file, records)
    return records


def _identity(run: Path, description: dict[str, Any], task: Task, cell: "_Cell", updates: int) -> Record:
    """What tells a record's policy from every other."""
    return {
        "run": run.resolve().name,
        "task": task.name,
        "trained_on": description["task"],
        "method": description["method"],
        "policy": policy_name(cell.variant, description["config"]),
        "restriction": cell.restriction,
        "guard": cell.guard,
        "mode": cell.mode,
        "training_seed": cell.seed,
        "updates": updates,
        "dataset": description["dataset"]["fingerprint"],
        "config": files.content_hash(description["config"]),
        "lspc_version": __version__,
    }


class Rollouts:
    """Measures policies while they are trained; `lspc.training.Interim` calls it."""

    def __init__(self, pool: Pool, task: Task, episodes: int) -> None:
        self._pool, self._task = pool, task
        self._seeds = [FIRST_EPISODE_SEED + i for i in range(episodes)]

    def __call__(self, run: Path, description: dict[str, Any], net: Policy, seed: int, updates: int) -> list[Record]:
        records: list[Record] = []
        for variant in net.variants:
            mode = usual_mode(variant)
            act = TrainedPolicy(net, variant, description).for_episodes(sampled=mode == "sampled")
            cell = _Cell(seed, variant, mode, None, None)
            identity = _identity(run, description, self._task, cell, updates)
            records += [{**identity, **episode._asdict()} for episode in self._pool.run(act, self._seeds)]
        return records


def check_fits(run: Path, task: Task) -> dict[str, Any]:
    """The run's description, if its policies can act in this task at all."""
    description = files.read_run(run)
    for what in ("observation", "action"):
        trained, asked = description["spec"][f"{what}_dim"], getattr(task, f"{what}_dim")
        if trained != asked:
            raise UserError(f"{run} was trained on {what}s of size {trained}, {task.name} has {asked}")
    return description


class _Cell(NamedTuple):
    seed: int
    variant: str
    mode: str
    restriction: float | None
    guard: float | None


def _cells(
    run: Path,
    seeds: Sequence[int],
    variants: Sequence[str] | None,
    modes: Sequence[str],
    restrictions: Sequence[float],
    guards: Sequence[float],
) -> list[_Cell]:
    """Everything to measure; only LSPC-O has an eps and a guard."""
    policies = variants or load_policy(run, seed=seeds[0]).net.variants
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


def policy_name(variant: str, config: dict[str, Any]) -> str:
    return f"BC-Safe ({config['budget']:g})" if variant == "BC" and config.get("budget") is not None else variant


def _store(path: Path, records: list[Record]) -> None:
    """Replace what was measured before for the same policy, keep the rest."""

    def cell(record: Record) -> tuple[Any, ...]:
        return tuple(record.get(k) for k in ("task", "policy", "restriction", "guard", "mode", "training_seed"))

    measured = {cell(record) for record in records}
    kept = [r for r in files.read_jsonl(path) if cell(r) not in measured] if path.exists() else []
    files.write_jsonl(path, kept + records)


@dataclass(frozen=True)
class Interval:
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """One row of the table."""

    policy: str
    mode: str
    seeds: int
    episodes: int
    reward: Interval
    """Normalised reward."""
    cost: dict[int, Interval]
    """Normalised cost at each threshold."""
    average_cost: Interval
    """Normalised cost averaged over the thresholds, the figure of DSRL's tables: safe below 1."""
    raw_cost: Interval
    over_budget: dict[int, float]
    """Share of episodes whose cost exceeds the threshold."""
    reached: dict[int, float | None]
    """Normalised reward as a share of that of the data's best episode within the threshold."""


def bootstrap(groups: Sequence[np.ndarray], draws: int = 2000, seed: int = 0) -> Interval:
    """Mean and 95 % interval, drawing seeds first and episodes within each."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(groups), size=(draws, len(groups)))
    means = np.empty(chosen.shape)
    for number, group in enumerate(groups):
        places = chosen == number
        means[places] = group[rng.integers(len(group), size=(places.sum(), len(group)))].mean(axis=1)
    low, high = np.percentile(means.mean(axis=1), [2.5, 97.5])
    return Interval(float(np.mean([g.mean() for g in groups])), float(low), float(high))


def summarise(records: Iterable[Record], task: Task, dataset: Dataset | None = None) -> list[Summary]:
    """One row for each policy and mode, in the order they were measured.

    Runs that differ in the seed alone are one policy; if they differ in more, the run's name tells the rows apart.
    """
    rows: dict[tuple[str, str], dict[tuple[str, str], list[Record]]] = {}
    for record in records:
        name = _row_name(record["policy"], record.get("restriction"), record.get("guard"))
        same = rows.setdefault((name, record["mode"]), {})
        same.setdefault((record["config"], record["dataset"]), []).append(record)
    summaries = []
    for (policy, mode), settings in rows.items():
        for alike in settings.values():
            seeds: dict[int, list[tuple[float, float]]] = {}
            for record in alike:
                pair = record["reward_return"], record["cost_return"]
                seeds.setdefault(record["training_seed"], []).append(pair)
            name = policy if len(settings) == 1 else f"{policy}, {alike[0]['run']}"
            summaries.append(_summary(name, mode, seeds, task, dataset))
    return summaries


def behaviour(dataset: Dataset, task: Task) -> Summary:
    """The same row for the data's own episodes: what the logged behaviour earned and cost."""
    pairs = list(zip(dataset.returns.tolist(), dataset.cost_returns.tolist(), strict=True))
    return _summary("data", "logged", {0: pairs}, task, dataset)


def _summary(policy: str, mode: str, seeds: dict[int, list[tuple[float, float]]], task: Task,
             dataset: Dataset | None) -> Summary:  # fmt: skip
    returns = [np.array([reward for reward, _ in pairs]) for pairs in seeds.values()]
    costs = [np.array([cost for _, cost in pairs]) for pairs in seeds.values()]
    at = {k: [normalised_cost(c, k) for c in costs] for k in task.thresholds}
    every = np.concatenate(costs)
    mean_return = float(np.mean([r.mean() for r in returns]))
    reached: dict[int, float | None] = dict.fromkeys(task.thresholds)
    if dataset is not None:
        for threshold in task.thresholds:
            inside = dataset.cost_returns <= threshold
            best = normalised_reward(task, float(dataset.returns[inside].max())) if inside.any() else 0.0
            reached[threshold] = normalised_reward(task, mean_return) / best if best > 0 else None
    return Summary(
        policy=policy,
        mode=mode,
        seeds=len(seeds),
        episodes=len(every),
        reward=bootstrap([normalised_reward(task, r) for r in returns]),
        cost={k: bootstrap(groups) for k, groups in at.items()},
        average_cost=bootstrap([np.mean([at[k][i] for k in task.thresholds], axis=0) for i in range(len(costs))]),
        raw_cost=bootstrap(costs),
        over_budget={k: float((every > k).mean()) for k in task.thresholds},
        reached=reached,
    )
