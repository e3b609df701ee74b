"""Bullet Safety Gym behind our contract: eight tasks, repeatable episodes, pictures without a screen.

Its worlds draw from the global `numpy.random` and `random`, so each simulator here keeps generator states of
its own and swaps them in only while a world is built or reset. (Stepping draws nothing; a test watches that.)
"""

import sys
from contextlib import redirect_stderr
from functools import cache
from typing import Any

import numpy as np

from lspc.errors import UserError
from lspc.sims import Step
from lspc.sims.shared import OwnGenerators, legal_action, legal_seed, random_seed, suppress_output
from lspc.tasks import Task


class BulletSimulator:
    def __init__(self, task: Task, pictures: bool = True) -> None:
        self.task = task
        self.pictures = pictures
        self._world: Any = None
        self._steps = 0
        self._generators = OwnGenerators(random_seed())

    def reset(self, seed: int | None = None) -> np.ndarray:
        if seed is not None:
            self._generators = OwnGenerators(legal_seed(self.task, seed))
            # A world that has run before does not return to exactly the same state, a fresh one does.
            self.close()
        with self._generators:
            if self._world is None:
                self._world = _build(self.task, self.pictures)
            observation, _ = self._world.reset()
        self._steps = 0
        return np.asarray(observation, np.float32)

    def step(self, action: np.ndarray) -> Step:
        observation, reward, terminated, _, info = self._running().step(legal_action(self.task, action))
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


def _build(task: Task, pictures: bool) -> Any:
    """The bare world, without gymnasium's wrappers, which would warn and count steps as we do."""
    builder = _builder()
    import gymnasium

    settings = gymnasium.spec(f"Safety{task.name}-v0").kwargs
    if not pictures:
        return _world_without_looks()(**settings)
    world = builder.EnvironmentBuilder(**settings)
    # The sphere that feels contacts is meant to be invisible, but a renderer without transparency draws it over
    # the agent; only with no opacity at all is it left out.
    world.bc.changeVisualShape(world.agent.violation_body_id, -1, rgbaColor=(0, 0, 0, 0))
    return world


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
    with suppress_output(), redirect_stderr(sys.__stderr__):
        import bullet_safety_gym  # noqa: F401 (registers the worlds' settings)
        from bullet_safety_gym.envs import builder
    # The same for the standard output whenever a world connects: C code prints an empty "argv[0]=" then.
    builder.RedirectStream = lambda stream: suppress_output()  # pyrefly: ignore [bad-assignment]
    return builder
