"""Which episodes an eps admits, how it is drawn for them, and when the critics' word counts less."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.data import small_dataset
from helpers.ring import ring_data

from lspc.algos import lspc
from lspc.algos.base import Batch, Spec
from lspc.algos.parts import admission
from lspc.algos.parts.admission import RecordedBatch
from lspc.algos.parts.stretches import Stretches, divide
from lspc.data import Dataset

PLACES = (np.arange(admission.LEVELS) + 0.5) / admission.LEVELS


def recorded_batch(everything: int = 0, admitted: int = 1, careful: int = 2, manner: float = 1.0) -> RecordedBatch:
    """From one seed for each part."""
    first_four = Batch(*(column[:4] for column in tiny.batch(seed=careful)))
    parts = tiny.batch(seed=everything), tiny.batch(seed=admitted), first_four
    return RecordedBatch(*parts, jnp.linspace(0.1, 0.9, 16), jnp.float32(manner))


def find_chances(dataset: Dataset, share: float = 0.25) -> np.ndarray:
    """At each level, the chance of drawing a transition of each episode."""
    return np.diff(np.asarray(admission.admit(dataset, share).cumulative), axis=1, prepend=0.0)


def test_a_level_admits_what_it_can_afford_and_never_too_few() -> None:
    """The rule in plain words, for each level and each episode."""
    dataset = ring_data()
    chances, stretches, costs = find_chances(dataset), divide(dataset), dataset.cost_returns
    for level, place in enumerate(PLACES):
        assert chances[level].sum() == pytest.approx(1.0, abs=1e-5)
        charges = stretches.costs + max(0.0, 1 - place / admission.CAREFUL) * stretches.usual
        own = [charges[stretches.owners == episode] for episode in range(len(costs))]
        costly = float(np.quantile(costs, 0.95))
        cap = max(place**3 * costly, admission.careful_cap(np.array([each.sum() for each in own]), costly))
        for episode, each in enumerate(own):
            if chances[level, episode] > 1e-7:
                remaining = stretches.remaining[stretches.owners == episode] / dataset.lengths[episode]
                endings = [(each[i:].sum(), share) for i, share in enumerate(remaining) if share >= 0.5]
                assert any(cost <= cap * share + 1e-6 for cost, share in endings)
        assert np.sum(chances[level] > 0) >= admission.FEWEST - 2  # the least rewarding may be drawn hardly ever


@pytest.mark.parametrize(
    ("totals", "cap"),
    [
        (np.arange(200.0), 19.9),  # a tenth
        (np.arange(20.0), 9.0),  # ten in any case
        (np.zeros(100), 1.0),  # all that are nearly free
        (np.arange(3.0), 2.0),
    ],
)
def test_careful_are_the_cheapest_tenth_and_what_is_nearly_free(totals: np.ndarray, cap: float) -> None:
    assert admission.careful_cap(totals, costly=50.0) == pytest.approx(cap)


def test_the_longest_cheap_ending_of_an_episode_is_admitted_with_the_way_back_to_it() -> None:
    steps = 40
    costs = np.zeros((4, steps))
    costs[1, 10:16] = 1.0  # astray early, then clean
    costs[2, 30:] = 1.0  # clean until late: nobody learns from its beginning
    costs[3] = 1.0
    owners, place = np.divmod(np.arange(4 * steps), steps)
    rewards = np.where(place < 20, 0.0, 1.0)
    stretches = Stretches(owners, np.arange(4 * steps), steps - place, costs.ravel(), rewards, 0 * rewards)
    found = admission.find_endings(stretches, stretches.costs, cap=1.0)
    assert found.admitted.tolist() == [True, True, False, False]
    assert found.starts[:2].tolist() == [0, steps + 16 - admission.WAY_BACK]
    assert found.lengths[:2].tolist() == [steps, steps - 16 + admission.WAY_BACK]
    np.testing.assert_allclose(found.returns[:2], [20, 20 * steps / (steps - 16)])  # as if all of it were like this
    generous = admission.find_endings(stretches, stretches.costs, cap=6.0)
    assert generous.starts[1] == steps  # the whole episode is within it
    assert generous.admitted.tolist() == [True, True, False, False]


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


def test_the_smaller_eps_the_less_does_return_count() -> None:
    dataset = ring_data()
    chances = find_chances(dataset)
    chances = chances / np.asarray(admission.admit(dataset, 0.25).lengths)  # of a step of each episode
    counted = [row[row > 1e-9 * row.max()] for row in chances[: admission.LEVELS]]
    effective = np.array([row.sum() ** 2 / (row**2).sum() / len(row) for row in counted])
    below = PLACES < admission.CAREFUL
    assert effective[0] > 0.9  # nearly alike
    assert np.all(np.diff(effective[below]) < 0.02)
    assert np.all(effective[~below] < 0.5)


@pytest.mark.parametrize("manner", [0.0, 0.4, 1.0])
def test_the_critics_count_less_at_a_small_eps_and_where_cost_is_manner(manner: float) -> None:
    config = tiny.config(record_share=0.25)
    state = tiny.lspc_state(record_share=0.25)
    batch = recorded_batch(manner=manner)
    critics = tiny.update_critics(state, batch)
    shown = lspc.show_transitions(state, critics, batch, jax.random.key(1))
    low, high = config.restriction_range or (0.0, 0.0)
    np.testing.assert_allclose(shown.restrictions, low + (high - low) * batch.places, rtol=1e-6)
    np.testing.assert_array_equal(shown.critics.actions, batch.admitted.actions)
    weights = lspc.weigh_actions(critics, shown, config)
    plain = lspc.weigh_actions(critics, shown._replace(flatness=None), config)
    expected = np.asarray(plain.encoder) ** ((1 - manner) * np.minimum(1, np.asarray(batch.places) / 0.5))
    np.testing.assert_allclose(weights.encoder, expected / expected.mean(), rtol=1e-4)
    np.testing.assert_array_equal(weights.cvae, plain.cvae)  # careful actions are careful in any manner
    assert manner < 1 or np.ptp(weights.encoder) == 0  # then all of the admitted count alike


def test_each_part_learns_from_the_episodes_meant_for_it() -> None:
    """Critics from all, the CVAE also from the careful, the encoder from the admitted through the CVAE's decoder."""
    state = tiny.lspc_state(record_share=0.25)

    def learn(**seeds: int) -> lspc.State:
        return tiny.update(state, recorded_batch(**seeds), jax.random.key(2))[0]

    first, others = learn(), {name: learn(**{name: 9}) for name in ("everything", "admitted", "careful")}
    learners = {
        "everything": {"reward", "cost", "cvae", "encoder"},
        "admitted": {"encoder"},
        "careful": {"cvae", "encoder"},
    }
    for name, other in others.items():
        changed = {
            part for part in learners["everything"] if not eqx.tree_equal(getattr(first, part), getattr(other, part))
        }
        assert changed == learners[name], name


def test_at_latent_zero_the_cvae_is_shown_careful_episodes_with_weights_of_one() -> None:
    state, batch = tiny.lspc_state(record_share=0.25), recorded_batch()
    critics = tiny.update_critics(state, batch)
    weights = 2.0 + jnp.arange(16.0)
    observations, actions, taught = lspc.teach_careful(state, batch, critics, weights)
    np.testing.assert_array_equal(observations[:4], state.normaliser(batch.careful.observations))
    np.testing.assert_array_equal(actions[:4], batch.careful.actions)
    np.testing.assert_array_equal(taught, [1, 1, 1, 1, *np.arange(6.0, 18.0)])
    np.testing.assert_array_equal(actions[4:], critics.actions[4:])
    np.testing.assert_array_equal(observations[4:], critics.observations[4:])
    for changes in ({"roles": "converse"}, {"restriction_range": None}):
        plain = lspc.teach_careful(tiny.lspc_state(**changes), batch, critics, weights)
        assert plain[1] is critics.actions


def test_careful_are_the_cheapest_tenth_and_all_that_are_nearly_free() -> None:
    dataset = ring_data()
    stretches, chances = divide(dataset), find_chances(dataset)[admission.LEVELS]
    totals = np.bincount(stretches.owners, stretches.costs + stretches.usual)
    cap = max(np.quantile(totals, 0.1), 0.02 * np.quantile(dataset.cost_returns, 0.95))
    drawn = chances > 1e-7
    assert np.all(drawn[totals <= cap])
    assert drawn.mean() >= 0.1
    whole = chances[totals <= cap] / dataset.lengths[totals <= cap]
    np.testing.assert_allclose(whole, whole[0], rtol=0.05)  # whatever they return


def test_the_eps_of_a_budget_admits_the_episodes_within_it() -> None:
    dataset = ring_data()
    costs, costly = dataset.cost_returns, float(np.quantile(dataset.cost_returns, 0.95))
    assert admission.restriction_for(costs, costly / 8, (0.0, 2.0)) == pytest.approx(1.0)  # half way: a cube
    assert admission.restriction_for(costs, 0.0, (0.02, 2.0)) == pytest.approx(0.02)
    assert admission.restriction_for(costs, 2 * costly, (0.02, 2.0)) == 2.0
    assert admission.restriction_for(0 * costs, 5.0, (0.02, 2.0)) == 2.0  # nobody costs anything
    chances = find_chances(dataset)
    for level, place in list(enumerate(PLACES))[8:]:
        cap = float(place**3 * costly)
        assert admission.restriction_for(costs, cap, (0.0, 1.0)) == pytest.approx(place)
        assert np.average(costs, weights=chances[level]) <= cap


def test_a_draw_has_all_transitions_and_of_the_admitted_as_often_as_their_level_says() -> None:
    dataset = small_dataset(episodes=40, steps=10)
    config = tiny.config(record_share=0.5, batch_size=4096)
    table = jax.tree.map(jnp.asarray, lspc.table(dataset, config))
    drawn = lspc.draw(table, jax.random.key(0), Spec.of(dataset), config)
    assert isinstance(drawn, RecordedBatch)
    number = {row.tobytes(): i for i, row in enumerate(dataset.observations)}

    def find_rows(batch: Batch) -> np.ndarray:
        rows = np.array([number[row.tobytes()] for row in np.asarray(batch.observations)])
        np.testing.assert_array_equal(np.asarray(batch.actions), dataset.actions[rows])
        return rows

    assert len(np.unique(find_rows(drawn.transitions))) > 0.99 * dataset.transitions
    assert len(drawn.careful.actions) == config.zero_share * 4096
    rows = find_rows(drawn.careful)
    assert np.all(find_chances(dataset, 0.5)[admission.LEVELS, rows // 10] > 0)
    rows = find_rows(drawn.admitted)
    assert set(rows % 10) == set(range(10))  # every step of an episode
    levels = (np.asarray(drawn.places) * admission.LEVELS).astype(int)
    assert np.all(np.abs(np.bincount(levels) - 256) < 80)
    chances = find_chances(dataset, 0.5)
    assert np.all(chances[levels, rows // 10] > 0)
    top = np.bincount(rows[levels >= 8] // 10, minlength=40) / np.sum(levels >= 8)
    np.testing.assert_allclose(top, chances[8 : admission.LEVELS].mean(axis=0), atol=0.02)


@pytest.mark.parametrize("episodes", [1, 2, 7, 8, 300])
def test_bisection_finds_what_a_plain_search_finds(episodes: int) -> None:
    rng = np.random.default_rng(episodes)
    parts = rng.exponential(size=(3, episodes)) * (rng.random((3, episodes)) < 0.5) + 1e-9
    cumulative = np.cumsum(parts / parts.sum(1, keepdims=True), axis=1).astype(np.float32)
    levels, chances = rng.integers(0, 3, 500), rng.random(500).astype(np.float32)
    chances[0] = 1.0  # beyond the last, where rounding leaves the sum below 1
    found = admission.find_episodes(*(jnp.asarray(each) for each in (cumulative, levels.astype(np.int32), chances)))
    expected = [np.searchsorted(cumulative[level], chance) for level, chance in zip(levels, chances, strict=True)]
    np.testing.assert_array_equal(found, np.minimum(expected, episodes - 1))


def test_the_record_is_not_asked_unless_wanted() -> None:
    dataset = small_dataset(episodes=12, steps=10)
    assert isinstance(lspc.table(dataset, tiny.config(record_share=None)), np.ndarray)
    batch = recorded_batch()
    for changes in ({"roles": "converse"}, {"restriction_range": None}):
        state = tiny.lspc_state(**changes)
        shown = lspc.show_transitions(state, critics := lspc.update_critics(state, batch), batch, jax.random.key(1))
        assert shown.critics is critics


def test_the_critics_draw_the_same_transitions_with_and_without_a_record() -> None:
    dataset = small_dataset(episodes=12, steps=10)
    drawn = []
    for share in (None, 0.5):
        config = tiny.config(record_share=share)
        table = jax.tree.map(jnp.asarray, lspc.table(dataset, config))
        drawn.append(lspc.draw(table, jax.random.key(3), Spec.of(dataset), config))
    assert isinstance(drawn[1], RecordedBatch)
    assert tiny.same(drawn[0], drawn[1].transitions)
