"""The eight Bullet tasks in real physics: shapes, episode ends, and above all repeatable episodes."""

import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from lspc.errors import UserError
from lspc.sims import Simulator, Step, is_installed, make
from lspc.tasks import SUITES, Task, all_tasks, get_task

pytestmark = pytest.mark.simulator
TASKS = [task.name for task in all_tasks() if task.suite == "bullet"]


def actions_for(task: Task, count: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, (count, task.action_dim)).astype(np.float32)


def rollout(simulator: Simulator, seed: int, actions: np.ndarray) -> list[bytes]:
    """The first observation and every step, as bytes: equal means equal in every bit."""
    trace = [simulator.reset(seed=seed).tobytes()]
    for action in actions:
        step = simulator.step(action)
        trace.append(step.observation.tobytes() + np.array([step.reward, step.cost]).tobytes())
        if step.terminated:
            break
    return trace


def global_generators() -> tuple[bytes, int, object]:
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    return np.asarray(keys).tobytes(), int(position), random.getstate()


def test_there_are_eight_tasks() -> None:
    assert len(TASKS) == 8
    assert all(is_installed(name) for name in TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_an_episode_has_the_promised_shapes_and_end(name: str) -> None:
    task = get_task(name)
    simulator = make(task)
    try:
        for seed in (0, None):
            observation = simulator.reset(seed)
            assert observation.dtype == np.float32
            assert observation.shape == (task.observation_dim,)
            steps: list[Step] = []
            while not steps or not (steps[-1].terminated or steps[-1].truncated):
                steps.append(simulator.step(np.zeros(task.action_dim, np.float32)))
            assert {step.cost for step in steps} <= {0.0, 1.0}
            assert all(step.observation.shape == observation.shape for step in steps)
            assert all(step.observation.dtype == np.float32 and isinstance(step.reward, float) for step in steps)
            assert steps[-1].terminated or len(steps) == task.episode_length
    finally:
        simulator.close()


@pytest.mark.parametrize("name", TASKS)
def test_a_seed_repeats_the_episode_whatever_else_runs(name: str) -> None:
    task = get_task(name)
    actions = actions_for(task, 25)
    first, second = make(task), make(task)
    try:
        expected = rollout(first, 7, actions)
        assert rollout(first, 8, actions) != expected
        first.reset()
        assert rollout(first, 7, actions) == expected

        # Two simulators in turns, each on its own seed.
        traces = [[first.reset(seed=7).tobytes()], [second.reset(seed=8).tobytes()]]
        for action in actions[:10]:
            for simulator, trace in zip((first, second), traces, strict=True):
                step = simulator.step(action)
                trace.append(step.observation.tobytes() + np.array([step.reward, step.cost]).tobytes())
        assert traces[0] == expected[:11]
        assert traces[1] != traces[0]
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("name", TASKS)
def test_leaving_out_the_looks_changes_no_bit(name: str) -> None:
    task = get_task(name)
    actions = np.concatenate([actions_for(task, 30), np.ones((60, task.action_dim), np.float32)])
    seen, unseen = make(task), make(task, pictures=False)
    try:
        assert rollout(seen, 2, actions) == rollout(unseen, 2, actions)
        with pytest.raises(UserError, match="without pictures"):
            unseen.render()
    finally:
        seen.close()
        unseen.close()


@pytest.mark.parametrize("name", TASKS)
def test_the_global_generators_are_left_alone(name: str) -> None:
    task = get_task(name)
    before = global_generators()
    simulator = make(task)
    try:
        simulator.reset()
        simulator.reset(seed=1)
        for action in actions_for(task, 20):
            simulator.step(action)
        simulator.reset()
    finally:
        simulator.close()
    assert global_generators() == before


def test_resets_without_a_seed_continue_the_stream_of_the_last_seed() -> None:
    first, second = make("BallCircle"), make("BallCircle")
    try:
        starts = []
        for simulator in (first, second):
            starts.append([simulator.reset(seed=3).tobytes(), *(simulator.reset().tobytes() for _ in range(3))])
            np.random.default_rng(1).random()
        assert starts[0] == starts[1]
        assert len(set(starts[0])) == 4
        unseeded = make("BallCircle")
        assert unseeded.reset().tobytes() not in starts[0]
        unseeded.close()
    finally:
        first.close()
        second.close()


def test_pictures_actions_and_misuse() -> None:
    simulator = make("BallRun")
    with pytest.raises(UserError, match="call reset"):
        simulator.step(np.zeros(2))
    with pytest.raises(UserError, match="seed -1"):
        simulator.reset(seed=-1)
    try:
        simulator.reset(seed=0)
        picture = simulator.render()
        assert picture.dtype == np.uint8
        assert picture.shape[2] == 3
        assert picture.std() > 1
        with pytest.raises(UserError, match="NaN"):
            simulator.step(np.array([0.0, np.nan]))
        with pytest.raises(UserError, match="shape"):
            simulator.step(np.zeros(3))
        clipped = simulator.step(np.array([9.0, -9.0])).observation
        simulator.reset(seed=0)
        assert clipped.tobytes() == simulator.step(np.array([1.0, -1.0])).observation.tobytes()
    finally:
        simulator.close()


def test_a_missing_simulator_points_to_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, "bullet", replace(SUITES["bullet"], packages=("no_such_package",)))
    with pytest.raises(UserError, match="lspc doctor"):
        make("BallRun")


@pytest.mark.process
def test_importing_is_light_and_running_is_silent() -> None:
    script = (
        "import sys, lspc.sims, lspc.sims.pool\n"
        "assert not {'jax', 'gymnasium', 'pybullet'} & set(sys.modules)\n"
        "print('before', flush=True)\n"
        "simulator = lspc.sims.make('BallRun')\n"
        "simulator.reset(seed=0)\n"
        "simulator.step([0, 0])\n"
        "simulator.close()\n"
        "print('after')\n"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "before\nafter\n", "")
