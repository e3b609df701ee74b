"""An episode of MetaDrive as one number, to compare it with that of another process."""

import hashlib

import numpy as np

from lspc.sims.metadrive import IDMDriver, MetaDriveSimulator
from lspc.tasks import get_task


def driven(simulator: MetaDriveSimulator, seed: int | None, steps: int) -> tuple[list[bytes], list[np.ndarray]]:
    """What our car saw and got with MetaDrive's driver at the wheel, as bytes, and the actions."""
    seen, actions = [simulator.reset(seed).tobytes()], []
    driver = IDMDriver(simulator, np.random.default_rng(3), noise=0.05)
    for _ in range(steps):
        actions.append(driver.act())
        step = simulator.step(actions[-1])
        seen.append(step.observation.tobytes() + np.array([step.reward, step.cost]).tobytes())
    return seen, actions


def digest(name: str) -> str:
    """Of an episode with a seed and the next one without."""
    simulator = MetaDriveSimulator(get_task(name), pictures=False)
    seen = driven(simulator, 11, 80)[0] + driven(simulator, None, 80)[0]
    simulator.close()
    return hashlib.sha256(b"".join(seen)).hexdigest()
