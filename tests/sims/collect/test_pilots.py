"""The drone's pilot follows the circle it is given, and its manners differ in what they earn and cost."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lspc import sims
from lspc.sims.collect.episodes import Recorder, record_episode
from lspc.sims.collect.pilots import CirclePilot, draw_pilot, find_angles
from lspc.sims.collect.population import population
from lspc.tasks import get_task

PILOT = CirclePilot(speed=4.0, radius=5.5, height=1.5, noise=0.0)


def observe(speed: float = 4.0, height: float = 1.5) -> np.ndarray:
    """Level, nose along x, at the height and on the course of PILOT: clockwise."""
    observation = np.zeros(18)
    observation[:3] = np.array([5.5, 0.0, height]) / 10.0
    observation[3:6] = np.array([0.0, -speed, 0.0]) / 5.0
    observation[9] = 1.0  # no turn
    return observation


def act(observation: np.ndarray) -> tuple[float, ...]:
    return tuple(PILOT.act(observation, np.random.default_rng(0)).tolist())


def test_angles_of_quaternions() -> None:
    half = math.sqrt(0.5)
    assert find_angles(0, 0, 0, 1) == (0, 0, 0)
    assert find_angles(half, 0, 0, half) == pytest.approx((math.pi / 2, 0, 0))
    assert find_angles(0, 0, half, half) == pytest.approx((0, 0, math.pi / 2))


def test_it_climbs_when_low_and_leans_into_the_bend() -> None:
    front, right, back, left = act(observe())
    assert front > back  # at x = 5.5 the centre is behind: the nose goes up, against the fixed pull outwards
    assert left == pytest.approx(right, abs=1e-6)
    assert sum(act(observe(height=1.0))) > sum(act(observe()))
    slow = act(observe(speed=1.0))
    assert slow[1] < slow[3]  # too slow towards -y, which is to its right: that side goes down


@pytest.mark.simulator
def test_inside_the_lines_costs_nothing_and_outside_pays() -> None:
    task, rng = get_task("DroneCircle"), np.random.default_rng(0)
    simulator = sims.make(task, pictures=False)
    inside, outside = (
        record_episode(simulator, simulator.reset(1), lambda seen, p=pilot: p.act(seen, rng), Recorder(1))
        for pilot in (replace(PILOT, radius=5.0), replace(PILOT, radius=7.0))
    )
    simulator.close()
    assert inside.steps == outside.steps == task.episode_length
    assert inside.cost <= 5 < 50 < outside.cost
    assert 150 < inside.reward < 400 < outside.reward


def test_pilots_differ_and_most_agents_are_pilots() -> None:
    assert draw_pilot(np.random.default_rng(1)) != draw_pilot(np.random.default_rng(2))
    assert [spec.driver for spec in population(get_task("DroneCircle"), 4, 3000, 0, 0)] == [False, True, True, True]
    assert not any(spec.driver for spec in population(get_task("DroneRun"), 4, 3000, 0, 0))
