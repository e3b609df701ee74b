"""The soak in its short form: every kind of attack, a few times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.process
def test_every_attack_ends_well(tmp_path: Path) -> None:
    report = tmp_path / "soak.json"
    done = subprocess.run(
        [sys.executable, "scripts/soak.py", "--scale", "0.02", "--json", str(report)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(report.read_text()) if report.exists() else {"wrong": [done.stderr]}
    assert found["wrong"] == []
    assert done.returncode == 0
    kinds = " ".join(found["counts"])
    attacks = (
        "killed runs", "inside a write", "full disk", "jumping clock", "contested runs", "two writers",
        "damaged card.json", "damaged weights", "damaged checkpoint", "damaged data.hdf5", "damaged calibration.json",
        "workers killed", "workers frozen", "workers lying",
    )  # fmt: skip
    for attack in attacks:
        assert attack in kinds
