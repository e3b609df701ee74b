"""The task table holds DSRL's numbers, and the normalised scores are DSRL's formulas."""

from collections import Counter

import numpy as np
import pytest

from lspc.errors import UserError
from lspc.tasks import all_tasks, get_task, normalised_cost, normalised_reward, task_of


def test_there_are_38_tasks_in_three_suites() -> None:
    tasks = all_tasks()
    assert len(tasks) == len({task.name for task in tasks}) == len({task.gym_id for task in tasks}) == 38
    assert Counter(task.suite for task in tasks) == {"bullet": 8, "safety_gymnasium": 21, "metadrive": 9}
    for task in tasks:
        assert task.reward_min < task.reward_max
        assert task.thresholds == ((20, 40, 80) if task.suite == "safety_gymnasium" else (10, 20, 40))
        assert f"-{task.cost_max}-" in task.dataset_file
        assert 1 <= task.min_npb <= task.max_npb


def test_known_values() -> None:
    ball = get_task("BallCircle")
    assert ball.gym_id == "OfflineBallCircle-v0"
    assert (ball.suite, ball.family) == ("bullet", "bullet_safety_gym")
    assert (ball.episode_length, ball.observation_dim, ball.action_dim) == (200, 8, 2)
    assert (ball.reward_min, ball.reward_max) == (0.38312244415283203, 881.46337890625)
    assert (ball.cost_max, ball.thresholds) == (80, (10, 20, 40))
    assert ball.dataset_file == "SafetyBallCircle-v0-80-886.hdf5"
    assert ball.dataset_episodes == 886
    assert (ball.cbins, ball.rbins, ball.max_npb, ball.min_npb) == (10, 30, 10, 2)  # density 0.75, not 0.5
    assert get_task("CarCircle2").cost_max == 400
    assert get_task("easysparse").observation_dim == 259


def test_a_task_without_a_density_row_gets_the_default_grid() -> None:
    task = get_task("HopperVelocity")
    assert (task.cbins, task.rbins, task.max_npb, task.min_npb) == (10, 20, 30, 2)


@pytest.mark.parametrize("name", ["BallCircle", "ballcircle", "OfflineBallCircle-v0", "OFFLINEBALLCIRCLE-V0"])
def test_names_and_ids_in_any_case(name: str) -> None:
    assert get_task(name).name == "BallCircle"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("BalCircle", "did you mean BallCircle"),
        ("OfflineCarRunn-v0", "did you mean CarRun"),
        ("?", "lspc tasks"),
    ],
)
def test_an_unknown_name_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UserError, match=hint):
        get_task(name)


def test_normalised_reward_by_hand() -> None:
    task = get_task("BallCircle")
    assert normalised_reward(task, task.reward_min) == 0
    assert normalised_reward(task, task.reward_max) == 1
    middle = (task.reward_min + task.reward_max) / 2
    assert normalised_reward(task, middle) == pytest.approx(0.5)
    assert normalised_reward(task, np.array([middle, task.reward_max])) == pytest.approx([0.5, 1])


def test_normalised_cost_by_hand() -> None:
    assert normalised_cost(0.0, 10) == 0
    assert normalised_cost(10.0, 10) == 1
    assert normalised_cost(25.0, 10) == 2.5
    assert normalised_cost(np.array([5.0, 40.0]), 20).tolist() == [0.25, 2]


def test_a_zero_budget_is_shifted_by_one() -> None:
    assert normalised_cost(0.0, 0) == 1  # just inside
    assert normalised_cost(1.0, 0) == 2
    assert normalised_cost(np.array([0.0, 3.0]), 0).tolist() == [1, 4]


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(UserError, match="must be 0 or more"):
        normalised_cost(1.0, -1)


def test_the_task_of_data_is_the_one_they_name_unless_told() -> None:
    named = {"task": "CarGoal1", "seed": 3}
    assert task_of(named) == get_task("CarGoal1")
    assert task_of(named, "BallRun") == task_of({}, "BallRun") == get_task("BallRun")
    assert task_of(named, None) is None  # told that there is none
    with pytest.raises(UserError, match="did you mean BallRun"):
        task_of(named, "BallRum")


@pytest.mark.parametrize("metadata", [{}, {"task": "our plant"}, {"task": ""}, {"task": 7}])
def test_data_of_no_task_of_ours_are_no_fault(metadata: dict[str, str | int]) -> None:
    assert task_of(metadata) is None
