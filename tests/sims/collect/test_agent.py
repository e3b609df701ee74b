"""The agent's running statistics, and its worlds: what is recorded is what happened."""

import numpy as np
import pytest

from lspc import sims
from lspc.sims import Step
from lspc.sims.collect.agent import COST_SCALE, RunningNorm, Worlds
from lspc.tasks import get_task

TASK = get_task("BallRun")


def test_running_statistics_are_those_of_all_seen() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 2, size=(1000, 4))
    norm = RunningNorm(4)
    for part in np.split(rows, 10):
        norm.update(part)
    np.testing.assert_allclose(norm(rows), (rows - rows.mean(0)) / rows.std(0), atol=1e-2)


class Counting:
    """A world that counts: its observation is the step, it pays what it is told and ends after three steps."""

    def reset(self, seed: int | None = None) -> np.ndarray:
        self.step_number = 0
        return np.zeros(7, np.float32)

    def step(self, action: np.ndarray) -> Step:
        self.step_number += 1
        observation = np.full(7, self.step_number, np.float32)
        return Step(observation, float(action[0]), 1.0, False, self.step_number == 3)

    def close(self) -> None: ...


def test_worlds_record_clipped_actions_and_begin_again_where_an_episode_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sims, "make", lambda task, pictures: Counting())
    worlds = Worlds(TASK, np.random.default_rng(0))
    outcomes = [worlds.step(np.full((worlds.count, 2), 5.0)) for _ in range(4)]
    assert worlds.steps == 4 * worlds.count
    assert [outcome.ended.all() for outcome in outcomes] == [False, False, True, False]
    assert not any(outcome.terminated.any() for outcome in outcomes)
    assert outcomes[2].next_observations[0, 0] == 3  # the last of the episode, not the first of the next
    assert worlds.observations[0, 0] == 1
    assert outcomes[0].costs.tolist() == pytest.approx([COST_SCALE] * worlds.count)
    arrays = worlds.recorder.arrays()
    assert len(arrays["rewards"]) == 3 * worlds.count
    assert (arrays["actions"] == 1).all()
    assert (arrays["rewards"] == 1).all()  # as it was, not as it is scaled for the learner
    assert worlds.take_finished() == [(3.0, 3.0)] * worlds.count
    assert worlds.take_finished() == []
