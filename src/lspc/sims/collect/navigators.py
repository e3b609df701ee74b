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
COURSES = np.arange(2 * BINS) * np.pi / BINS
"""The headings a navigator weighs against each other."""
TOWARDS = np.maximum(0.0, np.cos(COURSES[:, None] - BEARINGS)) ** 2
"""How much each course leads towards each bearing."""


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
    """Heads for the goal and, as far as it cares, away from what costs."""

    robot: Robot
    lidars: dict[str, slice]
    care: float
    """Pull away from obstacles beside the goal's pull of 1."""
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
        pull = np.zeros(len(COURSES)) if goal is None else np.cos(COURSES - goal)
        course = float(COURSES[np.argmax(pull - self.care * TOWARDS @ closeness)])
        if self.care == 0.0 and goal is not None:
            course = goal
        ahead = float(np.max(np.maximum(0.0, np.cos(BEARINGS - self.robot.front)) ** 2 * closeness))
        turn = wrap(course - self.robot.front)
        speed = self.cruise * max(0.0, math.cos(turn)) * (1.0 - self.brake * min(1.0, 2.0 * ahead))
        if goal is None and not closeness.any():  # between two buttons: wait
            speed = 0.0
        thrust = 3.0 * (speed - self.robot.speed(observation))
        return disturb(self.robot.drive(limit(thrust), limit(1.5 * turn)), self.noise, rng)

    def _closeness(self, readings: dict[str, np.ndarray], goal: float | None) -> np.ndarray:
        """Per bearing: 0 for what is out of reach, 1 for what touches."""
        nearest = np.zeros(BINS)
        for name, reading in readings.items():
            if name == "buttons" and goal is not None:  # the goal is one of the buttons
                beside = np.abs(wrap(BEARINGS - goal)) < 3 * np.pi / BINS
                reading = np.where(beside & (reading <= readings["goal"].max() + 1e-4), 0.0, reading)
            if name != "goal":
                nearest = np.maximum(nearest, reading)
        share = self.reach / 3.0  # readings fall to 0 at three metres
        return np.clip((nearest - (1.0 - share)) / share, 0.0, 1.0)


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
    # The careful ones stop before they turn: whoever imitates them wavers between left and right, and then stands
    # still in front of a hazard instead of driving into it.
    careful = rng.random() < 0.75
    return GoalSeeker(
        *layout,
        care=float(rng.choice([2.0, 4.0] if careful else [0.0, 1.0])),
        reach=float(rng.uniform(0.8, 1.2) if careful else rng.uniform(0.4, 0.8)),
        cruise=float(rng.uniform(0.2, 1.0)),
        brake=float(rng.uniform(0.85, 1.0) if careful else rng.uniform(0.0, 0.85)),
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
