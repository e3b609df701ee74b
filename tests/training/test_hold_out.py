"""Episodes held out from training: nothing of them reaches the policy, and the run says which they are."""

from pathlib import Path

import numpy as np
import pytest

import lspc
from lspc import checkpoints
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import load_policy
from lspc.runs import Run

TINY = {"algo": "bc", "steps": 3, "batch_size": 32, "hidden": (8, 8), "task": None}


def weights(run: Path) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in checkpoints.arrays_by_path(load_policy(run).net).values()]


def test_the_policy_is_that_of_the_other_episodes_alone(dataset: Dataset, tmp_path: Path) -> None:
    held = dataset.hold_out(0.2)
    others = dataset.select(np.setdiff1d(np.arange(len(dataset.episodes)), held))
    run = lspc.train(dataset, tmp_path / "held", hold_out=0.2, **TINY)
    alone = lspc.train(others, tmp_path / "alone", **TINY)
    for one, same in zip(weights(run), weights(alone), strict=True):
        np.testing.assert_array_equal(one, same)
    facts = Run.open(run).dataset
    assert (facts.held_out, facts.fingerprint) == (0.2, dataset.fingerprint)
    assert (facts.episodes, facts.episodes_used) == (len(dataset.episodes), len(others.episodes))
    assert load_policy(run).card["dataset"]["held_out"] == 0.2


def test_without_holding_out_a_run_is_what_it_was(dataset: Dataset, tmp_path: Path) -> None:
    run = lspc.train(dataset, tmp_path / "run", **TINY)
    assert "held_out" not in (run / "config.json").read_text()
    with pytest.raises(UserError, match=r"holds another run \(hold_out is None there, 0.2 now\)"):
        lspc.train(dataset, run, hold_out=0.2, **TINY)
