"""LeRobot's folders: Parquet below data/, described by meta/info.json."""

from pathlib import Path

import numpy as np
import pytest
from helpers.lerobot import STEPS, write_lerobot

from lspc.data import load
from lspc.errors import UserError


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_only_the_cost_is_left_to_say(tmp_path: Path, version: str) -> None:
    write_lerobot(tmp_path, version)
    with pytest.raises(UserError, match=r'no column is called cost; add .* --cost "COLUMN > LIMIT"'):
        load(tmp_path)
    dataset = load(tmp_path, cost="`observation.state_0` > 0")
    rng = np.random.default_rng(0)
    states, actions = (rng.normal(size=(STEPS, 2)).astype(np.float32) for _ in range(2))
    first = dataset.select([0])
    np.testing.assert_array_equal(first.observations, states[:-1])
    np.testing.assert_array_equal(first.next_observations, states[1:])
    np.testing.assert_array_equal(first.actions, actions[:-1])
    np.testing.assert_array_equal(first.costs, states[:-1, 0] > 0)
    # The last frame has no frame after it; whether the task or the clock ended there, LeRobot does not say.
    assert [int(length) for length in dataset.lengths] == [STEPS - 1] * 2
    assert dataset.truncated.sum() == 2
    assert not dataset.terminated.any()
    assert load(tmp_path, **dataset.opened).fingerprint == dataset.fingerprint


def test_an_end_of_the_task_can_be_said(tmp_path: Path) -> None:
    write_lerobot(tmp_path, "v2.1")
    dataset = load(tmp_path, cost="`next.reward` > 0", columns=["done=next.done"])
    assert dataset.terminated.sum() == 2
    assert dataset.transitions == 2 * STEPS


@pytest.mark.parametrize("content", ["{", "[]", '{"features": 3}'])
def test_a_broken_description_is_told(tmp_path: Path, content: str) -> None:
    write_lerobot(tmp_path, "v2.1")
    (tmp_path / "meta" / "info.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"meta/info.json cannot be read"):
        load(tmp_path)
