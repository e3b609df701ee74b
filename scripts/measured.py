"""LSPC-S, and LSPC-O at several eps, in the simulator: mean reward and cost of an episode per training seed."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from lspc import evaluation
from lspc.tasks import Task


def measure(run: Path, task: Task, episodes: int, restrictions: tuple[float, ...]) -> list[dict[str, Any]]:
    records = evaluation.evaluate(
        run, task, episodes=episodes, variants=("LSPC-S", "LSPC-O"), modes=("deterministic",),
        restrictions=restrictions, first_seed=1000,
    )  # fmt: skip
    rows = []
    for (seed, policy, eps), found in groupby(records, lambda r: (r.training_seed, r.policy, r.restriction)):
        returns = np.mean([(record.reward_return, record.cost_return) for record in found], axis=0)
        reward, cost = (round(float(value), 2) for value in returns)
        rows.append({"seed": seed, "policy": policy, "eps": eps, "reward": reward, "cost": cost})
    return rows
