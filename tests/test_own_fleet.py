"""docs/own-fleet.md as it stands: from a folder of Parquet files to a guarded ONNX policy, and back on the store."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lspc.calibration.run import calibrate_run

ROOT = Path(__file__).parents[1]
SMALL = {
    "steps=3000": "steps=400, hidden=(32, 32), latent_dim=4, batch_size=64",
    "lspc.calibrate(run, dataset)": "calibrate_run(run, dataset, updates=400).calibration",
    "range(10)": "range(3)",
}
"""What makes the page's networks small enough for a test."""


@pytest.mark.learning
def test_the_page_runs_from_logs_to_the_plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "own-fleet.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 3
    text = "".join(blocks)
    for shown, small in SMALL.items():
        assert shown in text
        text = text.replace(shown, small)
    names: dict[str, Any] = {"calibrate_run": calibrate_run}
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    exec(compile(text, "own-fleet.md", "exec"), names)
    sys.modules.pop("electric_store", None)
    dataset, choice = names["dataset"], names["choice"]
    assert str(dataset.action_bounds) == "[-50, 50]"
    assert dataset.lengths.max() == names["STEPS"]
    told = "\n".join(dataset.warnings)
    for words in (
        "rows were sorted by day and time",
        "episodes were cut there",
        "wear_cost_eur: not assigned a role",
    ):
        assert words in told
    assert choice.restriction is not None
    assert choice.cost.low <= names["true"][False][0] <= choice.cost.high
    powers = names["watched"].act(dataset.observations[::100])
    assert np.ptp(powers) > 10  # kilowatts
