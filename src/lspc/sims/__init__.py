"""The simulators behind one contract: `make("BallCircle")` gives a world to reset, step, draw and close.

Only the adapter that is asked for is imported, so this module costs nothing where no simulator is installed.
"""

from importlib.util import find_spec
from typing import NamedTuple, Protocol

import numpy as np

from lspc.errors import UserError
from lspc.tasks import Task, get_task

PACKAGES = {
    "bullet": ("bullet_safety_gym", "pybullet"),
    "safety_gymnasium": ("safety_gymnasium", "mujoco"),
    "metadrive": ("metadrive", "panda3d", "pygame"),
}
"""The packages (by import name) each suite of tasks runs on."""

ONE_WORLD_PER_PROCESS = ("metadrive",)
"""Suites whose engine holds one world at a time."""


class Step(NamedTuple):
    observation: np.ndarray
    reward: float
    cost: float
    terminated: bool
    truncated: bool


class Simulator(Protocol):
    """One world with one agent. Observations are float32 vectors; actions are clipped to [-1, 1]."""

    def __init__(self, task: Task, pictures: bool = True) -> None: ...

    def reset(self, seed: int | None = None) -> np.ndarray:
        """Start an episode and return its first observation.

        With a seed the episode is repeatable bit for bit, whatever else ran or runs in this process. Without
        one it goes on with this simulator's own random stream, which is cheaper: no world is built anew.
        """
        ...

    def step(self, action: np.ndarray) -> Step: ...

    def render(self) -> np.ndarray:
        """The scene as an RGB picture: uint8 of shape (height, width, 3)."""
        ...

    def close(self) -> None: ...


def installed(task: Task | str) -> bool:
    """Whether the packages this task runs on are here; looks without importing them."""
    return all(find_spec(package) is not None for package in PACKAGES[_task(task).suite])


def make(task: Task | str, *, pictures: bool = True) -> Simulator:
    """A simulator for this task. Without `pictures` it cannot render, but may be built much faster."""
    task = _task(task)
    missing = [package for package in PACKAGES[task.suite] if find_spec(package) is None]
    if missing:
        raise UserError(f"{task.name} needs {' and '.join(missing)}, which is missing: `lspc doctor` names the cure")
    try:
        return _adapter(task.suite)(task, pictures)
    except ImportError as error:
        told = f"the simulator of {task.name} does not start ({error}): `lspc doctor` names the cure"
        raise UserError(told) from error


def _adapter(suite: str) -> type[Simulator]:
    if suite == "bullet":
        from lspc.sims.bullet import BulletSimulator

        return BulletSimulator
    if suite == "safety_gymnasium":
        from lspc.sims.safety_gymnasium import SafetyGymnasiumSimulator

        return SafetyGymnasiumSimulator
    from lspc.sims.metadrive import MetaDriveSimulator

    return MetaDriveSimulator


def _task(task: Task | str) -> Task:
    return get_task(task) if isinstance(task, str) else task
