"""The nine MetaDrive tasks in real traffic: DSRL's costs and ends, repeatable episodes, one world for a process."""

import gc
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.metadrive import digest, driven

from lspc.errors import UserError
from lspc.sims import is_installed, make
from lspc.sims.metadrive import ROADS, SCENES, IDMDriver, MetaDriveSimulator, driving_cost, map_picture
from lspc.tasks import all_tasks, get_task

pytestmark = pytest.mark.simulator
TASKS = [task.name for task in all_tasks() if task.suite == "metadrive"]
GAS, BRAKE = np.array([0.0, 1.0]), np.array([0.0, -1.0])

Maker = Callable[..., MetaDriveSimulator]


@pytest.fixture
def simulator_of() -> Iterator[Maker]:
    """Makes simulators of a task and closes them after the test: the next one needs the process's only world."""
    made: list[MetaDriveSimulator] = []

    def make_one(name: str, **options: Any) -> MetaDriveSimulator:
        made.append(MetaDriveSimulator(get_task(name), **options))
        return made[-1]

    yield make_one
    for simulator in made:
        simulator.close()


def global_generators() -> tuple[bytes, int, object]:
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    return np.asarray(keys).tobytes(), int(position), random.getstate()


def test_there_are_nine_tasks() -> None:
    assert len(TASKS) == 9
    assert set(TASKS) == set(SCENES)
    assert all(is_installed(name) for name in TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_an_episode_has_the_promised_shapes_and_costs(name: str, simulator_of: Maker) -> None:
    simulator, task = simulator_of(name), get_task(name)
    driver = IDMDriver(simulator, np.random.default_rng(0))
    for seed in (0, None):
        observation = simulator.reset(seed)
        for _ in range(40):
            assert observation.dtype == np.float32
            assert observation.shape == (task.observation_dim,)
            assert np.isfinite(observation).all()
            action = driver.act()
            assert action.shape == (task.action_dim,)
            step = simulator.step(action)
            assert isinstance(step.reward, float)
            assert step.cost == driving_cost(simulator.car().speed, step.observation) < 1
            assert (step.terminated, step.truncated) == (False, False)
            observation = step.observation
    assert simulator.car().speed > 10, "the driver drives, so the cost of speed was among those compared"


def test_the_costs_of_speed_and_nearness_by_hand() -> None:
    observation = np.ones(259, np.float32)
    observation[:19] = 0  # the car's own state, which is not a distance
    assert driving_cost(10, observation) == 0
    assert driving_cost(5, observation) == 0
    assert driving_cost(30, observation) == pytest.approx(0.2)
    observation[100] = 0.04
    assert driving_cost(10, observation) == pytest.approx(0.01 * 0.06**2)
    assert driving_cost(30, observation) == pytest.approx(0.2 + 0.01 * 0.06**2)


def test_leaving_the_road_costs_one_and_ends_the_episode(simulator_of: Maker) -> None:
    simulator = simulator_of("mediummean")
    simulator.reset(seed=0)
    step = simulator.step(GAS)
    while not step.terminated:
        assert step.cost < 1
        step = simulator.step(np.array([-0.3, 0.5]))
    assert step.reward == -5
    assert step.cost == pytest.approx(1 + driving_cost(simulator.car().speed, step.observation))
    assert not step.truncated


def test_a_crash_costs_one_and_ends_the_episode(simulator_of: Maker) -> None:
    simulator = simulator_of("harddense")
    simulator.reset(seed=0)
    driver = IDMDriver(simulator, np.random.default_rng(0), target_speed=50, brakes=False, lane_changes=False)
    step = simulator.step(driver.act())
    while not step.terminated:
        step = simulator.step(driver.act())
    assert simulator.car().crash_vehicle
    assert step.reward == 0
    assert 1 < step.cost < 2


def test_a_standing_car_is_stopped_by_the_clock(simulator_of: Maker) -> None:
    simulator = simulator_of("mediumsparse")
    simulator.reset(seed=0)
    for _ in range(simulator.task.episode_length - 1):
        step = simulator.step(BRAKE)
        assert (step.terminated, step.truncated) == (False, False)
    step = simulator.step(BRAKE)
    assert (step.terminated, step.truncated) == (False, True)


def test_the_driver_reaches_the_goal_and_the_best_return_in_the_table(simulator_of: Maker) -> None:
    simulator = simulator_of("easysparse")
    simulator.reset(seed=1)
    driver = IDMDriver(simulator, np.random.default_rng(0))
    total, step = 0.0, None
    while step is None or not (step.terminated or step.truncated):
        step = simulator.step(driver.act())
        total += step.reward
    assert simulator.car().arrive_destination
    assert simulator.task.reward_max - 10 < total < simulator.task.reward_max + 1
    assert step.reward == 10
    assert step.cost < 1


def test_a_seed_decides_every_bit(simulator_of: Maker) -> None:
    simulator = simulator_of("easydense")
    expected, actions = driven(simulator, 7, 80)
    assert driven(simulator, 8, 80)[0] != expected
    simulator.reset()
    assert driven(simulator, 7, 80)[0] == expected

    # The driver leaves no trace in the world: its actions alone give the same episode.
    seen = [simulator.reset(7).tobytes()]
    for action in actions:
        step = simulator.step(action)
        seen.append(step.observation.tobytes() + np.array([step.reward, step.cost]).tobytes())
    assert seen == expected


@pytest.mark.process
@pytest.mark.parametrize("name", ["easysparse", "mediummean", "harddense"])
def test_another_process_repeats_it(name: str) -> None:
    tests = str(Path(__file__).parents[1])
    script = (
        f"import sys; sys.path.insert(0, {tests!r}); from helpers.metadrive import digest; print(digest({name!r}))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == digest(name)


def test_seeds_and_tasks_differ_in_traffic(simulator_of: Maker) -> None:
    def places(simulator: MetaDriveSimulator, seed: int | None) -> set[tuple[float, ...]]:
        simulator.reset(seed)
        cars = simulator.car().engine.traffic_manager.vehicles
        return {tuple(car.position) for car in cars if car is not simulator.car()}

    simulator = simulator_of("easymean")
    seeded, other, unseeded = (frozenset(places(simulator, seed)) for seed in (0, 1, None))
    assert len({seeded, other, unseeded}) == 3
    assert len(seeded) == len(other) == len(unseeded)
    counts = []
    for name in ("easysparse", "easymean", "easydense"):
        simulator.close()
        simulator = simulator_of(name)
        counts.append(len(places(simulator, 0)))
    assert counts == sorted(set(counts)), "denser traffic is more cars"


def test_a_task_keeps_to_one_road_but_can_be_given_nine_others(simulator_of: Maker) -> None:
    goals = []
    for number, seed in ((0, 0), (0, 1), (3, 0)):
        simulator = simulator_of("hardsparse", road_number=number)
        simulator.reset(seed)
        goals.append(tuple(simulator.car().navigation.final_lane.end))
        simulator.close()
    assert goals[0] == goals[1] != goals[2]


def test_the_global_generators_are_left_alone(simulator_of: Maker) -> None:
    before = global_generators()
    simulator = simulator_of("harddense")
    simulator.reset()
    driven(simulator, 1, 60)
    simulator.reset()
    simulator.render()
    simulator.close()
    assert global_generators() == before


def test_one_world_for_a_process(simulator_of: Maker) -> None:
    first, second = simulator_of("easysparse"), simulator_of("hardsparse")
    first.reset(seed=0)
    for seed in (0, None):
        with pytest.raises(UserError, match=r"hardsparse cannot start: .* only one; .* worker") as raised:
            second.reset(seed)
        assert "\n" not in str(raised.value)
    first.step(GAS)
    first.close()
    first.close()
    second.reset()
    second.step(GAS)
    second.close()
    first.reset()
    first.step(GAS)

    first.close()
    lost = MetaDriveSimulator(get_task("mediumdense"))
    lost.reset()
    del lost
    first.reset(seed=0)


def test_closed_worlds_leave_nothing_behind(simulator_of: Maker) -> None:
    def lanes() -> int:
        gc.collect()
        return sum(type(thing).__name__ == "StraightLane" for thing in gc.get_objects())

    simulator = simulator_of("hardmean")
    simulator.reset(seed=0)
    in_one_world = lanes()
    assert in_one_world > 0
    for seed in range(3):
        simulator.reset(seed)
    simulator.close()
    assert lanes() < in_one_world


def test_pictures(simulator_of: Maker) -> None:
    simulator = simulator_of("easydense")
    simulator.reset(seed=0)
    first = simulator.render()
    assert first.dtype == np.uint8
    assert first.shape == (480, 640, 3)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 10
    middle = first[235:245, 315:325].reshape(-1, 3).astype(int)
    assert (middle[:, 0] > 150).any(), "our red car is in the middle"
    for _ in range(10):
        simulator.step(GAS)
    assert (simulator.render() != first).any()

    with pytest.raises(UserError, match="only one"):
        map_picture("SCS")
    simulator.close()
    maps = [map_picture(road.blocks) for road in ROADS.values()]
    assert len({picture.shape for picture in maps}) == 3
    for picture in maps:
        assert picture.dtype == np.uint8
        assert max(picture.shape) == 1600
        assert picture.std() > 10
    with pytest.raises(UserError, match="SCS, XST, TRO"):
        map_picture("SSS")


def test_misuse_is_answered_in_one_line(simulator_of: Maker) -> None:
    simulator = simulator_of("easysparse", pictures=False)
    for too_early in (lambda: simulator.step(GAS), IDMDriver(simulator, np.random.default_rng(0)).act):
        with pytest.raises(UserError, match="call reset"):
            too_early()
    with pytest.raises(UserError, match="seed -1"):
        simulator.reset(seed=-1)
    simulator.reset(seed=0)
    with pytest.raises(UserError, match="without pictures"):
        simulator.render()
    with pytest.raises(UserError, match="NaN"):
        simulator.step(np.array([0.0, np.nan]))
    with pytest.raises(UserError, match="shape"):
        simulator.step(np.zeros(3))
    clipped = simulator.step(np.array([9.0, -9.0])).observation
    simulator.reset(seed=0)
    assert clipped.tobytes() == simulator.step(np.array([1.0, -1.0])).observation.tobytes()
    simulator.close()
    with pytest.raises(UserError, match="call reset"):
        simulator.step(GAS)
    with pytest.raises(UserError, match="roads 0 to 9, not 10"):
        simulator_of("easysparse", road_number=10)
    with pytest.raises(UserError, match="above 0"):
        IDMDriver(simulator, np.random.default_rng(0), target_speed=0)


@pytest.mark.process
def test_the_rest_of_the_process_is_untouched() -> None:
    script = (
        "import logging, os, sys\n"
        "import lspc.sims.metadrive\n"
        "assert not {'metadrive', 'panda3d', 'pygame', 'cv2'} & set(sys.modules)\n"
        "import numpy\n"
        "environment = dict(os.environ)\n"
        "print('before', flush=True)\n"
        "simulator = lspc.sims.make('mediumdense')\n"
        "for seed in (0, None, 1):\n"
        "    simulator.reset(seed)\n"
        "    simulator.step([0, 1])\n"
        "simulator.render()\n"
        "assert not {'float', 'int', 'object', 'str'} & set(vars(numpy))\n"
        "assert not {'gym', 'gymnasium', 'seaborn', 'matplotlib', 'tensorflow'} & set(sys.modules)\n"
        "assert os.environ == environment\n"
        "assert logging.root.handlers == []\n"
        "print('after')\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "SDL_VIDEODRIVER")}
    environment.pop("PYGAME_HIDE_SUPPORT_PROMPT", None)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, env=environment
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "before\nafter\n", "")


def test_make_gives_this_simulator() -> None:
    assert isinstance(make("easysparse"), MetaDriveSimulator)
