"""A damaged checkpoint is told and passed over: the run goes on from a sound one, to the same end."""

from pathlib import Path

import pytest
from helpers.cli import contents

from lspc import algos, training
from lspc.data import Dataset
from lspc.runs import layout
from lspc.training import loop

CONFIG = algos.get("bc").Config(steps=6, batch_size=8, hidden=(4,))
WHOLE = f"policy/seed-0/{layout.WEIGHTS}"


def train_halfway(dataset: Dataset, out: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, list[Path]]:
    """What the run ends with, and its checkpoints after its policy was taken away again."""
    monkeypatch.setattr(loop, "CHUNK", 2)
    training.train(dataset, out, CONFIG, method="bc")
    wanted = contents(out)[WHOLE]
    (layout.policy_folder(out, 0) / layout.CARD).unlink()
    return wanted, layout.checkpoint_paths(out)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("damage", [b"", b"\xff" * 100, None])
def test_a_damaged_checkpoint_is_passed_over(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int, damage: bytes | None
) -> None:
    wanted, paths = train_halfway(dataset, tmp_path, monkeypatch)
    assert len(paths) == 2
    paths[which].write_bytes(paths[which].read_bytes()[:-40] if damage is None else damage)
    with pytest.warns(UserWarning, match=f"{paths[which].name}: .*passed over"):
        training.train(dataset, tmp_path, CONFIG, method="bc")
    assert contents(tmp_path)[WHOLE] == wanted
