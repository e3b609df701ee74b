"""RLDS folders: named, and pointed to the lines of docs/data.md; those make a dataset of its steps."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lspc.data import Dataset, load
from lspc.errors import UserError

PAGE = Path(__file__).parents[3] / "docs" / "data.md"


@pytest.mark.parametrize("folder", ["1.0.0", "."])
def test_it_is_refused_by_name(tmp_path: Path, folder: str) -> None:
    place = tmp_path / "door" / folder
    place.mkdir(parents=True)
    (place / "features.json").write_text("{}")
    (place / "door-train.tfrecord-00000-of-00001").write_bytes(b"\x00" * 20)
    with pytest.raises(
        UserError, match=r"door: an RLDS dataset is read by tensorflow_datasets: docs/data\.md"
    ) as told:
        load(tmp_path / "door")
    assert len(str(told.value).splitlines()) == 1


def make_steps(rng: np.random.Generator, length: int, *, done: bool) -> list[dict[str, Any]]:
    """As RLDS has them: the last step is what was seen at the end, and its action and reward mean nothing."""
    return [
        {
            "observation": rng.normal(size=3).astype(np.float32),
            "action": rng.uniform(-1, 1, 2).astype(np.float32) if step < length else np.full(2, np.nan, np.float32),
            "reward": np.float32(step), "cost": np.float32(step % 2),
            "is_first": step == 0, "is_last": step == length, "is_terminal": np.bool_(done and step == length),
        }
        for step in range(length + 1)
    ]  # fmt: skip


def test_the_lines_of_the_page_make_a_dataset() -> None:
    [lines] = re.findall(r"```python\nimport tensorflow_datasets as tfds\n(.*?)```", PAGE.read_text(), re.DOTALL)
    rng = np.random.default_rng(0)
    stored = [{"steps": make_steps(rng, 4, done=True)}, {"steps": make_steps(rng, 6, done=False)}]
    builder = SimpleNamespace(as_dataset=lambda split: stored)
    names: dict[str, Any] = {
        "tfds": SimpleNamespace(builder_from_directory=lambda folder: builder, as_numpy=lambda episodes: episodes)
    }
    exec(lines, names)
    dataset = names["dataset"]
    assert isinstance(dataset, Dataset)
    assert dataset.lengths.tolist() == [4, 6]
    assert (dataset.terminated.sum(), dataset.truncated.sum()) == (1, 1)
    assert dataset.returns.tolist() == [6.0, 15.0]
    np.testing.assert_array_equal(dataset.next_observations[3], stored[0]["steps"][4]["observation"])
