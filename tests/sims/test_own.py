"""A user's own environment in the place of a task: sizes, costs, units, episodes and everything that can be wrong."""

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lspc import sims
from lspc.acting import Seen
from lspc.errors import UserError
from lspc.sims.own import name_factory
from lspc.sims.pool import Pool
from lspc.tasks.own import OwnTask, is_own, make_own

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    sys.modules.pop("heated_tank", None)


def tank(name: str = "heated_tank:HeatedTank", **changes: Any) -> OwnTask:
    known: dict[str, Any] = {"observation_dim": 2, "action_dim": 1, "horizon": 60, "budgets": (5.0,)}
    return make_own(name, **{**known, **changes})


def half_open(seen: Seen) -> np.ndarray:
    return np.full((len(seen.seeds), 1), 50.0, np.float32)


def test_an_episode_in_the_plants_units() -> None:
    world = sims.make(tank())
    first = world.reset(seed=3)
    assert first.dtype == np.float32
    assert 40 <= first[0] <= 60
    steps = [world.step(np.array([120.0])) for _ in range(60)]  # clipped to 100 %, which is too hot
    assert {step.cost for step in steps} == {0.0, 1.0}
    assert [step.truncated for step in steps].count(True) == 1
    assert steps[-1].truncated
    assert world.render().shape == (120, 160, 3)
    world.close()


def test_a_seed_repeats_an_episode_and_the_horizon_ends_it() -> None:
    world = sims.make(tank(horizon=7), pictures=False)

    def roll() -> list[np.ndarray]:
        seen = [world.reset(seed=11)]
        while True:
            step = world.step(np.array([30.0]))
            seen.append(step.observation)
            if step.truncated:
                return seen

    first, second = roll(), roll()
    assert len(first) == 8
    np.testing.assert_array_equal(first, second)


def test_a_registered_environment_and_the_name_of_the_cost() -> None:
    pendulum = tank("gym:Pendulum-v1", observation_dim=3, action_dim=1)
    world = sims.make(pendulum, pictures=False)
    world.reset(seed=0)
    with pytest.raises(UserError, match=r"gym:Pendulum-v1: a step's info has no 'cost' .*--cost-key"):
        world.step(np.zeros(1))


class SixTuple:
    """No gymnasium.Env at all: what an environment of Safety-Gymnasium's kind returns."""

    def __init__(self) -> None:
        import gymnasium

        self.observation_space = gymnasium.spaces.Box(-1, 1, (1, 2))
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict]:
        return np.zeros((1, 2)), {}

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        return np.zeros((1, 2)), 2.0, 3.0, True, False, {}

    def close(self) -> None: ...

    def render(self) -> None: ...


def test_the_cost_may_stand_beside_the_reward() -> None:
    world = sims.make(tank("here:SixTuple", factory=SixTuple))
    assert world.reset(seed=0).shape == (2,)
    assert world.step(np.zeros(1))[1:] == (2.0, 3.0, True, False)
    with pytest.raises(UserError, match="draws no pictures"):
        world.render()


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (tank("nowhere_to_be_found.plants:make"), "there is no module nowhere_to_be_found.plants"),
        (tank("heated_tank:make_pond"), "the module heated_tank has no 'make_pond'"),
        (tank("heated_tank:LIMIT"), "is a float; name a class or a function"),
        (tank("builtins:dict"), "made a dict, which is not a gymnasium environment"),
        (tank("gym:Pond-v0"), "gymnasium cannot make it"),
        (tank(observation_dim=3), "has observations of size 2, the policy was trained on 3"),
        (tank(action_dim=2), "has actions of size 1, the policy was trained on 2"),
        (tank("gym:CartPole-v1", observation_dim=4), "its actions are Discrete"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(task: OwnTask, told: str) -> None:
    with pytest.raises(UserError, match=told) as refused:
        sims.make(task, pictures=False)
    assert "\n" not in str(refused.value)


@pytest.mark.process
def test_workers_give_the_numbers_of_this_process() -> None:
    with Pool(tank(), workers=0) as here, Pool(tank(), workers=2) as there:
        episodes = here.run(half_open, range(5, 10))
        assert episodes == there.run(half_open, range(5, 10))
    assert {episode.length for episode in episodes} == {60}


NOT_A_NUMBER = """
from pathlib import Path
from heated_tank import HeatedTank

class OnceBroken(HeatedTank):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        mark = Path(__file__).with_name("broke")
        if self.steps == 20 and not mark.exists():
            mark.touch()
            reward = float("nan")
        return observation, reward, *rest

class AlwaysBroken(HeatedTank):
    def _observe(self):
        return super()._observe() * (float("inf") if self.steps == 3 else 1.0)
"""


@pytest.mark.process
def test_a_worker_that_returns_nan_is_replaced_and_no_number_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_tank.py").write_text(NOT_A_NUMBER)
    monkeypatch.syspath_prepend(tmp_path)
    with Pool(tank(), workers=0) as sound:
        expected = sound.run(half_open, range(4))
    troubles: list[str] = []
    with Pool(tank("broken_tank:OnceBroken"), workers=1, on_trouble=troubles.append) as pool:
        assert pool.run(half_open, range(4)) == expected
    assert len(troubles) == 1
    assert "gave NaN or infinity as the reward of the episodes with seeds" in troubles[0]
    told = "gave NaN or infinity as the observation of the episodes with seeds 0, 1"
    for workers in (0, 1):
        broken = Pool(tank("broken_tank:AlwaysBroken"), workers=workers)
        with broken as pool, pytest.raises(UserError, match=told):
            pool.run(half_open, range(2))
    sys.modules.pop("broken_tank", None)


def test_what_no_other_process_can_import_runs_here() -> None:
    name, importable = name_factory(SixTuple)
    assert (name, importable) == (f"{__name__}:SixTuple", True)
    assert not name_factory(lambda: SixTuple())[1]
    with Pool(tank("here:lambda", factory=lambda: SixTuple()), workers=2) as pool:
        assert [episode.cost_return for episode in pool.run(half_open, [1, 2])] == [3.0, 3.0]


def test_own_names_have_a_colon() -> None:
    assert is_own("gym:Pendulum-v1")
    assert not is_own("BallCircle")
