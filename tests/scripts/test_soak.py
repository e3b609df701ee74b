"""The soak in its short form: every kind of attack, a few times."""

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from lspc.version import __version__

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
    assert found["lspc_version"] == __version__
    assert date.fromisoformat(found["date"]) <= datetime.now(UTC).date()
    counts = found["counts"]
    assert [counts[f"runs killed {where}"] for where in ("at any moment", "inside a write")] == [1, 1]
    assert "kills that came too late" not in counts
    kinds = " ".join(counts)
    attacks = (
        "kills at any moment", "kills inside a write", "full disk", "jumping clock", "contested runs", "two writers",
        "damaged card.json", "damaged weights", "damaged checkpoint", "damaged data.hdf5", "damaged calibration.json",
        "workers killed", "workers frozen", "workers lying",
    )  # fmt: skip
    for attack in attacks:
        assert attack in kinds
