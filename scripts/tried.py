"""What was tried for LSPC's default settings: variants on the same batches, one seed, as a Markdown table.

python scripts/tried.py      (needs runs/TASK/data.hdf5 from scripts/run.sh; records go to results/tried.json)
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lspc import algos, data, files
from lspc.algos import base, lspc
from lspc.evaluation import FIRST_EPISODE_SEED
from lspc.policy import TrainedPolicy
from lspc.sims.pool import Pool
from lspc.tasks import get_task, normalised_reward
from lspc.training.settings import resolve

TASKS = ("BallCircle", "BallRun")
STEPS, EPISODES = 2_500, 20
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "`--reference-share None`": {"reference_share": None},
    "`--safety-spend 1`": {"safety_spend": 1.0},
    "`--restriction 0.25`": {"restriction": 0.25},
}


def train(name: str) -> list[lspc.LspcPolicy]:
    """The policies of all variants after STEPS updates on the same batches, so that only the variant differs."""
    task, dataset = get_task(name), data.load(Path("runs") / name / "data.hdf5")
    spec, config = base.Spec.of(dataset), resolve(algos.get("lspc"), "cpu", task).config
    configs = [replace(config, **changes) for changes in VARIANTS.values()]
    states = [lspc.init(jax.random.key(0), spec, each) for each in configs]
    table = jnp.asarray(base.table(dataset, config))

    def update(states: list[lspc.State], step: jax.Array) -> tuple[list[lspc.State], None]:
        draw_key, update_key = jax.random.split(jax.random.fold_in(jax.random.key(1), step))
        batch = base.draw(table, draw_key, spec, config)
        return [lspc.update(state, batch, update_key)[0] for state in states], None

    states, _ = jax.jit(lambda states: jax.lax.scan(update, states, jnp.arange(STEPS)))(states)
    return [lspc.policy(state) for state in states]


def measure(pool: Pool, net: lspc.LspcPolicy) -> tuple[float, float]:
    policy = TrainedPolicy(net, "LSPC-O", {"spec": {"observation_dim": pool.task.observation_dim}})
    seeds = [FIRST_EPISODE_SEED + i for i in range(EPISODES)]
    episodes = pool.run(policy.for_episodes(sampled=False), seeds)
    reward = np.mean([normalised_reward(pool.task, e.reward_return) for e in episodes])
    return float(reward), float(np.mean([e.cost_return for e in episodes]))


def main() -> None:
    found: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in VARIANTS}
    for task in TASKS:
        with Pool(get_task(task)) as pool:
            for name, net in zip(VARIANTS, train(task), strict=True):
                found[name][task] = measure(pool, net)
    files.write_json(Path(__file__).parents[1] / "results" / "tried.json", found)
    print("| variant | " + " | ".join(TASKS) + " |\n|---|" + "---|" * len(TASKS))
    for name, cells in found.items():
        print(f"| {name} | " + " | ".join(f"{reward:.2f} / {cost:.1f}" for reward, cost in cells.values()) + " |")


if __name__ == "__main__":
    main()
