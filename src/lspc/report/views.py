"""One task on the page: its policies, their episodes, sweeps over eps, and the data."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lspc import data
from lspc.data import Dataset
from lspc.evaluation import Summary, behaviour, summarise_policy
from lspc.report.confidence import bound_cost, bound_reward
from lspc.runs import Record, Run
from lspc.runs.grouping import PolicyKey, group_by_policy
from lspc.runs.record import returns_by_seed
from lspc.tasks import DEFAULT_BUDGETS, Task, get_task, normalised_reward, thresholds_of
from lspc.tasks.own import OwnTask, is_own, make_own

DATA_POINTS = 4000
Part = dict[str, Any]


class Source:
    """A run that the page is made from; its records and data are read when first asked for."""

    def __init__(self, run: Run, given: Path | None = None) -> None:
        self.run, self.given = run, given

    @cached_property
    def records(self) -> list[Record]:
        return self.run.records()

    @cached_property
    def dataset(self) -> Dataset | None:
        return self.run.load_dataset(self.given)


def make_view(name: str | None, sources: Sequence[Source]) -> Part:
    """All that the page shows of one task."""
    head = sources[0].run if sources else None
    task = (head.find_task(name) if head else get_task(name)) if name else None
    thresholds = task.thresholds if task else head.budgets(None) if head else DEFAULT_BUDGETS
    dataset = next((source.dataset for source in sources if source.run.task in (None, name) and source.dataset), None)
    groups, own, conflicts = group_by_policy([(source.run, source.records) for source in sources], name)
    at_home = {key.family for key in own}
    shown = {key: group for key, group in groups.items() if key in own or key.family not in at_home}
    names, largest = name_rows(shown), largest_cost(task, sources)
    return {
        "task": name,
        "thresholds": thresholds,
        # DSRL's average over thresholds means something for DSRL's own alone.
        "averaged": name is not None and not is_own(name) and thresholds == thresholds_of(get_task(name)),
        "raw": task is None or isinstance(task, OwnTask),
        "largest": largest,
        "rows": [make_row(names[key], key, group, task, dataset, largest) for key, group in shown.items() if task],
        "sweeps": make_sweeps(groups, largest),
        "data": describe_data(dataset, task, thresholds, largest) if dataset else None,
        "profile": data.profile(dataset, thresholds) if dataset else None,
        "conflicts": conflicts,
    }


def largest_cost(task: Task | None, sources: Sequence[Source]) -> float:
    """What an episode may cost at most: its steps times the largest cost of a step in the data."""
    specs = [source.run.spec for source in sources]
    steps = task.episode_length if task else max((spec.longest_episode for spec in specs), default=1)
    return steps * max((spec.largest_cost for spec in specs if spec.largest_cost > 0), default=1.0)


def name_rows(groups: Mapping[PolicyKey, Sequence[Record]]) -> dict[PolicyKey, str]:
    """The policy's name and guard, with its eps or its run's name where several share it."""
    names = {}
    for key, records in groups.items():
        alike = [other for other in groups if other[:2] == key[:2]]
        several_eps = len({other.restriction for other in alike if other.family == key.family}) > 1
        several_runs = len({other.settings for other in alike}) > 1
        names[key] = key.policy
        names[key] += f", eps {key.restriction:g}" if several_eps and key.restriction is not None else ""
        names[key] += f", guard {key.guard:g}" if key.guard is not None else ""
        names[key] += f", {records[0].run}" if several_runs else ""
    return names


def make_row(
    name: str, key: PolicyKey, records: Sequence[Record], task: Task, dataset: Dataset | None, largest: float
) -> Part:
    """One policy of the table: raw and normalised figures, and its episodes as (cost, reward, training seed)."""
    costs, rewards = returns_by_seed(records, "cost"), returns_by_seed(records, "reward")
    return {
        **_figures(summarise_policy(name, key.mode, records, task, dataset), costs, rewards, task, largest),
        "name": name,
        "policy": key.policy,
        "settings": key.settings,
        "restriction": key.restriction,
        "points": [[record.cost_return, record.reward_return, record.training_seed] for record in records],
    }


def _figures(
    summary: Summary, costs: Sequence[np.ndarray], rewards: Sequence[np.ndarray], task: Task, largest: float
) -> Part:
    return {
        "mode": summary.mode,
        "seeds": summary.seeds,
        "episodes": summary.episodes,
        "reward": vars(bound_reward([normalised_reward(task, each) for each in rewards])),
        "raw_reward": vars(bound_reward(rewards)),
        "cost": vars(bound_cost(costs, largest)),
        "average_cost": vars(summary.average_cost),
    }


def make_sweeps(groups: Mapping[PolicyKey, Sequence[Record]], largest: float) -> list[Part]:
    """For each policy that was measured with several eps: reward and cost at each."""
    families: dict[tuple[str, str, str], dict[float, Sequence[Record]]] = {}
    for key, records in groups.items():
        if key.restriction is not None and key.guard is None:
            families.setdefault(key[:3], {})[key.restriction] = records
    return [
        {
            "policy": policy,
            "mode": mode,
            "settings": settings,
            "points": [
                {
                    "restriction": eps,
                    "episodes": len(records),
                    "reward": vars(bound_reward(returns_by_seed(records, "reward"))),
                    "cost": vars(bound_cost(returns_by_seed(records, "cost"), largest)),
                    "costs": [record.cost_return for record in records],
                }
                for eps, records in sorted(family.items())
            ],
        }
        for (policy, mode, settings), family in families.items()
        if len(family) > 1
    ]


def describe_data(dataset: Dataset, task: Task | None, budgets: Sequence[float], largest: float) -> Part:
    """The data's episodes as (cost, reward), the best of them for every budget, and their row of the table."""
    episodes = np.stack([dataset.cost_returns, dataset.returns], axis=1)
    by_cost = episodes[np.lexsort((-episodes[:, 1], episodes[:, 0]))]
    best = np.maximum.accumulate(by_cost[:, 1])
    rises = np.flatnonzero(np.diff(best, prepend=-np.inf) > 0)
    chosen = np.linspace(0, len(episodes) - 1, min(len(episodes), DATA_POINTS)).astype(int)
    # Without a task there is no scale of rewards; an environment of one's own has none either.
    task = task or make_own(
        "data", observation_dim=dataset.observation_dim, action_dim=dataset.action_dim,
        horizon=int(dataset.lengths.max()), budgets=budgets,
    )  # fmt: skip
    figures = _figures(behaviour(dataset, task), [dataset.cost_returns], [dataset.returns], task, largest)
    return {
        "points": episodes[chosen],
        "best": by_cost[rises],
        "costs": _histogram(dataset.cost_returns),
        "row": {**figures, "name": "data"},
        "range": [task.reward_min, task.reward_max],
    }


def _histogram(costs: np.ndarray) -> Part:
    # Bars of whole width: most costs are counts, and a fractional width would draw false stripes.
    width = max(1.0, math.ceil(float(costs.max()) / 40))
    counts, _ = np.histogram(costs, np.arange(0.0, float(costs.max()) + 2 * width, width))
    return {"width": width, "counts": counts}
