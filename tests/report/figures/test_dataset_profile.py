"""The dataset figure is a whole PNG for ordinary and degenerate data, and drawing leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lspc.data import Dataset
from lspc.report.figures.dataset_profile import dataset_profile_figure


def episodes_of_one_step(costs: list[float]) -> Dataset:
    rows = len(costs)
    nothing = np.zeros((rows, 1), dtype=np.float32)
    return Dataset(
        observations=nothing,
        actions=nothing,
        rewards=np.arange(rows, dtype=np.float32),
        costs=np.array(costs, dtype=np.float32),
        next_observations=nothing,
        terminated=np.zeros(rows, dtype=np.bool_),
        truncated=np.ones(rows, dtype=np.bool_),
    )


@pytest.mark.parametrize(
    ("costs", "thresholds"),
    [([0, 5, 12, 80], (10, 20, 40)), ([0.0], (10,)), ([0, 0], ()), ([0.5, 1e4], (20, 40, 80)), ([3], (0,))],
)
def test_it_draws(tmp_path: Path, costs: list[float], thresholds: tuple[float, ...]) -> None:
    path = tmp_path / "new" / "figure.png"
    dataset_profile_figure(episodes_of_one_step(costs), thresholds, path, "BallCircle")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert content.endswith(b"IEND\xaeB`\x82")
    assert list(path.parent.iterdir()) == [path]


def test_the_same_data_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        dataset_profile_figure(episodes_of_one_step([1, 2, 30]), (10, 20), tmp_path / name, "BallCircle")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.process
def test_pyplot_is_never_imported() -> None:
    look = "import sys, lspc.report.figures.dataset_profile; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
