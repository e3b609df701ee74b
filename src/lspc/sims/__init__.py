"""The simulators behind one contract: `make("BallCircle")` gives a world to reset, step, draw and close.

Only the adapter that is asked for is imported, so this module costs nothing where no simulator is installed.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import numpy as np

from lspc.errors import UserError
from lspc.tasks import SUITES, Suite, Task, get_task
from lspc.tasks.own import OwnTask


class Step(NamedTuple):
    observation: np.ndarray
    reward: float
    cost: float
    terminated: bool
    truncated: bool


class Simulator(Protocol):
    """One world with one agent. Observations are float32 vectors; actions are clipped to [-1, 1].

    A user's own environment (`own.py`) takes actions in its own units and clips them to its own bounds.
    """

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


def is_installed(task: Task | str) -> bool:
    """Whether the packages this task runs on are here; looks without importing them."""
    return not missing_packages(SUITES[_task(task).suite])


def make(task: Task | str, *, pictures: bool = True) -> Simulator:
    """A simulator for this task. Without `pictures` it cannot render, but may be built much faster."""
    task = _task(task)
    if isinstance(task, OwnTask):
        from lspc.sims.own import OwnSimulator

        return OwnSimulator(task, pictures)
    suite = SUITES[task.suite]
    if missing := missing_packages(suite):
        raise UserError(f"{task.name} needs {' and '.join(missing)} (not installed): `lspc doctor` says what to do")
    try:
        return _adapter(suite)(task, pictures)
    except ImportError as error:
        told = f"the simulator of {task.name} does not start ({error}): `lspc doctor` says how to install it"
        raise UserError(told) from error


def missing_packages(suite: Suite) -> list[str]:
    """What a suite's simulator needs and is not here, by import name."""
    return [package for package in suite.packages if find_spec(package) is None]


def _adapter(suite: Suite) -> type[Simulator]:
    module, _, name = suite.adapter.partition(":")
    return getattr(import_module(module), name)


def _task(task: Task | str) -> Task:
    return get_task(task) if isinstance(task, str) else task
