"""LSPC on the ring (helpers/ring.py): cloning breaks the budget, LSPC-S keeps it, LSPC-O earns too."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.ring import BUDGET, SIZE, as_action, at_limit, drive, limit, measure, place_ahead, ring_data

import lspc
from lspc.algos.lspc import LspcPolicy
from lspc.algos.parts.admission import restriction_for
from lspc.data import Dataset
from lspc.policy import load_policy

pytestmark = pytest.mark.learning


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return ring_data()


@pytest.fixture(scope="module")
def run(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "lspc"
    return lspc.train(dataset, out, algo="lspc", steps=3000, target_rate=0.05, **SIZE)


def test_the_optimum_is_free_and_no_safe_driver_is_faster(dataset: Dataset) -> None:
    best = drive(at_limit, 200, 9)
    assert best.cost_returns.max() == 0
    for share in (0.5, 0.8, 0.95):
        slower = drive(lambda o, share=share: as_action(share * limit(place_ahead(o))), 200, 9)
        assert slower.cost_returns.max() == 0
        assert np.all(slower.returns < best.returns)
    assert dataset.cost_returns.mean() > 5 * BUDGET
    assert np.mean(dataset.cost_returns <= BUDGET) > 0.2  # there is something safe to learn from


def test_cloning_is_not_safe(dataset: Dataset, tmp_path: Path) -> None:
    run = lspc.train(dataset, tmp_path / "bc", algo="bc", steps=500, **SIZE)
    _, cost = measure(run, "BC")
    assert cost > 5 * BUDGET


@pytest.mark.parametrize("sampled", [False, True])
def test_lspc_s_is_safe(run: Path, sampled: bool) -> None:
    reward, cost = measure(run, "LSPC-S", sampled=sampled)
    assert cost <= BUDGET
    assert reward > 0.5  # and does not just stand still


@pytest.mark.parametrize("sampled", [False, True])
def test_lspc_o_is_safe_and_earns_more(run: Path, sampled: bool) -> None:
    reward, cost = measure(run, "LSPC-O", sampled=sampled)
    assert cost <= BUDGET
    assert reward > 0.7
    assert reward > measure(run, "LSPC-S")[0] + 0.02


def test_one_run_serves_every_budget(run: Path, dataset: Dataset) -> None:
    """The eps that the record names for a budget keeps it, and a larger budget earns more."""
    costs, best = dataset.cost_returns, drive(at_limit, 200, 9).returns.mean()
    policy, earned = load_policy(run, variant="LSPC-O"), []
    for budget in (0.5, 2.0, 4.0, 8.0):
        chosen = policy.at(restriction_for(costs, budget, (0.02, 2.0)))
        result = drive(lambda o, chosen=chosen: chosen.act(o), 200, 9)
        assert result.cost_returns.mean() <= budget
        earned.append(result.returns.mean() / best)
    assert np.all(np.diff(earned[1:]) > 0.01)  # the two smallest admit the same few episodes
    assert earned[-1] > 0.88


def test_other_units_give_the_same_policy(dataset: Dataset, tmp_path: Path) -> None:
    """Bit for bit where the factors are powers of two, which round nothing; `scripts/units.py` has other factors."""
    fine = replace(dataset, costs=dataset.costs * 2.0**-13, rewards=dataset.rewards * 2.0**13)
    nets = [
        load_policy(lspc.train(data, tmp_path / name, algo="lspc", steps=250, **SIZE)).net
        for name, data in (("as it is", dataset), ("fine", fine))
    ]
    assert all(isinstance(net, LspcPolicy) for net in nets)
    for part in ("decoder", "encoder", "normaliser"):
        assert tiny.same(*(getattr(net, part) for net in nets)), part
    for part, factor in (("cost_q", 2.0**-13), ("reward_q", 2.0**13)):
        for net, other in zip(*(getattr(net, part) for net in nets), strict=True):
            tiny.close(jax.tree.map(partial(jnp.multiply, factor), net.layers[-1]), other.layers[-1])
