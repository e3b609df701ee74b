"""Which episodes an eps admits, how it is drawn for them, and when the critics' word counts less."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.data import small_dataset
from helpers.ring import ring_data

from lspc.algos import lspc
from lspc.algos.base import Spec
from lspc.algos.parts import admission

PLACES = (np.arange(admission.LEVELS) + 0.5) / admission.LEVELS


def test_a_level_admits_the_episodes_it_can_afford_and_never_too_few() -> None:
    dataset = ring_data()
    weights = np.asarray(admission.admit(dataset, 0.25).weights)
    costs = dataset.cost_returns
    caps = np.maximum(PLACES**3 * np.quantile(costs, 0.95), np.sort(costs)[admission.FEWEST - 1])
    for cap, column in zip(caps, weights.T, strict=True):
        assert set(np.flatnonzero(column)) == set(np.flatnonzero(costs <= cap))
    np.testing.assert_allclose((weights * dataset.lengths[:, None]).sum(0) / dataset.transitions, 1.0, rtol=1e-4)


def test_the_rewarding_of_the_admitted_count_most_and_as_many_as_asked() -> None:
    returns = np.random.default_rng(0).normal(size=200)
    admitted = returns < 1
    weights = admission.prefer_rewarding(returns, admitted, 0.25)
    assert np.all(weights[~admitted] == 0)
    assert np.all(np.diff(weights[admitted][np.argsort(returns[admitted])]) > 0)
    assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(0.25 * admitted.sum(), rel=1e-3)
    few = admission.prefer_rewarding(returns[:9], np.ones(9, bool), 0.25)
    assert few.sum() ** 2 / (few**2).sum() == pytest.approx(8, rel=1e-3)  # never fewer than eight


def test_manner_is_what_the_halves_of_an_episode_share() -> None:
    dataset = small_dataset(episodes=60, steps=20)
    rng = np.random.default_rng(1)
    speeding = np.repeat(rng.uniform(size=60), 20)  # each driver has a rate
    moments = rng.uniform(size=(60, 2)).repeat(10, axis=1).reshape(-1)  # each half its own
    manner, chance, none = (
        admission.measure_manner(replace(dataset, costs=costs.astype(np.float32)))
        for costs in (speeding, moments, 0 * speeding)
    )
    assert manner == pytest.approx(1.0)
    assert chance < 0.3
    assert none == 0


def test_eps_is_drawn_where_the_episode_counts() -> None:
    weights = jnp.zeros((4000, admission.LEVELS)).at[:, 3].set(1.0).at[:, 7].set(3.0)
    eps, counts = admission.draw_restrictions(jax.random.key(0), weights, (0.0, 2.0))
    levels = np.floor(np.asarray(eps) / 2.0 * admission.LEVELS)
    assert set(levels) == {3, 7}
    assert np.mean(levels == 7) == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose(counts, 4.0 / admission.LEVELS)


@pytest.mark.parametrize("manner", [0.0, 1.0])
def test_the_record_chooses_and_the_critics_count_less_where_cost_is_manner(manner: float) -> None:
    config = tiny.config(record_share=0.25)
    state = lspc.init(jax.random.key(0), tiny.SPEC, config)
    levels = jnp.zeros((16, admission.LEVELS)).at[:8].set(jnp.linspace(1.0, 2.0, 8)[:, None])
    batch = admission.RecordedBatch(tiny.batch(), levels, jnp.float32(manner))
    critics = lspc.update_critics(state, batch)
    eps, weights = lspc.weigh_actions(critics, batch, jax.random.key(1), config)
    assert np.all(np.asarray(weights.encoder[8:]) < 1e-6)  # nothing admits them
    recorded = np.asarray(levels.mean(1))
    word = np.asarray(lspc.weigh_at(critics, eps, config).encoder) ** (1 - manner)
    np.testing.assert_allclose(weights.encoder, recorded * word / np.mean(recorded * word), rtol=1e-4, atol=1e-6)
    if manner:
        np.testing.assert_allclose(weights.encoder, recorded / recorded.mean(), rtol=1e-4)


def test_the_eps_of_a_budget_admits_the_episodes_within_it() -> None:
    dataset = ring_data()
    costs, costly = dataset.cost_returns, float(np.quantile(dataset.cost_returns, 0.95))
    assert admission.restriction_for(costs, costly / 8, (0.0, 2.0)) == pytest.approx(1.0)  # half way: a cube
    assert admission.restriction_for(costs, 0.0, (0.02, 2.0)) == pytest.approx(0.02)
    assert admission.restriction_for(costs, 2 * costly, (0.02, 2.0)) == 2.0
    assert admission.restriction_for(0 * costs, 5.0, (0.02, 2.0)) == 2.0  # nobody costs anything
    weights = np.asarray(admission.admit(dataset, 0.25).weights)
    for level, place in list(enumerate(PLACES))[8:]:
        cap = float(place**3 * costly)
        assert admission.restriction_for(costs, cap, (0.0, 1.0)) == pytest.approx(place)
        assert costs[weights[:, level] > 0].max() <= cap


def test_a_draw_knows_the_episode_of_each_transition() -> None:
    dataset = small_dataset(episodes=12, steps=10)
    config = tiny.config(record_share=0.5, batch_size=64)
    table = lspc.table(dataset, config)
    drawn = lspc.draw(jax.tree.map(jnp.asarray, table), jax.random.key(0), Spec.of(dataset), config)
    assert isinstance(drawn, admission.RecordedBatch)
    whole = np.asarray(admission.admit(dataset, 0.5).weights)
    rows = [
        int(np.flatnonzero((dataset.observations == seen).all(1))[0]) for seen in np.asarray(drawn.transitions[0])
    ]
    np.testing.assert_array_equal(drawn.admission, whole[np.asarray(rows) // 10])


def test_the_record_is_not_asked_unless_wanted() -> None:
    dataset = small_dataset(episodes=12, steps=10)
    for changes in ({}, {"record_share": 0.5, "roles": "converse"}, {"record_share": 0.5, "restriction_range": None}):
        assert isinstance(lspc.table(dataset, tiny.config(**changes)), np.ndarray)
