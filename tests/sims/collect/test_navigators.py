"""Navigators see what a policy sees, and their manners differ in what they earn and cost."""

import math

import numpy as np
import pytest

from lspc import sims
from lspc.sims.collect.episodes import Played, Recorder, record_episode
from lspc.sims.collect.navigators import (
    BINS,
    Circler,
    GoalSeeker,
    Navigator,
    draw_navigator,
    find_bearing,
    find_layout,
    navigate,
)
from lspc.sims.collect.population import AgentSpec, population
from lspc.tasks import Task, all_tasks, get_task


def reading(**bins: float) -> np.ndarray:
    values = np.zeros(BINS)
    for name, value in bins.items():
        values[int(name[1:])] = value
    return values


def play(task: Task, navigator: Navigator, seed: int) -> Played:
    simulator, rng = sims.make(task, pictures=False), np.random.default_rng(seed)
    played = record_episode(simulator, simulator.reset(seed), lambda seen: navigator.act(seen, rng), Recorder(1))
    simulator.close()
    return played


def test_a_bearing_is_read_from_how_two_bins_share_a_thing() -> None:
    assert find_bearing(reading()) is None
    # Three quarters through the third bin: the next bin shows three quarters of it, the one before a quarter.
    assert find_bearing(reading(b1=0.2, b2=0.8, b3=0.6)) == pytest.approx(2.75 * math.pi / 8)
    assert find_bearing(reading(b15=0.5, b0=0.0)) == pytest.approx(15 * math.pi / 8)


def test_lidars_fill_the_observation_of_every_task_with_a_navigator() -> None:
    layouts = {task: layout for task in all_tasks() if (layout := find_layout(task)) is not None}
    assert len(layouts) == 12  # two robots, three kinds of task, two levels
    for task, (_, lidars) in layouts.items():
        assert max(place.stop for place in lidars.values()) == task.observation_dim, task.name


def test_one_agent_in_four_learns_where_there_are_navigators() -> None:
    assert [spec.driver for spec in population(get_task("CarGoal1"), 8, 1000, 0, 0)] == [False, True, True, True] * 2
    assert not any(spec.driver for spec in population(get_task("PointPush1"), 8, 1000, 0, 0))


CAREFUL = {"care": 1.5, "slide": 1.0, "swirl": 0.6, "clearance": 0.4, "reach": 1.0, "cruise": 1.0, "brake": 1.0}
RECKLESS = {**CAREFUL, "care": 0.0, "slide": 0.0, "swirl": 0.0, "brake": 0.0}


def goal_seeker(task: str, noise: float = 0.0, **manner: float) -> GoalSeeker:
    layout = find_layout(get_task(task))
    assert layout is not None
    return GoalSeeker(*layout, **{**CAREFUL, **manner}, noise=noise)


def test_a_goal_seeker_goes_round_what_is_in_its_way() -> None:
    careful, rng = goal_seeker("PointGoal1"), np.random.default_rng(0)
    observation = np.zeros(60)
    observation[careful.lidars["goal"]] = reading(b0=0.5)
    free = careful.act(observation, rng)
    np.testing.assert_allclose(free, [1.0, 0.0], atol=1e-6)
    observation[careful.lidars["hazards"]] = reading(b15=0.8, b0=0.8)  # right ahead
    for seeker, turns in ((careful, True), (goal_seeker("PointGoal1", **RECKLESS), False)):
        thrust, turn = seeker.act(observation, rng)
        assert (abs(turn) > 0.5, thrust < 1.0) == (turns, turns)


def test_what_a_goal_seeker_does_changes_little_with_what_it_sees() -> None:
    """Round a hazard and past every bearing of the goal: a clone of a jump would drive straight on."""
    seeker, rng = goal_seeker("PointGoal1"), np.random.default_rng(0)

    def look(goal: float, hazard: float, distance: float) -> np.ndarray:
        observation = np.zeros(60)
        observation[seeker.lidars["goal"]] = lidar(goal, 1.5)
        observation[seeker.lidars["hazards"]] = lidar(hazard, distance)
        return observation

    places = np.linspace(0.0, 2 * np.pi, 20_000)
    for distance in (0.4, 0.6, 0.9):
        actions = np.array([seeker.act(look(0.3, hazard, distance), rng) for hazard in places])
        assert np.abs(np.diff(actions, axis=0)).max() < 0.02, distance
    actions = np.array([seeker.act(look(goal, 2.0, 0.6), rng) for goal in places])
    assert np.abs(np.diff(actions, axis=0)).max() < 0.02


def lidar(bearing: float, distance: float) -> np.ndarray:
    """What Safety-Gymnasium's lidar shows of one thing: its bin, and the two beside it by the place within."""
    whole, part = divmod(bearing / (2 * np.pi / BINS), 1.0)
    values, seen = np.zeros(BINS), 1.0 - distance / 3.0
    for offset, share in ((0, 1.0), (1, part), (-1, 1.0 - part)):
        values[(int(whole) + offset) % BINS] = max(values[(int(whole) + offset) % BINS], share * seen)
    return values


@pytest.mark.simulator
def test_a_careful_navigator_reaches_goals_at_less_cost_than_a_reckless_one() -> None:
    task = get_task("CarGoal1")
    careful = play(task, goal_seeker("CarGoal1", noise=0.05), seed=1)
    reckless = play(task, goal_seeker("CarGoal1", noise=0.05, **RECKLESS), seed=1)
    assert careful.cost <= 5 < reckless.cost
    assert careful.reward > 5


@pytest.mark.simulator
def test_a_small_circle_is_safe_and_a_large_one_is_not() -> None:
    task = get_task("PointCircle1")
    layout = find_layout(task)
    assert layout is not None
    small, large = (play(task, Circler(*layout, radius, thrust=0.4, noise=0.05), seed=1) for radius in (0.4, 1.2))
    assert small.cost == 0 < 100 < large.cost
    assert 20 < small.reward < large.reward


@pytest.mark.simulator
def test_navigators_record_what_they_do() -> None:
    told: list[dict[str, float]] = []
    arrays = navigate(AgentSpec("PointCircle1", 1, None, 0.0, 1000, 0, seed=3, driver=True), told.append)
    assert len(told) == 2
    assert arrays["observations"].shape == (1000, 28)
    assert np.flatnonzero(arrays["timeouts"]).tolist() == [499, 999]
    assert told[0]["reward"] == pytest.approx(float(arrays["rewards"][:500].sum()), rel=1e-4)
    manners = [draw_navigator(get_task("PointCircle1"), np.random.default_rng(seed)) for seed in (1, 2)]
    assert manners[0] != manners[1]
