"""MetaDrive's own driver in many manners: most of the population there, where a learner would need far more steps."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lspc.sims.collect.episodes import Recorder, record_episode
from lspc.sims.collect.population import AgentSpec
from lspc.sims.metadrive import ROAD_COUNT, IDMDriver, MetaDriveSimulator
from lspc.tasks import get_task

SPEEDS = (6, 13), (13, 26), (26, 60)
"""Kilometres per hour of careful, hurried and racing drivers."""


def drive(spec: AgentSpec, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, np.ndarray]:
    """Episodes of MetaDrive's own driver, each in another manner: from a crawl to reckless, on roads 0 to 9.

    Half of them are on road 0, the one that policies are evaluated on; DSRL's data come from all ten.
    """
    task, rng, recorder = get_task(spec.task), np.random.default_rng(spec.seed), Recorder(1)
    taken = 0
    while taken < spec.steps:
        road = 0 if rng.random() < 0.5 else int(rng.integers(1, ROAD_COUNT))
        simulator = MetaDriveSimulator(task, pictures=False, road_number=road)
        observation = simulator.reset(int(rng.integers(2**31)))
        driver = IDMDriver(
            simulator,
            rng,
            # Ten km/h cost nothing: half of the drivers keep near it, and one in ten races.
            target_speed=float(rng.uniform(*SPEEDS[rng.choice(len(SPEEDS), p=(0.5, 0.4, 0.1))])),
            acceleration=float(rng.choice([0.3, 0.6, 1.2, 2.4])),
            lane_changes=rng.random() < 0.5,
            brakes=rng.random() < 0.7,
            noise=float(rng.choice([0.02, 0.1, 0.2, 0.3])),
        )
        episode = record_episode(simulator, observation, lambda _: driver.act(), recorder)  # noqa: B023
        taken += episode.steps
        simulator.close()
        on_progress({"steps": min(taken, spec.steps), "reward": episode.reward, "cost": episode.cost})
    return recorder.arrays()
