"""What the adapters share: legal seeds and actions, random streams of their own, suppressing output."""

import ctypes
import os
import random
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lspc.errors import UserError
from lspc.tasks import Task

MAX_SEED = 2**32 - 1


def legal_seed(task: Task, seed: int) -> int:
    if not 0 <= seed <= MAX_SEED:
        raise UserError(f"{task.name} was given the seed {seed}; use one from 0 to {MAX_SEED}")
    return int(seed)  # pyrefly: ignore [unnecessary-type-conversion] (NumPy's integers are let in)


def random_seed() -> int:
    """For a simulator that was never given one."""
    return int.from_bytes(os.urandom(4), "little")


def legal_action(task: Task, action: np.ndarray) -> np.ndarray:
    """The action as float32, clipped to [-1, 1]; a wrong shape or NaN is refused."""
    action = np.asarray(action, np.float32)
    if action.shape != (task.action_dim,):
        raise UserError(f"{task.name} takes actions of shape ({task.action_dim},), not {action.shape}")
    if np.isnan(action).any():
        raise UserError(f"{task.name} was given the action {action.tolist()}: NaN is not an action")
    return np.clip(action, -1.0, 1.0)


class OwnGenerators:
    """Inside `with`, the global `numpy.random` and `random` are streams of this object's own.

    Outside they are what they were: a world that draws from the globals neither disturbs nor hears the process.
    """

    def __init__(self, seed: int) -> None:
        # What `numpy.random.seed(seed)` and `random.seed(seed)` would leave behind.
        self._own = np.random.RandomState(seed).get_state(), random.Random(seed).getstate()

    def __enter__(self) -> None:
        self._process = _generator_states()
        _set_generators(self._own)

    def __exit__(self, *_: object) -> None:
        self._own = _generator_states()
        _set_generators(self._process)


def _generator_states() -> tuple[Any, Any]:
    return np.random.get_state(), random.getstate()  # noqa: NPY002 (the worlds use the global one)


def _set_generators(states: tuple[Any, Any]) -> None:
    np.random.set_state(states[0])  # noqa: NPY002
    random.setstate(states[1])


@contextmanager
def suppress_output() -> Generator[None]:
    """Send file descriptors 1 and 2 to nowhere: C code prints past `sys.stdout`."""
    flush_c_streams = ctypes.CDLL(None).fflush

    def flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        flush_c_streams(None)

    flush()
    kept = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for descriptor in (*kept, nowhere):
            os.close(descriptor)
