"""MetaDrive behind our contract: three roads with three densities of traffic, DSRL's costs, repeatable episodes."""

import logging
import sys
import weakref
from collections.abc import Callable
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from lspc.errors import UserError
from lspc.sims import Step
from lspc.sims.gym_stand_in import stand_ins
from lspc.sims.shared import OwnGenerators, legal_action, legal_seed, random_seed, silence
from lspc.tasks import Task, get_task


class Road(NamedTuple):
    blocks: str
    start_seed: int


ROADS = {"easy": Road("SCS", 0), "medium": Road("XST", 100), "hard": Road("TRO", 200)}
TRAFFIC = {"sparse": 0.1, "mean": 0.15, "dense": 0.2}
LIDAR_RAYS = 240


class MetaDriveSimulator:
    def __init__(self, task: Task, pictures: bool = True) -> None:
        self.task = task
        self.pictures = pictures
        self._package = _package()
        self._world: Any = None
        self._end_world: Callable[[], object] = lambda: None
        self._steps = 0
        self._generators = OwnGenerators(random_seed())

    def reset(self, seed: int | None = None) -> np.ndarray:
        if seed is not None:
            self._generators = OwnGenerators(legal_seed(self.task, seed))
            self.close()
        with self._generators:
            if self._world is None:
                self._build()
            observation = self._world.reset()
        self._steps = 0
        return np.asarray(observation, np.float32)

    def step(self, action: np.ndarray) -> Step:
        world = self._running()
        observation, reward, _, info = world.step(legal_action(self.task, action).tolist())
        self._steps += 1
        terminated = info["arrive_dest"] or info["crash"] or info["out_of_road"]
        return Step(
            observation=np.asarray(observation, np.float32),
            reward=float(reward),
            cost=float(info["cost"] + driving_cost(info["velocity"], observation)),
            terminated=bool(terminated),
            truncated=not terminated and self._steps >= self.task.episode_length,
        )

    def close(self) -> None:
        self._end_world()
        self._world = None

    def _build(self) -> None:
        package = self._package
        if package.engine_initialized():
            raise UserError("one")
        self._end_world = weakref.finalize(self, package.close_engine)
        world = package.Env(settings(self.task))
        world.lazy_init()
        world.engine.traffic_manager.np_random = np.random.RandomState(np.random.randint(2**32))
        self._world = world

    def _running(self) -> Any:
        if self._world is None:
            raise UserError(f"the {self.task.name} simulator has no episode yet: call reset() first")
        return self._world

def driving_cost(v, observation):
    return max(0.0, 0.01 * (v - 10)) + 0.01 * max(0.0, 0.1 - observation[-LIDAR_RAYS:].min()) ** 2


def settings(task):
    for r in ROADS:
        if task.name.startswith(r):
            road=ROADS[r]; d=TRAFFIC[task.name[len(r):]]
    return dict(start_seed=road.start_seed,environment_num=1,traffic_density=d,map=3,map_config=dict(type="block_sequence",config=road.blocks),accident_prob=0.,horizon=1000,random_traffic=True,traffic_mode="hybrid",crash_vehicle_penalty=0.)


@cache
def _package():
    with silence(), stand_ins():
        from metadrive.engine.engine_utils import close_engine, engine_initialized
        from metadrive.envs import SafeMetaDriveEnv
        from panda3d.core import loadPrcFileData
        import metadrive.manager.object_manager, metadrive.policy.idm_policy
    loadPrcFileData("", "notify-level-device fatal\nnotify-level-task fatal")
    aliased = ModuleType("numpy")
    vars(aliased).update(vars(np), float=float, int=int)
    mine = {"np": (np, aliased), "logging": (logging, logging.getLogger("metadrive"))}
    for name, module in list(sys.modules.items()):
        if name.startswith("metadrive."):
            for attribute, (original, ours) in mine.items():
                if vars(module).get(attribute) is original:
                    setattr(module, attribute, ours)
    return SimpleNamespace(Env=SafeMetaDriveEnv, close_engine=close_engine, engine_initialized=engine_initialized)
