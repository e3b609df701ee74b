"""MetaDrive behind our contract: three roads in three densities of traffic, with DSRL's costs.

A process holds one MetaDrive world at a time. A seed decides the traffic; the road of a task is always the same.
Nothing here needs a screen or OpenGL: pictures are drawn from the positions of lanes and cars.
"""

import logging
import sys
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from lspc.errors import UserError
from lspc.sims import Step
from lspc.sims.gym_stand_in import stand_ins
from lspc.sims.shared import OwnGenerators, legal_action, legal_seed, random_seed, suppress_output
from lspc.tasks import Task, get_task


class Road(NamedTuple):
    blocks: str
    """MetaDrive's letters: S straight, C curve, X crossing, T junction, R ramp, O roundabout."""
    start_seed: int
    """What decides the lengths, angles, radii and exits of the blocks; nine more roads follow with the next seeds."""


ROADS = {"easy": Road("SCS", 0), "medium": Road("XST", 100), "hard": Road("TRO", 200)}
TRAFFIC = {"sparse": 0.1, "mean": 0.15, "dense": 0.2}
SCENES = {name + amount: (road, TRAFFIC[amount]) for name, road in ROADS.items() for amount in TRAFFIC}
"""Road and traffic density of each task."""

ROAD_COUNT = 10
FREE_SPEED = 10.0
"""km/h that cost nothing."""
LIDAR_RAYS = 240
"""The last entries of an observation: distances in units of 50 m."""


class MetaDriveSimulator:
    def __init__(self, task: Task, pictures: bool = True, road_number: int = 0) -> None:
        """DSRL evaluates on road 0 of a task; its data, and so its highest return, comes from the roads 0 to 9."""
        if not 0 <= road_number < ROAD_COUNT:
            raise UserError(f"{task.name} has the roads 0 to {ROAD_COUNT - 1}, not {road_number}")
        self.task = task
        self.pictures = pictures
        self.road_number = road_number
        self.episodes = 0
        """Begun so far."""
        self._steps = 0
        self._package = _package()
        self._world: Any = None
        self._end_world: Callable[[], object] = _nothing
        self._generators = OwnGenerators(random_seed())
        self._road_shapes: list[Shape] = []

    def reset(self, seed: int | None = None) -> np.ndarray:
        if seed is not None:
            self._generators = OwnGenerators(legal_seed(self.task, seed))
            # MetaDrive uses cars of past episodes again, and those do not return to exactly the same state.
            self.close()
        with self._generators:
            if self._world is None:
                self._world = self._build()
            observation = self._world.reset()
        self.episodes += 1
        self._steps = 0
        return np.asarray(observation, np.float32)

    def step(self, action: np.ndarray) -> Step:
        observation, reward, _, info = self._running().step(legal_action(self.task, action).tolist())
        self._steps += 1
        terminated = bool(info["arrive_dest"] or info["crash"] or info["out_of_road"])
        return Step(
            observation=np.asarray(observation, np.float32),
            reward=float(reward),
            cost=float(info["cost"] + driving_cost(info["velocity"], observation)),
            terminated=terminated,
            truncated=not terminated and self._steps >= self.task.episode_length,
        )

    def render(self) -> np.ndarray:
        """The cars around ours, which is red, seen from above."""
        if not self.pictures:
            raise UserError(f"this {self.task.name} simulator was made without pictures: use make(pictures=True)")
        cars = self._running().engine.get_objects(lambda thing: isinstance(thing, self._package.BaseVehicle)).values()
        shapes = [*self._roads(), *(_car_shape(car, car is self.car()) for car in cars)]
        corners = np.array(self.car().position) + np.array([[-VIEW[0], -VIEW[1]], VIEW]) / 2
        return _paint(shapes, corners, pixels_per_metre=5, sharpness=2)

    def close(self) -> None:
        self._end_world()
        self._world = None
        self._road_shapes = []

    def car(self) -> Any:
        """MetaDrive's object for the car our actions drive."""
        return self._running().vehicle

    def _build(self) -> Any:
        if self._package.engine_initialized():
            raise UserError(
                f"{self.task.name} cannot start: this process already runs a MetaDrive world and can hold only one; "
                "close() the other simulator, or run episodes in worker processes"
            )
        # Not only close() ends the world, but also losing the simulator: else no other could ever start here.
        self._end_world = weakref.finalize(self, self._package.end_world)
        try:
            world = self._package.SafeMetaDriveEnv(_settings(self.task, self.road_number))
            world.lazy_init()
        except BaseException:
            self.close()
            raise
        # All else MetaDrive seeds with `start_seed`; this one it leaves to chance.
        world.engine.traffic_manager.np_random = np.random.RandomState(np.random.randint(2**32))  # noqa: NPY002
        return world

    def _running(self) -> Any:
        if self._world is None:
            raise UserError(f"the {self.task.name} simulator has no episode yet: call reset() first")
        return self._world

    def _roads(self) -> "list[Shape]":
        if not self._road_shapes:
            self._road_shapes = _road_shapes(self._world.current_map.road_network)
        return self._road_shapes


def driving_cost(velocity: float, observation: np.ndarray) -> float:
    """DSRL's cost of a step beside the 1 for a crash or leaving the road: for speed (km/h) and for nearness."""
    nearness = max(0.0, 0.1 - float(observation[-LIDAR_RAYS:].min()))
    return max(0.0, 0.01 * (velocity - FREE_SPEED)) + 0.01 * nearness**2


def _settings(task: Task, road_number: int) -> dict[str, Any]:
    road, density = SCENES[task.name]
    return {
        "start_seed": road.start_seed + road_number,
        "environment_num": 1,
        "map_config": {"type": "block_sequence", "config": road.blocks},
        "traffic_density": density,
        "traffic_mode": "hybrid",
        "random_traffic": True,
        "accident_prob": 0.0,
        "crash_vehicle_penalty": 0.0,
        "horizon": task.episode_length,
    }


class IDMDriver:
    """MetaDrive's own driver (the intelligent driver model), at the wheel of a simulator's car.

    It only says what it would do: pass the action to `simulator.step`. It may stay for many episodes.
    """

    def __init__(
        self,
        simulator: MetaDriveSimulator,
        rng: np.random.Generator,
        *,
        target_speed: float = 30.0,
        acceleration: float = 1.0,
        headway: float = 1.5,
        lane_changes: bool = True,
        brakes: bool = True,
        noise: float = 0.0,
    ) -> None:
        """`target_speed` in km/h; `headway`, by which its gap to the car ahead grows with speed, in m per km/h.

        `acceleration` is its throttle on a free road and `noise` the standard deviation added to both actions.
        Without `brakes` it ignores the cars ahead.
        """
        if target_speed <= 0 or acceleration <= 0:
            raise UserError(
                f"the driver needs a target speed and an acceleration above 0, not {target_speed}, {acceleration}"
            )
        self.simulator = simulator
        self._rng = rng
        self._noise = noise
        self._manner = {
            "NORMAL_SPEED": target_speed,
            "target_speed": target_speed,
            "ACC_FACTOR": acceleration,
            "TIME_WANTED": headway,
            "enable_lane_change": lane_changes,
            "disable_idm_deceleration": not brakes,
        }
        self._policy: Any = None
        self._episode = 0

    def act(self) -> np.ndarray:
        car = self.simulator.car()
        if self._episode != self.simulator.episodes:
            self._episode = self.simulator.episodes
            self._policy = _package().IDMPolicy(car, int(self._rng.integers(2**16)))
            vars(self._policy).update(self._manner)
        action = np.asarray(self._policy.act(), np.float64) + self._noise * self._rng.standard_normal(2)
        return np.clip(action, -1.0, 1.0).astype(np.float32)


class Shape(NamedTuple):
    points: np.ndarray
    """In metres; y points down, as in MetaDrive."""
    colour: tuple[int, int, int]
    line_width: float | None = None
    """In metres; without one the shape is filled."""


VIEW = 128, 96
"""Width and height of a picture of the scene in metres."""

GRASS, ASPHALT, WHITE, YELLOW = (226, 232, 220), (112, 116, 122), (250, 250, 250), (245, 192, 67)
OUR_CAR, OTHER_CAR = (214, 48, 49), (52, 104, 168)
START, GOAL = (39, 174, 96), (214, 48, 49)


def map_picture(blocks: str, road_number: int = 0) -> np.ndarray:
    """The whole road from above, with a green start and a red goal; `blocks` as in `ROADS`."""
    names = {road.blocks: name for name, road in ROADS.items()}
    if blocks not in names:
        raise UserError(f"no task drives on the road {blocks!r}; the roads are {', '.join(names)}")
    simulator = MetaDriveSimulator(get_task(f"{names[blocks]}sparse"), road_number=road_number)
    try:
        simulator.reset(seed=0)
        car = simulator.car()
        goal = car.navigation.final_lane
        shapes = [*simulator._roads(), _dot(np.array(car.position), START), _dot(goal.position(goal.length, 0), GOAL)]
        points = np.concatenate([shape.points for shape in shapes])
        corners = np.array([points.min(0) - 8, points.max(0) + 8])
        scale = 1600 / float((corners[1] - corners[0]).max())
        return _paint(shapes, corners, pixels_per_metre=scale, sharpness=3)
    finally:
        simulator.close()


def _road_shapes(network: Any) -> list[Shape]:
    lanes = [lane for ends in network.graph.values() for lanes in ends.values() for lane in lanes]
    surfaces, lines = [], []
    for lane in lanes:
        sides = [_along(lane, 0, lane.length, side) for side in (-1, 1)]
        surfaces.append(Shape(np.concatenate([sides[0], sides[1][::-1]]), ASPHALT))
        for side, line, kind, rgba in zip((-1, 1), sides, lane.line_types, lane.line_colors, strict=True):
            colour = YELLOW if rgba[2] < 0.5 else WHITE
            if kind == "broken":
                for start in np.arange(0, lane.length - 3, 8):
                    lines.append(Shape(_along(lane, start, start + 3, side), colour, 0.35))
            elif kind != "none":
                lines.append(Shape(line, colour, 0.35))
    return surfaces + lines


def _along(lane: Any, start: float, end: float, side: int) -> np.ndarray:
    """Points on the left (-1) or right (1) edge of a lane."""
    places = np.linspace(start, end, max(2, int(end - start)))
    return np.array([lane.position(place, side * lane.width_at(place) / 2) for place in places])


def _car_shape(car: Any, ours: bool) -> Shape:
    ahead = np.array([np.cos(car.heading_theta), np.sin(car.heading_theta)])
    aside = np.array([-ahead[1], ahead[0]])
    corners = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * (car.LENGTH / 2, car.WIDTH / 2)
    return Shape(np.array(car.position) + corners @ np.array([ahead, aside]), OUR_CAR if ours else OTHER_CAR)


def _dot(centre: np.ndarray, colour: tuple[int, int, int]) -> Shape:
    turns = np.linspace(0, 2 * np.pi, 40)
    return Shape(centre + 4 * np.stack([np.cos(turns), np.sin(turns)], 1), colour)


def _paint(shapes: Iterable[Shape], corners: np.ndarray, pixels_per_metre: float, sharpness: int) -> np.ndarray:
    """What lies between two opposite corners, drawn `sharpness` times too large and shrunk, which smooths edges."""
    pygame = _package().pygame
    width, height = (round(pixels) for pixels in (corners[1] - corners[0]) * pixels_per_metre)
    scale = pixels_per_metre * sharpness
    canvas = pygame.Surface((width * sharpness, height * sharpness), depth=24)
    canvas.fill(GRASS)
    for points, colour, line_width in shapes:
        pixels = (points - corners[0]) * scale
        if line_width is None:
            pygame.draw.polygon(canvas, colour, pixels)
        else:
            pygame.draw.lines(canvas, colour, False, pixels, max(1, round(line_width * scale)))
    columns = pygame.surfarray.array3d(pygame.transform.smoothscale(canvas, (width, height)))
    return np.ascontiguousarray(columns.swapaxes(0, 1))


def _nothing() -> None:
    pass


@cache
def _package() -> SimpleNamespace:
    """Import MetaDrive once, silently, and mend what would trouble the rest of the process or repeatable episodes."""
    with suppress_output(), stand_ins():
        import pygame
        from metadrive.component.vehicle.base_vehicle import BaseVehicle
        from metadrive.component.vehicle_module.lidar import Lidar
        from metadrive.engine.engine_utils import close_engine, engine_initialized
        from metadrive.engine.physics_node import BaseRigidBodyNode
        from metadrive.envs.safe_metadrive_env import SafeMetaDriveEnv
        from metadrive.manager import object_manager  # noqa: F401 (else imported later, without stand-ins)
        from metadrive.policy.idm_policy import IDMPolicy
        from panda3d.core import loadPrcFileData  # pyrefly: ignore [missing-import] (compiled, without stubs)
    loadPrcFileData("", "notify-level-device fatal\nnotify-level-task fatal")
    _give_it_its_own_numpy_and_logging()
    _order(Lidar)
    nodes = _remember(BaseRigidBodyNode)

    def end_world() -> None:
        close_engine()
        for node in nodes:
            node.destroy()
        nodes.clear()

    return SimpleNamespace(
        BaseVehicle=BaseVehicle,
        IDMPolicy=IDMPolicy,
        SafeMetaDriveEnv=SafeMetaDriveEnv,
        end_world=end_world,
        engine_initialized=engine_initialized,
        pygame=pygame,
    )


def _give_it_its_own_numpy_and_logging() -> None:
    """MetaDrive uses two names numpy dropped, and its calls of `logging.debug` would set up the root logger."""
    numpy = ModuleType("numpy")
    vars(numpy).update(vars(np), float=float, int=int)
    views = {"np": (np, numpy), "logging": (logging, logging.getLogger("metadrive"))}
    for name, module in list(sys.modules.items()):
        for attribute, (public, own) in views.items():
            if name.startswith("metadrive.") and vars(module).get(attribute) is public:
                setattr(module, attribute, own)


def _order(lidar: Any) -> None:
    """Drivers go through the cars around them in the order of a set, hence of memory addresses: fix the order."""
    found = lidar.get_surrounding_objects

    def get_surrounding_objects(self: Any, vehicle: Any) -> list[Any]:
        return sorted(found(self, vehicle), key=lambda thing: tuple(thing.origin.getPos()))

    lidar.get_surrounding_objects = get_surrounding_objects


def _remember(node_class: Any) -> list[Any]:
    """A list of all nodes made from now on: they refer to themselves out of Python's sight, 1 MB in each world."""
    nodes: list[Any] = []
    make = node_class.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        nodes.append(self)

    node_class.__init__ = __init__
    return nodes
