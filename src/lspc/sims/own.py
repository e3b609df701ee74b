"""Any gymnasium environment behind the contract of the simulators: `gym:Pendulum-v1`, or `module:callable`.

It may be written for gymnasium 0.28 or 1.x, and may return the cost beside the reward.
"""

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from lspc.errors import UserError
from lspc.sims import Step
from lspc.sims.shared import OwnGenerators, legal_seed, random_seed
from lspc.tasks import Task
from lspc.tasks.own import GYMNASIUM, OwnTask


class OwnSimulator:
    """The environment as a simulator; an episode ends when it says so, and after the task's `episode_length`."""

    def __init__(self, task: Task, pictures: bool = True) -> None:
        assert isinstance(task, OwnTask)
        self._task, self._steps = task, 0
        self._generators = OwnGenerators(random_seed())
        with self._generators:
            self._env = make_environment(task, pictures=pictures)
        self._space = self._check_spaces()

    def _check_spaces(self) -> Any:
        for what in ("observation", "action"):
            space = getattr(self._env, f"{what}_space", None)
            shape = getattr(space, "shape", None)
            if not hasattr(space, "low") or shape is None:
                raise UserError(
                    f"{self._task.name}: its {what}s are {space}; only a Box of numbers can be {what}s here"
                )
            size, known = int(np.prod(shape)), getattr(self._task, f"{what}_dim")
            if size != known:
                raise UserError(f"{self._task.name} has {what}s of size {size}, the policy was trained on {known}")
        return self._env.action_space

    def reset(self, seed: int | None = None) -> np.ndarray:
        if seed is not None:
            self._generators = OwnGenerators(legal_seed(self._task, seed))
        self._steps = 0
        with self._generators:
            answer = self._env.reset(seed=seed)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise UserError(
                f"{self._task.name}: reset must return (observation, info), as gymnasium's environments do"
            )
        return self._observation(answer[0])

    def step(self, action: np.ndarray) -> Step:
        action = np.asarray(action, np.float32)
        if action.shape != (self._task.action_dim,):
            raise UserError(f"{self._task.name} takes {self._task.action_dim} actions, not of shape {action.shape}")
        if np.isnan(action).any():
            raise UserError(f"{self._task.name} was given the action {action.tolist()}: NaN is not an action")
        legal = np.clip(action.reshape(self._space.shape), self._space.low, self._space.high)
        with self._generators:
            answer = self._env.step(legal.astype(self._space.dtype))
        observation, reward, cost, terminated, truncated = read_answer(answer, self._task.name, self._task.cost_key)
        self._steps += 1
        late = truncated or self._steps >= self._task.episode_length
        return Step(self._observation(observation), float(reward), cost, terminated, late and not terminated)

    def _observation(self, observation: Any) -> np.ndarray:
        return np.asarray(observation, np.float32).reshape(self._task.observation_dim)

    def render(self) -> np.ndarray:
        with self._generators:
            picture = self._env.render()
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            raise UserError(
                f"{self._task.name} draws no pictures: let what makes it take render_mode, and render as rgb_array"
            )
        return picture[..., :3].astype(np.uint8)

    def close(self) -> None:
        self._env.close()


def read_answer(answer: Any, name: str, cost_key: str) -> tuple[Any, float, float, bool, bool]:
    """A step's observation, reward, cost, terminated and truncated, with the cost beside the reward or in `info`."""
    if not isinstance(answer, tuple) or len(answer) not in (5, 6):
        raise UserError(
            f"{name}: step must return (observation, reward, terminated, truncated, info), or the same with the cost "
            "after the reward"
        )
    if len(answer) == 6:
        observation, reward, cost, terminated, truncated, _ = answer
        return observation, float(reward), float(cost), bool(terminated), bool(truncated)
    observation, reward, terminated, truncated, info = answer
    if cost_key not in info:
        there = ", ".join(map(str, info)) or "nothing"
        raise UserError(
            f"{name}: a step's info has no {cost_key!r} (it holds {there}); name the cost with --cost-key"
        )
    return observation, float(reward), float(info[cost_key]), bool(terminated), bool(truncated)


def make_environment(task: OwnTask, *, pictures: bool) -> Any:
    """The user's environment, able to draw itself if pictures are wanted and it can."""
    mode = {"render_mode": "rgb_array"} if pictures else {}
    if task.name.startswith(GYMNASIUM):
        return _make_registered(task.name.removeprefix(GYMNASIUM), mode)
    factory = task.factory or find_factory(task.name)
    env = factory(**(mode if _takes(factory, "render_mode") else {}))
    if not (hasattr(env, "reset") and hasattr(env, "step")):
        raise UserError(f"{task.name} made a {type(env).__name__}, which is not a gymnasium environment")
    return env


def _make_registered(name: str, options: dict[str, Any]) -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise UserError(f"gym:{name} needs gymnasium (not installed): pip install gymnasium") from error
    try:
        return gymnasium.make(name, **options)
    except gymnasium.error.Error as error:
        raise UserError(f"gym:{name}: gymnasium cannot make it ({' '.join(str(error).split())})") from error


def find_factory(name: str) -> Callable[..., Any]:
    """What `module:callable` names; modules in the working directory are found as well."""
    module, _, attribute = name.partition(":")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)  # the workers of a pool find modules where this process does
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise UserError(f"{name}: importing {module} failed ({error}); install what it needs") from error
        raise UserError(f"{name}: there is no module {module}; install it, or run from its directory") from error
    except ImportError as error:
        raise UserError(f"{name}: importing {module} failed ({error})") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UserError(f"{name}: the module {module} has no {attribute!r}; name what makes the environment")
        found = getattr(found, part)
    if not callable(found):
        raise UserError(f"{name} is a {type(found).__name__}; name a class or a function that makes the environment")
    return found


def name_factory(factory: Callable[..., Any]) -> tuple[str, bool]:
    """`module:callable` for a function or class, and whether another process could import it by that name."""
    module, name = (
        getattr(factory, "__module__", "__main__"),
        getattr(factory, "__qualname__", type(factory).__name__),
    )
    importable = module not in (None, "__main__") and name.isidentifier()
    return f"{module}:{name}", importable and getattr(sys.modules.get(module), name, None) is factory


def _takes(factory: Callable[..., Any], option: str) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == option or p.kind is p.VAR_KEYWORD for p in parameters)
