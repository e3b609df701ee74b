"""What training curves warn of: found in the curve, and silent where there is nothing to find."""

from pathlib import Path

import numpy as np
import pytest
from helpers.made_runs import make_run

from lspc.report import curves
from lspc.runs import Run

RNG = np.random.default_rng(0)
TIME = np.linspace(0, 1, 200)


@pytest.mark.parametrize(
    ("curve", "change"),
    [
        (TIME, "rising"),
        (-TIME, "falling"),
        (1 - np.exp(-10 * TIME), None),  # levelled off
        (1 - np.exp(-10 * TIME) + RNG.normal(0, 0.05, 200), None),
        (RNG.normal(0, 1, 200), None),  # mere noise
        (np.zeros(200), None),
        (TIME[:4], None),  # too short to tell
    ],
)
def test_only_a_curve_that_moves_at_its_end_is_moving(curve: np.ndarray, change: str | None) -> None:
    found = curves.measure_change(curve)
    assert (None if found is None else "rising" if found > 0 else "falling") == change


def words(folder: Path, data_file: Path, updates: int, steps: int, **metrics: np.ndarray) -> str:
    run = Run.open(make_run(folder, data_file, steps=steps))
    named = {name.replace("__", "/"): [values.tolist()] for name, values in metrics.items()}
    return " ".join(each["words"] for each in curves.find_warnings(updates, named, run))


def test_each_warning_and_silence(tmp_path: Path, data_file: Path) -> None:
    settled = 1 - np.exp(-10 * TIME)
    fine = {"reward__value_mean": settled, "cost__value_mean": settled, "cvae__kl": settled}
    assert words(tmp_path / "fine", data_file, 8000, 8000, **fine) == ""
    assert "cost/value_mean was still rising" in words(
        tmp_path / "rising", data_file, 8000, 8000, **{**fine, "cost__value_mean": TIME}
    )
    assert "Only 500 updates: the cpu preset has 8,000" in words(tmp_path / "few", data_file, 500, 500, **fine)
    assert "stopped after 500 of 8,000 updates" in words(tmp_path / "cut", data_file, 500, 8000, **fine)
    costly = {"cost__predicted_of_lspc_o": np.array([9.0]), "cost__predicted_of_lspc_s": np.array([1.0])}
    assert "expects 9 of LSPC-O's actions and 1 of LSPC-S's" in words(
        tmp_path / "costly", data_file, 8000, 8000, **costly
    )
    assert "LSPC-O equals LSPC-S" in words(tmp_path / "kl", data_file, 8000, 8000, cvae__kl=np.zeros(9))
    assert "a larger eps" in words(tmp_path / "edge", data_file, 8000, 8000, encoder__latents_at_edge=np.ones(9))
