"""The three simulators together: one process, one contract, and one clear line where one is broken."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lspc import algos, sims, training
from lspc.algos.base import Spec
from lspc.data import Dataset, load, save
from lspc.evaluation import evaluate
from lspc.sims.collect.drivers import drive
from lspc.sims.collect.population import AgentSpec, population
from lspc.tasks import Task, all_tasks, get_task

TRIO = ("BallCircle", "PointCircle1", "easysparse")


@pytest.mark.simulator
def test_all_three_live_in_one_process() -> None:
    worlds = [sims.make(name) for name in TRIO]
    try:
        firsts = [world.reset(seed=1) for world in worlds]
        # Turn by turn, then again one by one: nobody disturbs the others.
        actions = np.random.default_rng(0).uniform(-1, 1, (10, 2)).astype(np.float32)
        mixed = [[world.step(action).observation for world in worlds] for action in actions]
        pictures = [world.render() for world in worlds]
        for i, world in enumerate(worlds):
            np.testing.assert_array_equal(world.reset(seed=1), firsts[i])
            for action, seen in zip(actions, mixed, strict=True):
                np.testing.assert_array_equal(world.step(action).observation, seen[i])
        assert all(picture.dtype == np.uint8 and picture.std() > 5 for picture in pictures)
    finally:
        for world in worlds:
            world.close()


def test_every_task_has_its_simulator_here() -> None:
    assert all(sims.is_installed(task) for task in all_tasks())


def random_data(task: Task, episodes: int = 4, steps: int = 30) -> Dataset:
    rng, rows = np.random.default_rng(0), episodes * steps
    path = rng.normal(size=(episodes, steps + 1, task.observation_dim)).astype(np.float32)
    return Dataset(
        observations=path[:, :-1].reshape(rows, -1),
        actions=rng.uniform(-1, 1, (rows, task.action_dim)).astype(np.float32),
        rewards=rng.normal(size=rows).astype(np.float32),
        costs=(rng.random(rows) < 0.1).astype(np.float32),
        next_observations=path[:, 1:].reshape(rows, -1),
        terminated=np.zeros(rows, bool),
        truncated=np.arange(rows) % steps == steps - 1,
    )


@pytest.mark.simulator
@pytest.mark.process
@pytest.mark.parametrize("name", ["HopperVelocity", "easysparse"])
def test_a_policy_is_trained_and_measured_there(name: str, tmp_path: Path) -> None:
    task = get_task(name)
    config = algos.get("bc").Config(steps=5, batch_size=16, hidden=(8, 8))
    run = training.train(random_data(task), tmp_path / name, config, method="bc", task=task)
    ways = {workers: evaluate(run, task, episodes=3, modes=("deterministic",), workers=workers) for workers in (0, 2)}
    assert ways[0] == ways[2]
    assert all(0 < record.length <= task.episode_length for record in ways[0])


@pytest.mark.simulator
def test_drivers_of_many_manners_record_what_they_do() -> None:
    told: list[dict[str, float]] = []
    spec = AgentSpec("easysparse", 1, None, 0.0, 1500, 0, seed=3, driver=True)
    arrays = drive(spec, told.append)
    ends = np.flatnonzero(arrays["terminals"] | arrays["timeouts"])
    assert ends[-1] + 1 == len(arrays["rewards"]) >= 1500
    assert len(told) == len(ends)
    assert told[-1]["steps"] == 1500
    first = slice(0, int(ends[0]) + 1)
    assert arrays["rewards"][first].sum() == pytest.approx(told[0]["reward"], rel=1e-4)
    np.testing.assert_array_equal(arrays["next_observations"][first][:-1], arrays["observations"][first][1:])
    assert (np.abs(arrays["actions"]) <= 1).all()
    assert Spec.of(random_data(get_task("easysparse"))).observation_dim == arrays["observations"].shape[1]


def test_most_of_metadrives_population_are_drivers() -> None:
    kinds = [spec.driver for spec in population(get_task("easysparse"), 8, 1000, 0, 0)]
    assert kinds == [False, True, True, True, False, True, True, True]
    assert not any(spec.driver for spec in population(get_task("HopperVelocity"), 8, 1000, 0, 0))


def collected(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lspc.cli", "collect", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.simulator
@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "steps", "agents"), [("PointCircle1", 4096, 1), ("easysparse", 2100, 2)]
)  # fmt: skip
def test_collecting_there(name: str, steps: int, agents: int, tmp_path: Path) -> None:
    out = tmp_path / "data.hdf5"
    done = collected("--task", name, "--out", out, "--steps", steps, "--agents", agents)
    # So short a collection may hold nothing worth keeping, which is told in one line.
    assert done.returncode == 0 or "worth keeping" in done.stderr.splitlines()[-1], done.stderr
    if done.returncode == 0:
        dataset, task = load(out), get_task(name)
        assert (dataset.observation_dim, dataset.action_dim) == (task.observation_dim, task.action_dim)


WITHOUT = "import sys; sys.modules[{package!r}] = None; from lspc.cli import main; main({arguments!r})"


@pytest.mark.process
@pytest.mark.parametrize(
    ("package", "task"), [("bullet_safety_gym", "BallRun"), ("mujoco", "CarGoal1"), ("metadrive", "harddense")]
)
def test_a_missing_simulator_is_one_line_and_exit_code_1(package: str, task: str, tmp_path: Path) -> None:
    arguments = ["collect", "--task", task, "--out", str(tmp_path / "a.hdf5")]
    code = WITHOUT.format(package=package, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    expected = f"lspc: {task} needs {package} (not installed): `lspc doctor` says what to do\n"
    assert (done.stdout, done.stderr) == ("", expected)


@pytest.mark.process
def test_a_package_that_breaks_on_import_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "panda3d").mkdir()
    (tmp_path / "panda3d" / "__init__.py").write_text("raise ImportError('libGL.so.1 is missing')")
    command = [sys.executable, "-m", "lspc.cli", "collect", "--task", "easymean", "--out", str(tmp_path / "a.hdf5")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("lspc: the simulator of easymean does not start (libGL.so.1")
    assert "Traceback" not in done.stderr


@pytest.mark.simulator
@pytest.mark.process
def test_pictures_without_a_way_to_draw_are_one_line(tmp_path: Path) -> None:
    task = get_task("PointCircle1")
    data, run = tmp_path / "data.hdf5", tmp_path / "run"
    save(random_data(task), data, metadata={"task": task.name})
    config = algos.get("bc").Config(steps=2, batch_size=16, hidden=(8, 8))
    training.train(load(data), run, config, method="bc", task=task)
    command = [sys.executable, "-m", "lspc.cli", "render", str(run), "--episodes", "1"]
    environment = {**os.environ, "MUJOCO_GL": "glfw"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "MUJOCO_GL" in done.stderr.splitlines()[-1]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (run / "episodes.gif").read_bytes().startswith(b"GIF89a")
