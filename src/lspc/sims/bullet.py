"""Bullet Safety Gym behind our contract: eight tasks, repeatable episodes, pictures without a screen.

Its worlds draw from the global `numpy.random` and `random`, so each simulator here keeps generator states of
its own and swaps them in only while a world is built or reset. (Stepping draws nothing; a test watches that.)
"""

import ctypes
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cache
from typing import Any

import numpy as np

from lspc.errors import UserError
from lspc.sims import Step
from lspc.tasks import Task

MAX_SEED = 2**32 - 1


class BulletSimulator:
    def __init__(self, task: Task, pictures: bool = True) -> None:
        self.task = task
        self.pictures = pictures
        self._world: Any = None
        self._steps = 0
        self._generator_states = _generator_states(int.from_bytes(os.urandom(4), "little"))

    def reset(self, seed: int | None = None) -> np.ndarray:
        if seed is not None:
            if not 0 <= seed <= MAX_SEED:
                raise UserError(f"{self.task.name} was given the seed {seed}; use one from 0 to {MAX_SEED}")
            # A world that has run before does not return to exactly the same state, a fresh one does.
            self.close()
            self._generator_states = _generator_states(seed)
        with self._own_generators():
            if self._world is None:
                self._world = _build(self.task, self.pictures)
            observation, _ = self._world.reset()
        self._steps = 0
        return np.asarray(observation, np.float32)

    def step(self, action: np.ndarray) -> Step:
        action = np.asarray(action, np.float32)
        if action.shape != (self.task.action_dim,):
            raise UserError(f"{self.task.name} takes actions of shape ({self.task.action_dim},), not {action.shape}")
        if np.isnan(action).any():
            raise UserError(f"{self.task.name} was given the action {action.tolist()}: NaN is no action")
        observation, reward, terminated, _, info = self._running().step(np.clip(action, -1.0, 1.0))
        self._steps += 1
        return Step(
            observation=np.asarray(observation, np.float32),
            reward=float(reward),
            cost=float(info["cost"]),
            terminated=bool(terminated),
            truncated=not terminated and self._steps >= self.task.episode_length,
        )

    def render(self) -> np.ndarray:
        if not self.pictures:
            raise UserError(f"this {self.task.name} simulator was made without pictures: use make(pictures=True)")
        return np.asarray(self._running().render(mode="rgb_array"), np.uint8)

    def close(self) -> None:
        if self._world is not None:
            self._world.close()
            self._world = None

    def _running(self) -> Any:
        if self._world is None:
            raise UserError(f"the {self.task.name} simulator has no episode yet: call reset() first")
        return self._world

    @contextmanager
    def _own_generators(self) -> Iterator[None]:
        """Run a block on this simulator's random streams, leaving the process's streams as they were."""
        process_states = np.random.get_state(), random.getstate()  # noqa: NPY002 (the worlds use the global one)
        _set_generators(self._generator_states)
        try:
            yield
        finally:
            self._generator_states = np.random.get_state(), random.getstate()  # noqa: NPY002
            _set_generators(process_states)


def _generator_states(seed: int) -> tuple[Any, Any]:
    """What `numpy.random.seed(seed)` and `random.seed(seed)` would leave behind."""
    return np.random.RandomState(seed).get_state(), random.Random(seed).getstate()


def _set_generators(states: tuple[Any, Any]) -> None:
    np.random.set_state(states[0])  # noqa: NPY002
    random.setstate(states[1])


def _build(task: Task, pictures: bool) -> Any:
    """The bare world, without gymnasium's wrappers, which would warn and count steps as we do."""
    builder = _builder()
    import gymnasium

    world = builder.EnvironmentBuilder if pictures else _world_without_looks()
    return world(**gymnasium.spec(f"Safety{task.name}-v0").kwargs)


@cache
def _world_without_looks() -> Any:
    """The same world with the meshes nobody sees left out: a drone is built in 20 ms instead of 350."""
    builder = _builder()

    class WorldWithoutLooks(builder.EnvironmentBuilder):
        def _setup_client_and_physics(self, graphics: bool = False) -> Any:
            client = super()._setup_client_and_physics(graphics)
            load, no_looks = client.loadURDF, client.URDF_IGNORE_VISUAL_SHAPES
            client.loadURDF = lambda *args, flags=0, **kwargs: load(*args, flags=flags | no_looks, **kwargs)
            return client

    return WorldWithoutLooks


@cache
def _builder() -> Any:
    """Import the package once, silently, with its own stream juggling replaced by ours."""
    # On import it asks the standard error stream for a file descriptor, which notebooks and pytest lack.
    with _silence(), redirect_stderr(sys.__stderr__):
        import bullet_safety_gym  # noqa: F401 (registers the worlds' settings)
        from bullet_safety_gym.envs import builder
    # The same for the standard output whenever a world connects: C code prints an empty "argv[0]=" then.
    builder.RedirectStream = lambda stream: _silence()
    return builder


@contextmanager
def _silence() -> Iterator[None]:
    """Send file descriptors 1 and 2 to nowhere: pybullet's banner comes from C, past `sys.stdout`."""
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
