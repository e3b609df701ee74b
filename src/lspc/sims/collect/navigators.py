"""Hand-written navigators for Safety-Gymnasium's lidar tasks and DroneCircle, in many manners, timid to reckless.

A learner needs millions of steps before it goes round hazards; until then low cost is luck, and cloning luck is not
safe. A navigator steers by the same lidar readings that a policy sees, so what it does can be learned from its log.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lspc import sims
from lspc.sims.collect.episodes import Recorder, record_episode
from lspc.sims.collect.pilots import draw_pilot
from lspc.sims.collect.population import AgentSpec
from lspc.tasks import Task, get_task

BINS = 16
"""Readings of a lidar, evenly round the robot, counter-clockwise from its x axis; 1 at the robot, 0 out of range."""
BEARINGS = (np.arange(BINS) + 0.5) * 2 * np.pi / BINS
UNITS = np.stack([np.cos(BEARINGS), np.sin(BEARINGS)], axis=1)
RANGE = 3.0
"""Metres at which a reading falls to 0 (of a circle's centre: 6)."""


@dataclass(frozen=True)
class Robot:
    sensors: int
    """Numbers in the observation before the first lidar."""
    front: float
    """Bearing of its front."""
    drive: Callable[[float, float], tuple[float, float]]
    """Action for a thrust and a turn, both from -1 to 1."""

    def speed(self, observation: np.ndarray) -> float:
        """Along its front, from the velocimeter."""
        return float(observation[3] * math.cos(self.front) + observation[4] * math.sin(self.front))


ROBOTS = {
    "Point": Robot(12, 0.0, lambda thrust, turn: (thrust, turn)),
    "Car": Robot(24, -np.pi / 2, lambda thrust, turn: (thrust + 0.5 * turn, thrust - 0.5 * turn)),
}
LIDARS = {
    "Goal": ("goal", "hazards", "vases"),
    "Button": ("buttons", "goal", "hazards", "gremlins"),
    "Circle": ("circle",),
}
"""Of each kind of task, in the order of the observation."""


def find_layout(task: Task) -> tuple[Robot, dict[str, slice]] | None:
    """The robot of a task and where its lidars are in an observation; none where there is no navigator."""
    for robot_name, robot in ROBOTS.items():
        for kind, names in LIDARS.items():
            if task.suite == "safety_gymnasium" and task.name.rstrip("12") == robot_name + kind:
                starts = [robot.sensors + BINS * i for i in range(len(names))]
                return robot, {name: slice(i, i + BINS) for name, i in zip(names, starts, strict=True)}
    return None


def has_navigator(task: Task) -> bool:
    return task.name == "DroneCircle" or find_layout(task) is not None


class Navigator(Protocol):
    def act(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray: ...


@dataclass(frozen=True)
class GoalSeeker:
    """Follows a field that flows towards the goal and round what costs, to the left of what lies right ahead.

    The field is a continuous function of the lidar readings: whoever imitates it need not choose between two sides,
    as a clone of a navigator with a sharp choice would, which drives straight on between them.
    """

    robot: Robot
    lidars: dict[str, slice]
    care: float
    """Push away from an obstacle at `clearance`, beside the goal's pull of 1."""
    slide: float
    """Share of the pull into an obstacle that is taken away: 1 leaves what leads past it."""
    swirl: float
    """Share of the same pull that becomes a turn to the left."""
    clearance: float
    """Distance from an obstacle's centre at which care is full."""
    reach: float
    """Distance at which an obstacle begins to matter."""
    cruise: float
    """Speed on a free course."""
    brake: float
    """Share of the speed given up for an obstacle right ahead."""
    noise: float

    def act(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        readings = {name: observation[place] for name, place in self.lidars.items()}
        goal = find_bearing(readings["goal"])
        closeness = self._closeness(readings, goal)
        flow = self._flow(np.zeros(2) if goal is None else point(goal), closeness)
        strength = math.hypot(*flow)
        turn = wrap(math.atan2(flow[1], flow[0]) - self.robot.front) if strength > 1e-6 else 0.0
        ahead = float(np.max(np.maximum(0.0, np.cos(BEARINGS - self.robot.front)) ** 2 * closeness))
        speed = self.cruise * min(1.0, strength) * max(0.0, math.cos(turn)) ** 2 * (1.0 - self.brake * ahead)
        thrust = 3.0 * (speed - self.robot.speed(observation))
        return disturb(self.robot.drive(limit(thrust), 1.5 * steer(turn)), self.noise, rng)

    def _flow(self, goal: np.ndarray, closeness: np.ndarray) -> np.ndarray:
        into = weigh_nearest(np.maximum(0.0, UNITS @ goal) * closeness) @ UNITS
        away = weigh_nearest(closeness**2) @ UNITS
        return goal - self.slide * into + self.swirl * np.array([-into[1], into[0]]) - self.care * away

    def _closeness(self, readings: dict[str, np.ndarray], goal: float | None) -> np.ndarray:
        """Per bearing: 0 for what is out of reach, 1 for what is at the clearance or nearer."""
        nearest = np.zeros(BINS)
        for name, reading in readings.items():
            if name == "buttons" and goal is not None:  # the goal is one of the buttons
                beside = np.abs(wrap(BEARINGS - goal)) < 3 * np.pi / BINS
                reading = np.where(beside & (reading <= readings["goal"].max() + 1e-4), 0.0, reading)
            if name != "goal":
                nearest = np.maximum(nearest, reading)
        distance = RANGE * (1.0 - nearest)
        return np.clip((self.reach - distance) / (self.reach - self.clearance), 0.0, 1.0)


def weigh_nearest(closeness: np.ndarray) -> np.ndarray:
    """Weights of the bearings that add up to the largest: one obstacle shows in several bins and counts once."""
    return closeness / (closeness.sum() + 1e-6) * closeness.max()


def steer(turn: float) -> float:
    """-1 to 1, continuous all the way round: what lies right behind is turned to slowly, by either side."""
    if abs(turn) < np.pi / 2:
        return math.sin(turn)
    return math.copysign(min(1.0, 2.0 * (np.pi - abs(turn))), turn)


@dataclass(frozen=True)
class Circler:
    """Goes round the circle's centre counter-clockwise; the walls that cost are at 1.125, the reward is at 1.5."""

    robot: Robot
    lidars: dict[str, slice]
    radius: float
    thrust: float
    """On its course."""
    noise: float

    def act(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        reading = observation[self.lidars["circle"]]
        centre, distance = find_bearing(reading), 6.0 * (1.0 - float(reading.max()))
        correction = max(-1.2, min(1.2, 1.5 * (distance - self.radius)))
        turn = 0.0 if centre is None else wrap(centre - np.pi / 2 + correction - self.robot.front)
        thrust = self.thrust * max(0.1, math.cos(turn))
        return disturb(self.robot.drive(thrust, limit(2.0 * turn)), self.noise, rng)


def find_bearing(reading: np.ndarray) -> float | None:
    """Of the nearest thing that a lidar sees; how the two bins beside it share its reading tells the place within."""
    nearest = int(np.argmax(reading))
    if reading[nearest] <= 0:
        return None
    return (nearest + float(reading[(nearest + 1) % BINS] / reading[nearest])) * 2 * np.pi / BINS


def point(bearing: float) -> np.ndarray:
    return np.array([math.cos(bearing), math.sin(bearing)])


def wrap(angle: Any) -> Any:
    return (angle + np.pi) % (2 * np.pi) - np.pi


def limit(value: float) -> float:
    return max(-1.0, min(1.0, value))


def disturb(action: tuple[float, float], noise: float, rng: np.random.Generator) -> np.ndarray:
    return np.clip(np.asarray(action) + noise * rng.normal(size=2), -1.0, 1.0).astype(np.float32)


def draw_navigator(task: Task, rng: np.random.Generator) -> Navigator:
    if task.name == "DroneCircle":
        return draw_pilot(rng)
    layout = find_layout(task)
    assert layout is not None, f"{task.name} has no navigator"
    noise = float(rng.choice([0.02, 0.1, 0.2, 0.3]))
    if "circle" in layout[1]:
        return Circler(
            *layout, radius=float(0.3 + 1.2 * rng.random() ** 2), thrust=float(rng.uniform(0.2, 1.0)), noise=noise
        )
    if task.name.endswith("Goal1"):
        layout[1].pop("vases")  # they cost nothing on the first level
    careful = rng.random() < 0.75
    clearance = float(rng.uniform(0.3, 0.5) if careful else rng.uniform(0.2, 0.3))
    return GoalSeeker(
        *layout,
        care=float(rng.uniform(1.0, 2.5) if careful else rng.uniform(0.0, 1.0)),
        slide=1.0 if careful else float(rng.choice([0.0, 0.5])),
        swirl=float(rng.uniform(0.4, 1.0) if careful else rng.uniform(0.0, 0.5)),
        clearance=clearance,
        reach=clearance + float(rng.uniform(0.3, 0.8)),
        cruise=float(rng.uniform(0.3, 1.2)),
        brake=float(rng.uniform(0.6, 1.0) if careful else rng.uniform(0.0, 0.6)),
        noise=noise,
    )


def navigate(spec: AgentSpec, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, np.ndarray]:
    """Episodes of navigators, each in another manner."""
    task, rng, recorder = get_task(spec.task), np.random.default_rng(spec.seed), Recorder(1)
    simulator, taken = sims.make(task, pictures=False), 0
    while taken < spec.steps:
        navigator = draw_navigator(task, rng)
        observation = simulator.reset(int(rng.integers(2**31)))
        episode = record_episode(simulator, observation, lambda seen: navigator.act(seen, rng), recorder)  # noqa: B023
        taken += episode.steps
        on_progress({"steps": min(taken, spec.steps), "reward": episode.reward, "cost": episode.cost})
    simulator.close()
    return recorder.arrays()
