"""Episodes in stretches: what each cost, and what its states usually lead to."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.data import small_dataset

from lspc.algos.parts import stretches


def test_stretches_cover_every_step_once() -> None:
    dataset = small_dataset(episodes=5, steps=120)
    found = stretches.divide(dataset)
    assert len(found.rows) == 5 * stretches.STRETCHES
    for values, totals in ((found.costs, dataset.cost_returns), (found.rewards, dataset.returns)):
        np.testing.assert_allclose(np.bincount(found.owners, values), totals, rtol=1e-5)
    firsts = found.rows[:: stretches.STRETCHES]
    np.testing.assert_array_equal(firsts, 120 * np.arange(5))
    np.testing.assert_array_equal(found.remaining, 120 * (found.owners + 1) - found.rows)


def test_each_step_of_a_short_episode_is_a_stretch() -> None:
    dataset = small_dataset(episodes=3, steps=7)
    found = stretches.divide(dataset)
    np.testing.assert_array_equal(found.rows, np.arange(21))
    np.testing.assert_allclose(found.costs, dataset.costs)


def test_cost_ahead_stays_within_the_episode() -> None:
    owners, values = np.repeat([0, 1], [7, 3]), np.arange(10.0)
    ahead = stretches.sum_ahead(values, owners)
    expected = [values[i : min(i + stretches.LOOK_AHEAD, 7 if i < 7 else 10)].sum() for i in range(10)]
    np.testing.assert_array_equal(ahead, expected)


def test_few_states_of_many_episodes_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = small_dataset(episodes=12, steps=100)
    monkeypatch.setattr(stretches, "MOST_STATES", 100)
    seen: list[int] = []
    real = stretches.foresee
    monkeypatch.setattr(stretches, "foresee", lambda rows, *rest: (seen.append(len(rows)), real(rows, *rest))[1])
    usual = stretches.divide(dataset).usual
    assert seen == [12 * 9]  # every sixth of fifty, the first included
    assert usual.sum() == pytest.approx(dataset.cost_returns.sum())
    assert len(np.unique(usual[:6])) == 1


def test_luck_is_told_from_care() -> None:
    """Near the edge half of the episodes fall off, far from it none: those that did not fall were lucky."""
    dataset = small_dataset(episodes=120, steps=40)
    rng = np.random.default_rng(0)
    distance = np.repeat(rng.uniform(0.0, 1.0, 120), 40)
    falls = np.repeat(rng.random(120) < 0.5, 40) & (distance < 0.3)
    observations = np.tile(distance[:, None], (1, dataset.observations.shape[1])).astype(np.float32)
    dataset = replace(dataset, observations=observations, costs=falls.astype(np.float32))
    found = stretches.divide(dataset)
    usual = np.bincount(found.owners, found.usual)
    assert usual.sum() == pytest.approx(dataset.cost_returns.sum())
    near = distance[::40] < 0.25
    lucky = near & (dataset.cost_returns == 0)
    assert usual[lucky].mean() > 10  # of 40 steps, half of which usually cost
    assert usual[distance[::40] > 0.4].mean() < 2


def test_units_of_cost_do_not_matter() -> None:
    dataset = small_dataset(episodes=20, steps=30)
    plain = stretches.divide(dataset).usual
    scaled = stretches.divide(replace(dataset, costs=dataset.costs * np.float32(2**10))).usual
    np.testing.assert_array_equal(scaled, plain * 2**10)


def test_free_data_lead_to_no_cost() -> None:
    dataset = small_dataset(episodes=4, steps=10)
    free = replace(dataset, costs=np.zeros_like(dataset.costs))
    assert not stretches.divide(free).usual.any()


def test_a_network_that_foresees_nothing_charges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "foresee", lambda rows, targets, owners: np.zeros(len(targets)))
    np.testing.assert_array_equal(stretches.divide(small_dataset(episodes=4, steps=10)).usual, 0.0)
