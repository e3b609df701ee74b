"""The 21 Safety-Gymnasium tasks in real physics: equal to the package itself, repeatable, and drawn as they are."""

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lspc.errors import UserError
from lspc.sims import Step, is_installed, make
from lspc.sims.safety_gymnasium import SafetyGymnasiumSimulator
from lspc.tasks import Task, all_tasks, get_task

pytestmark = pytest.mark.simulator
TASKS = [task.name for task in all_tasks() if task.suite == "safety_gymnasium"]
VELOCITY_TASKS = [name for name in TASKS if name.endswith("Velocity")]


class Simulators(list[SafetyGymnasiumSimulator]):
    def make(self, name: str, pictures: bool = False) -> SafetyGymnasiumSimulator:
        self.append(SafetyGymnasiumSimulator(get_task(name), pictures))
        return self[-1]


@pytest.fixture
def simulators() -> Iterator[Simulators]:
    made = Simulators()
    yield made
    for simulator in made:
        simulator.close()


def actions_for(task: Task, count: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, (count, task.action_dim)).astype(np.float32)


def as_bytes(step: Step) -> bytes:
    return step.observation.tobytes() + np.array([step.reward, step.cost, step.terminated]).tobytes()


def rollout(simulator: SafetyGymnasiumSimulator, seed: int, actions: np.ndarray) -> list[bytes]:
    """The first observation and every step, as bytes: equal means equal in every bit."""
    trace = [simulator.reset(seed=seed).tobytes()]
    for action in actions:
        step = simulator.step(action)
        trace.append(as_bytes(step))
        if step.terminated:
            break
    return trace


def global_generators() -> tuple[bytes, int, object]:
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    return np.asarray(keys).tobytes(), int(position), random.getstate()


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_there_are_21_tasks() -> None:
    assert len(TASKS) == 21
    assert all(is_installed(name) for name in TASKS)
    assert isinstance(make("PointCircle1"), SafetyGymnasiumSimulator)


@pytest.mark.parametrize("name", TASKS)
def test_an_episode_has_the_promised_shapes(name: str, simulators: Simulators) -> None:
    task = get_task(name)
    simulator = simulators.make(name)
    first = simulator.reset(seed=0)
    steps = [simulator.step(action) for action in actions_for(task, 15)]
    for observation in (first, *(step.observation for step in steps)):
        assert observation.dtype == np.float32
        assert observation.shape == (task.observation_dim,)
        assert np.isfinite(observation).all()
    assert all(isinstance(step.reward, float) and np.isfinite(step.reward) for step in steps)
    assert {step.cost for step in steps} <= {0.0, 1.0}
    assert not any(step.truncated for step in steps)
    bounds = simulator._world.action_space
    assert bounds.shape == (task.action_dim,)
    assert (bounds.low == -1).all()
    assert (bounds.high == 1).all()


@pytest.mark.parametrize("name", TASKS)
def test_a_seed_repeats_the_episode_whatever_else_runs(name: str, simulators: Simulators) -> None:
    actions = actions_for(get_task(name), 15)
    before = global_generators()
    first, second = simulators.make(name), simulators.make(name, pictures=True)
    expected = rollout(first, 7, actions)
    assert rollout(first, 8, actions) != expected
    first.reset()
    assert rollout(first, 7, actions) == expected

    # Two simulators in turns, the fresh one on the seed that the other had.
    traces = [[first.reset(seed=8).tobytes()], [second.reset(seed=7).tobytes()]]
    for action in actions:
        for simulator, trace in zip((first, second), traces, strict=True):
            trace.append(as_bytes(simulator.step(action)))
    assert traces[1] == expected
    assert traces[0] != traces[1]
    assert global_generators() == before


@pytest.mark.parametrize("name", ["CarGoal1", "CarPush2", "CarCircle2", "CarButton1", *VELOCITY_TASKS])
def test_every_bit_is_what_the_package_itself_gives(name: str, simulators: Simulators) -> None:
    """The package with its own sky, its own layouts and all wrappers, against ours on a second visit to the seed."""
    import gymnasium

    task = get_task(name)
    actions = np.concatenate([actions_for(task, 20), np.ones((200, task.action_dim), np.float32)])
    simulator = simulators.make(name)
    simulator.reset(seed=3)
    trace = rollout(simulator, 3, actions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world: Any = gymnasium.make(task.gym_id.replace("Offline", "Safety"))
        expected = [np.asarray(world.reset(seed=3)[0], np.float32).tobytes()]
        costs = []
        for action in actions[: len(trace) - 1]:
            observation, reward, terminated, truncated, info = world.step(action)
            step = Step(np.asarray(observation, np.float32), float(reward), info["cost"], terminated, truncated)
            expected.append(as_bytes(step))
            costs.append(info["cost"])
    assert trace == expected
    if name in ("CarCircle2", "SwimmerVelocity"):
        assert sum(costs) > 0


def test_the_sky_is_not_decoded_at_resets(simulators: Simulators) -> None:
    simulator = simulators.make("PointGoal1", pictures=True)
    simulator.reset()
    assert simulator._world.task.model.ntexdata < 1e6


@pytest.mark.parametrize("name", ["PointCircle1", "PointGoal1", "HalfCheetahVelocity", "SwimmerVelocity"])
def test_an_episode_ends_at_its_length(name: str, simulators: Simulators) -> None:
    task = get_task(name)
    simulator = simulators.make(name)
    for seed in (0, None) if name.endswith("Velocity") else (0,):
        simulator.reset(seed)
        steps = [simulator.step(np.zeros(task.action_dim)) for _ in range(task.episode_length)]
        assert [step.truncated for step in steps] == [False] * (task.episode_length - 1) + [True]
        assert not any(step.terminated for step in steps)
    with pytest.raises(UserError, match="over"):
        simulator.step(np.zeros(task.action_dim))


@pytest.mark.parametrize("name", ["HopperVelocity", "Walker2dVelocity"])
def test_a_fall_terminates(name: str, simulators: Simulators) -> None:
    simulator = simulators.make(name)
    simulator.reset(seed=0)
    steps = []
    while not steps or not (steps[-1].terminated or steps[-1].truncated):
        steps.append(simulator.step(np.ones(simulator.task.action_dim)))
    assert len(steps) < simulator.task.episode_length
    assert steps[-1].terminated
    assert not steps[-1].truncated


@pytest.mark.parametrize("name", ["CarCircle1", "HopperVelocity"])
def test_resets_without_a_seed_continue_the_stream_of_the_last_seed(name: str, simulators: Simulators) -> None:
    starts = []
    for simulator in (simulators.make(name), simulators.make(name)):
        starts.append([simulator.reset(seed=3).tobytes(), *(simulator.reset().tobytes() for _ in range(3))])
    assert starts[0] == starts[1]
    assert len(set(starts[0])) == 4
    assert simulators.make(name).reset().tobytes() not in starts[0]


def test_pictures_show_the_scene_and_change_nothing(simulators: Simulators) -> None:
    car, ant = simulators.make("CarGoal1", pictures=True), simulators.make("AntVelocity", pictures=True)
    actions = actions_for(car.task, 5)
    unseen = rollout(car, 1, actions)
    car.reset(seed=0)
    ant.reset(seed=0)
    environment = dict(os.environ)
    for simulator in (car, ant):
        picture = simulator.render()
        assert picture.dtype == np.uint8
        assert picture.shape == (360, 480, 3)
        assert picture.std() > 10
    assert dict(os.environ) == environment

    trace = [car.reset(seed=1).tobytes()]
    red, green, blue = (car.render()[..., colour].astype(int) for colour in range(3))
    assert (red - np.maximum(green, blue) > 80).sum() > 50, "the car is red"
    assert (green - np.maximum(red, blue) > 60).sum() > 50, "the goal is green"
    assert (blue - np.maximum(red, green) > 60).sum() > 50, "hazards are blue"
    for action in actions:
        trace.append(as_bytes(car.step(action)))
        car.render()
    assert trace == unseen

    # Painters share what they draw with, and a painter stays when its world is built anew.
    other = simulators.make("CarGoal1", pictures=True)
    rollout(other, 1, actions)
    ant.close()
    assert (other.render() == car.render()).all()


def test_without_pictures_there_are_none(simulators: Simulators) -> None:
    simulator = simulators.make("SwimmerVelocity")
    simulator.reset()
    with pytest.raises(UserError, match="without pictures"):
        simulator.render()


def test_misuse_is_explained(simulators: Simulators) -> None:
    simulator = simulators.make("PointCircle1", pictures=True)
    for early in (lambda: simulator.step(np.zeros(2)), simulator.render):
        with pytest.raises(UserError, match="call reset"):
            early()
    for seed in (-1, 2**32):
        with pytest.raises(UserError, match=f"seed {seed}"):
            simulator.reset(seed=seed)
    simulator.reset(seed=0)
    with pytest.raises(UserError, match="NaN"):
        simulator.step(np.array([0.0, np.nan]))
    with pytest.raises(UserError, match="shape"):
        simulator.step(np.zeros(3))
    clipped = simulator.step(np.array([9.0, -9.0])).observation
    simulator.reset(seed=0)
    assert clipped.tobytes() == simulator.step(np.array([1.0, -1.0])).observation.tobytes()
    simulator.close()
    with pytest.raises(UserError, match="call reset"):
        simulator.step(np.zeros(2))
    assert simulator.reset(seed=0).shape == (28,)


@pytest.mark.process
def test_importing_is_light_and_making_one_leaves_no_trace() -> None:
    ran = run(
        "import dataclasses, sys\n"
        "import lspc.sims.safety_gymnasium\n"
        "assert not {'jax', 'gymnasium', 'mujoco', 'safety_gymnasium', 'yaml'} & set(sys.modules)\n"
        "before = dict(vars(dataclasses))\n"
        "simulator = lspc.sims.make('CarGoal1')\n"
        "simulator.reset(seed=0)\n"
        "simulator.step([0, 0])\n"
        "assert simulator.render().std() > 10\n"
        "assert vars(dataclasses) == before\n"
        "import numpy, safety_gymnasium.assets.color, safety_gymnasium.world, yaml\n"
        "assert safety_gymnasium.world.yaml is yaml\n"
        "assert {type(colour) for colour in safety_gymnasium.assets.color.COLOR.values()} == {numpy.ndarray}\n"
        "print('not even closed')\n"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "not even closed\n", "")


@pytest.mark.process
@pytest.mark.parametrize("library", ["egl", "glfw"])
def test_without_opengl_there_is_physics_and_a_plain_word_about_pictures(library: str) -> None:
    ran = run(
        "import lspc.sims\n"
        "simulator = lspc.sims.make('CarCircle1')\n"
        "simulator.reset(seed=0)\n"
        "simulator.step([0, 0])\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        simulator.render()\n"
        "    except lspc.errors.UserError as error:\n"
        "        print(error)\n",
        MUJOCO_GL=library,
        MUJOCO_EGL_DEVICE_ID="99",
        DISPLAY="",
        WAYLAND_DISPLAY="",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert len(lines) == 2
    assert all("OpenGL" in line and "apt-get install libegl1" in line for line in lines)
