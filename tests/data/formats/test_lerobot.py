"""LeRobot's folders: Parquet below data/, described by meta/info.json."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from lspc.data import load
from lspc.errors import UserError

STEPS = 5
FEATURES = {
    "observation.state": "float32", "observation.images.top": "video", "action": "float32", "next.reward": "float32",
    "next.done": "bool", "episode_index": "int64", "frame_index": "int64", "timestamp": "float32", "index": "int64",
}  # fmt: skip


def write_folder(folder: Path, version: str) -> None:
    """As LeRobot lays it out: v2 has a file for each episode, v3 several in one, and more tables beside them."""
    rng = np.random.default_rng(0)
    episodes = []
    for episode in range(2):
        floats = {name: rng.normal(size=(STEPS, 2)).astype(np.float32) for name in ("observation.state", "action")}
        episodes.append(pa.table({
            **{name: pa.array(list(values), pa.list_(pa.float32(), 2)) for name, values in floats.items()},
            "next.reward": pa.array(rng.normal(size=STEPS).astype(np.float32)),
            "next.done": pa.array(np.arange(STEPS) == STEPS - 1),
            "episode_index": pa.array(np.full(STEPS, episode)), "frame_index": pa.array(np.arange(STEPS)),
            "timestamp": pa.array(np.arange(STEPS, dtype=np.float32) / 30),
            "index": pa.array(np.arange(STEPS) + episode * STEPS),
        }))  # fmt: skip
    chunk = folder / "data" / "chunk-000"
    chunk.mkdir(parents=True)
    (folder / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
    if version == "v2.1":
        for number, table in enumerate(episodes):
            parquet.write_table(table, chunk / f"episode_{number:06}.parquet")
    else:
        parquet.write_table(pa.concat_tables(episodes), chunk / "file-000.parquet")
        about = pa.table({"episode_index": [0, 1], "length": [STEPS, STEPS]})
        parquet.write_table(about, folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
    told = {"codebase_version": version, "features": {name: {"dtype": kind} for name, kind in FEATURES.items()}}
    (folder / "meta" / "info.json").write_text(json.dumps(told), encoding="utf-8")


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_only_the_cost_is_left_to_say(tmp_path: Path, version: str) -> None:
    write_folder(tmp_path, version)
    with pytest.raises(UserError, match=r'no column is called cost; say .* --cost "COLUMN > LIMIT"'):
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
    write_folder(tmp_path, "v2.1")
    dataset = load(tmp_path, cost="`next.reward` > 0", columns=["done=next.done"])
    assert dataset.terminated.sum() == 2
    assert dataset.transitions == 2 * STEPS


@pytest.mark.parametrize("content", ["{", "[]", '{"features": 3}'])
def test_a_broken_description_is_told(tmp_path: Path, content: str) -> None:
    write_folder(tmp_path, "v2.1")
    (tmp_path / "meta" / "info.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"meta/info.json cannot be read"):
        load(tmp_path)
