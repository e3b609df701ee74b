"""How LSPC-S should draw its latent: each form and width on the finished cpu runs, as a Markdown table.

python results/latents.py      (needs runs/TASK/lspc from results/run.sh)
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from lspc import files
from lspc.algos.lspc import LspcPolicy
from lspc.policy import TrainedPolicy, load_policy
from lspc.sims.pool import Pool
from lspc.tasks import get_task, normalised_reward

TASKS = ("BallCircle", "BallRun", "CarRun", "CarCircle")
EPISODES = 20


def measure(run: Path, task_name: str, form: str, restriction: float) -> dict[str, object]:
    trained, task = load_policy(run, seed=0, variant="LSPC-S"), get_task(task_name)
    net = trained.net
    assert isinstance(net, LspcPolicy)
    config = replace(net.config, latent_form=form, safe_restriction=restriction)
    policy = TrainedPolicy(LspcPolicy(net.decoder, net.encoder, net.normaliser, config), "LSPC-S", trained.card)
    with Pool(task) as pool:
        episodes = pool.run(policy.for_episodes(sampled=True), [1_000_000 + i for i in range(EPISODES)])
    reward = float(np.mean([normalised_reward(task, e.reward_return) for e in episodes]))
    cost = float(np.mean([e.cost_return for e in episodes]))
    return {"task": task_name, "form": form, "restriction": restriction, "reward": reward, "cost": cost}


def main() -> None:
    rows = [
        measure(Path("runs") / task / "lspc", task, form, restriction)
        for form in ("clamp", "tanh", "truncated")
        for restriction in (0.25, 0.6)
        for task in TASKS
    ]
    files.write_json(Path(__file__).parent / "latents.json", rows)
    print("| LSPC-S draws | eps | " + " | ".join(TASKS) + " |\n|---|---|" + "---|" * len(TASKS))
    for i in range(0, len(rows), len(TASKS)):
        cells = " | ".join(f"{row['reward']:.2f} / {row['cost']:.1f}" for row in rows[i : i + len(TASKS)])
        print(f"| {rows[i]['form']} | {rows[i]['restriction']} | {cells} |")


if __name__ == "__main__":
    main()
