"""Safety-Gymnasium behind our contract: 21 tasks, repeatable episodes, pictures without a screen.

The package is older than Python 3.11 and numpy 2; what keeps it running is all here. Left as it comes, it would
also decode 25 MB of sky at every navigation reset and give a reused world other last digits than a fresh one.
Every world here acts as a fresh one of the package does, to the last bit, and only the sky looks different.
"""

import atexit
import math
import os
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from ctypes import CDLL
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lspc.errors import UserError
from lspc.sims import Step
from lspc.sims.shared import OwnGenerators, legal_action, legal_seed, random_seed
from lspc.tasks import Task

WIDTH, HEIGHT = 480, 360
FIELD_DISTANCE = 5.5
"""From the camera to the middle of a navigation field: all of the largest one is in the picture."""

SKY = {"@type": "skybox", "@builtin": "gradient", "@rgb1": ".5 .6 .7", "@rgb2": "0 0 0", "@width": 64, "@height": 64}
"""A computed sky for the six photographs of stars the package puts around navigation worlds."""


class SafetyGymnasiumSimulator:
    def __init__(self, task: Task, pictures: bool = True) -> None:
        self.task = task
        self.pictures = pictures
        self._world: Any = None
        self._painter: _Painter | None = None
        self._steps = 0
        self._over = True
        _import_package()

    def reset(self, seed: int | None = None) -> np.ndarray:
        if seed is not None:
            seed = legal_seed(self.task, seed)
        if self._world is None:
            self._world = _build(self.task)
        # A world keeps a random stream of its own, which goes on where there is no seed.
        observation, _ = self._world.reset(seed=seed)
        self._steps, self._over = 0, False
        return np.asarray(observation, np.float32)

    def step(self, action: np.ndarray) -> Step:
        world = self._running()
        if self._over:
            raise UserError(f"this episode of {self.task.name} is over: call reset() first")
        observation, reward, cost, terminated, _, _ = world.step(legal_action(self.task, action))
        self._steps += 1
        truncated = not terminated and self._steps >= self.task.episode_length
        self._over = terminated or truncated
        return Step(
            observation=np.asarray(observation, np.float32),
            reward=float(reward),
            cost=float(cost),
            terminated=bool(terminated),
            truncated=truncated,
        )

    def render(self) -> np.ndarray:
        if not self.pictures:
            raise UserError(f"this {self.task.name} simulator was made without pictures: use make(pictures=True)")
        world = self._running()
        scene = world if _is_velocity(self.task) else world.task
        if self._painter is None:
            self._painter = _Painter(self.task, scene.model)
        return self._painter.picture(scene.model, scene.data)

    def close(self) -> None:
        if self._painter is not None:
            self._painter.close()
        self._world = self._painter = None

    def _running(self) -> Any:
        if self._world is None:
            raise UserError(f"the {self.task.name} simulator has no episode yet: call reset() first")
        return self._world


def _is_velocity(task: Task) -> bool:
    return task.family == "safety_gymnasium_velocity"


@cache
def _import_package() -> None:
    _mujoco()
    from safety_gymnasium.assets.color import COLOR

    # From Python 3.11 on, a dataclass refuses defaults without a hash, and the package's have colours as defaults.
    hashable_array = type("HashableArray", (np.ndarray,), {"__hash__": object.__hash__})
    colours = dict(COLOR)
    COLOR.update({name: colour.view(hashable_array) for name, colour in colours.items()})
    try:
        import_module("safety_gymnasium.builder")
    finally:
        COLOR.update(colours)


@cache
def _mujoco() -> Any:
    with _environment_kept("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        try:
            return import_module("mujoco")
        except Exception:
            # It starts the OpenGL that MUJOCO_GL names; where that fails, physics can still be had.
            if os.environ.pop("MUJOCO_GL", None) is None:
                raise
            return import_module("mujoco")


@contextmanager
def _environment_kept(*names: str) -> Generator[None]:
    kept = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _build(task: Task) -> Any:
    """The bare world, without the wrappers of both packages, which would only check, warn and count steps."""
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    spec = gymnasium.spec(task.gym_id.replace("Offline", "Safety").replace("Gymnasium-", "-"))
    with OwnGenerators(random_seed()), warnings.catch_warnings():
        # Where it passes arrays of one element as an index.
        warnings.filterwarnings("ignore", "Conversion of an array with ndim > 0", DeprecationWarning)
        world: Any = load_env_creator(str(spec.entry_point))(**spec.kwargs)
    if not _is_velocity(task):
        inner = world.task
        inner.world = _light_world()(inner.agent, inner._obstacles)
        inner.random_generator.sample_layout = _layout_sampler(inner.random_generator)
    return world


@cache
def _light_world() -> Any:
    """The package's navigation world, built in 4 ms instead of 700 and the same whether first or rebuilt."""
    import safety_gymnasium.world as module
    import yaml

    assets = yaml.safe_load((Path(module.BASE_DIR) / "configs" / "assets.yaml").read_text(encoding="utf-8"))
    assets["textures"]["skybox"] = SKY
    ready_assets = SimpleNamespace(load=lambda *_, **__: assets, FullLoader=None)

    class LightWorld(module.World):
        def build(self) -> None:
            module.yaml = ready_assets  # pyrefly: ignore [bad-assignment]
            try:
                super().build()
            finally:
                module.yaml = yaml

        def rebuild(self, config: Any = None, state: bool = True) -> None:
            # Without the second `mj_forward` of the package: it would start the contact solver from the result
            # of the first, and that moves the last digits away from those of a fresh world.
            assert not state
            self.parse(config)
            self.build()

    return LightWorld


def _layout_sampler(generator: Any) -> Callable[[], bool]:
    """`sample_layout` of the package's generator: the same draws and verdicts, without arrays of two numbers.

    Most layouts of the button tasks are refused, so that this is the larger part of their resets.
    """

    def sample_layout() -> bool:
        layout: dict[str, np.ndarray] = {}
        placed: list[tuple[float, float, float]] = []
        for name, (placements, keepout) in generator.placements.items():
            for _ in range(100):
                position = generator.draw_placement(placements, keepout)
                x, y = position.tolist()
                if _is_free(x, y, keepout, placed):
                    break
            else:
                return False
            layout[name] = position
            placed.append((x, y, keepout + generator.placements_margin))
        generator.layout = layout
        return True

    return sample_layout


def _is_free(x: float, y: float, keepout: float, placed: list[tuple[float, float, float]]) -> bool:
    for other_x, other_y, room in placed:
        dx, dy = x - other_x, y - other_y
        if math.sqrt(dx * dx + dy * dy) < room + keepout:
            return False
    return True


class _Painter:
    """Draws one simulator's scene; all painters share the OpenGL context of the process."""

    def __init__(self, task: Task, model: Any) -> None:
        mujoco = _mujoco()
        try:
            _gl_context().make_current()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(
                f"pictures of {task.name} need OpenGL without a screen, which does not start here ({reason}); "
                "fix it with `apt-get install libegl1 libgl1` and leave MUJOCO_GL unset"
            ) from error
        self._scene = mujoco.MjvScene(model, 1000)
        self._camera = mujoco.MjvCamera()
        if _is_velocity(task):
            self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
            self._camera.fixedcamid = model.camera("track").id
        else:
            self._camera.distance = FIELD_DISTANCE

    def picture(self, model: Any, data: Any) -> np.ndarray:
        mujoco = _mujoco()
        options = mujoco.MjvOption()
        # Hazards and the like are in groups that are not shown otherwise. With numpy 2, MuJoCo 2.3 gives arrays of
        # this kind the stride 0, so that without the right one only the first group would be set.
        as_strided(options.geomgroup, strides=(options.geomgroup.itemsize,))[:] = 1
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(model, data, options, mujoco.MjvPerturb(), self._camera, everything, self._scene)
        frame, picture = mujoco.MjrRect(0, 0, WIDTH, HEIGHT), np.empty((HEIGHT, WIDTH, 3), np.uint8)
        _gl_context().make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        mujoco.mjr_render(frame, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, frame, self._context)
        return picture[::-1].copy()  # OpenGL counts rows from below

    def close(self) -> None:
        _gl_context().make_current()
        self._context.free()


@cache
def _gl_context() -> Any:
    # MuJoCo's modules set PYOPENGL_PLATFORM for their own import only, but leave it behind.
    with _environment_kept("PYOPENGL_PLATFORM"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glfw only warns where there is no screen
        context = import_module(f"mujoco.{_gl_library()}").GLContext(WIDTH, HEIGHT)
    if not context._context:  # drawing with it would end the process
        raise RuntimeError("no context could be created")
    # It must go before the library it belongs to.
    atexit.register(_gl_context.cache_clear)
    return context


def _gl_library() -> str:
    chosen = os.environ.get("MUJOCO_GL", "").lower().strip()
    if chosen in ("egl", "osmesa", "glfw"):
        return chosen
    if chosen in ("disable", "disabled", "off", "false", "0"):
        raise RuntimeError(f"MUJOCO_GL={chosen} forbids it")
    if sys.platform == "linux":
        for name, file in (("egl", "libEGL.so.1"), ("osmesa", "libOSMesa.so.8")):
            with suppress(OSError):
                CDLL(file)
                return name
        raise RuntimeError("neither EGL nor OSMesa is installed")
    return "glfw"
