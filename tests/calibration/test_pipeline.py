"""The whole calibration: the split by hand, one policy from data to choice, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.calibrated import SMALL_DYNAMICS, SMALL_FITTED_Q, add_calibration, finished_run, untrained
from helpers.data import small_dataset

from lspc import algos, training
from lspc.algos.base import Spec
from lspc.algos.lspc import LspcPolicy
from lspc.calibration import fitted_q, margins, pipeline, storage
from lspc.calibration.choosing import FEWEST_NEAR, Calibration
from lspc.calibration.families import LspcFamily
from lspc.calibration.pipeline import (
    OffPolicyEvaluator,
    calibrate,
    calibrate_policy,
    find_frontier,
    gather_starts,
    share_out,
)
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import load_policy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unlimited_reach")]

BRIEFLY: dict[str, Any] = {"dynamics_config": SMALL_DYNAMICS, "fitted_q_config": SMALL_FITTED_Q}


def episodes_of(costs: list[float]) -> Dataset:
    """Episodes of two steps, told apart by their observation: their number."""
    numbers = np.repeat(np.arange(len(costs), dtype=np.float32), 2)
    halves = np.repeat(np.array(costs, np.float32) / np.float32(2), 2)
    last = np.tile([False, True], len(costs))
    return Dataset(
        numbers[:, None], 0 * numbers[:, None], numbers, halves, numbers[:, None],
        np.zeros(len(numbers), bool), last,
    )  # fmt: skip


def test_each_member_leaves_out_every_fifth_episode_in_order_of_cost() -> None:
    costs = np.random.default_rng(0).permutation(50).astype(float)
    data = episodes_of(costs.tolist())
    unseen = share_out(data, 5, 0.0, seed=0)
    assert (unseen.sum(axis=0) == 1).all()
    for own in unseen:
        assert [sum(5 * i <= cost < 5 * i + 5 for cost in costs[own]) for i in range(10)] == [1] * 10


def test_what_was_held_out_from_training_is_seen_by_no_member() -> None:
    data = episodes_of(list(range(50)))
    unseen = share_out(data, 5, 0.2, seed=0)
    held_out = data.hold_out(0.2)
    assert len(held_out) == 10
    assert unseen[:, held_out].all()
    assert (np.delete(unseen, held_out, axis=1).sum(axis=0) == 1).all()


def days_cut_at_lost_samples(whole: int, ended: int) -> Dataset:
    """Days of six steps, whole or ended after three, then one that was cut in two; the observation is the hour."""
    hours = [*[range(6)] * whole, *[range(3)] * ended, range(4), range(4, 6)]
    seen = np.concatenate(hours).astype(np.float32)[:, None]
    last = np.cumsum([len(day) for day in hours]) - 1
    terminated, truncated = np.zeros(len(seen), bool), np.zeros(len(seen), bool)
    terminated[last[whole : whole + ended]] = True
    truncated[last] = ~terminated[last]
    nothing = np.zeros(len(seen), np.float32)
    return Dataset(seen, 0 * seen, nothing, nothing, seen + 1, terminated, truncated)


def test_policies_are_tried_from_the_starts_of_whole_episodes() -> None:
    """Not from the middle of a day: its last hours would be lived through twice."""
    assert gather_starts(days_cut_at_lost_samples(7, 3), 6).tolist() == [[0.0]] * 10
    few = days_cut_at_lost_samples(6, 3)  # too few to leave the others out
    assert gather_starts(few, 6).tolist() == [[0.0]] * 10 + [[4.0]]


def test_the_seed_decides_among_episodes_of_one_cost() -> None:
    alike = episodes_of([1.0] * 40)
    first, again, other = (share_out(alike, 4, 0.0, seed).tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_too_few_episodes_are_refused() -> None:
    enough = 2 * FEWEST_NEAR
    assert share_out(episodes_of([1.0] * enough), 4, 0.0, 0).shape == (4, enough)
    with pytest.raises(UserError, match=f"arrays: {enough - 1} episodes cannot support a calibration; {enough} can"):
        share_out(episodes_of([1.0] * (enough - 1)), 4, 0.0, 0)


def test_a_policy_leaves_the_data_by_its_states_or_by_its_cost() -> None:
    """Two models, one start: a reward of 1 and a cost of 3 each; its steps lead 0.1 beyond the range of the data."""
    none, nothing = margins.fit_cost_margin((), 1.0), cast(Any, None)
    evaluator = OffPolicyEvaluator(
        nothing, (), none, none, 0.2, 3.0, margins.Frontier.of(np.array([2.0]), np.zeros(1)), starts=np.zeros((1, 1)),
        horizon=9, largest=9.0, seed=0,
    )  # fmt: skip
    values = np.tile([1.0, 3.0], (2, 1, 1))
    assert evaluator._summarise(values, 0.1).cost.high == 3.0
    for other, strayed in ((evaluator, 0.3), (evaluator._replace(shown=2.9), 0.1), (evaluator, float("nan"))):
        told = other._summarise(values, strayed)
        assert told.beyond
        assert told.cost.high == max(told.tails.values()) == 9.0


def test_who_earns_more_for_less_cost_than_any_episode_is_not_believed() -> None:
    """Two models, one start: a reward of 1 and no cost; the only episode that returned as much cost 4."""
    none, nothing = margins.fit_cost_margin((), 1.0), cast(Any, None)
    shown = margins.Frontier.of(np.array([0.5, 3.0, 1.0]), np.array([0.0, 7.0, 4.0]))
    evaluator = OffPolicyEvaluator(
        nothing, (), none, none, 0.2, 3.0, shown, starts=np.zeros((1, 1)), horizon=9, largest=9.0, seed=0
    )
    for earned, least in ((0.5, 0.0), (0.6, 4.0), (1.0, 4.0), (2.0, 7.0), (3.1, 9.0)):
        told = evaluator._summarise(np.tile([earned, 0.0], (2, 1, 1)), 0.1)
        assert told.cost.high == least
        assert set(told.tails.values()) == {least}
        assert not told.beyond


def test_the_frontier_is_of_whole_episodes_or_of_what_pieces_would_have_become() -> None:
    whole = episodes_of([1.0] * FEWEST_NEAR)
    length = int(whole.lengths.max())
    assert find_frontier(whole, length).costs.tolist() == [1.0] * FEWEST_NEAR
    assert find_frontier(whole, 2 * length).costs.tolist() == [2.0] * FEWEST_NEAR  # cut in the middle, all of them


def check_sane(found: Calibration, dataset: Dataset) -> None:
    assert found.dataset == dataset.fingerprint
    assert found.horizon == 50
    assert found.episode_costs == tuple(sorted(dataset.cost_returns.tolist()))
    for each in found.curve:
        assert 0.0 <= each.cost.low <= each.cost.mean <= each.cost.high
        assert each.cost.high <= 50  # the data's largest cost at every step
        assert each.reward.low <= each.reward.mean <= each.reward.high
        assert 0 <= each.fitted_cost <= 50
    assert len(found.replays) == margins.GROUPS
    for each in found.curve:
        assert sorted(each.tails.values()) == list(each.tails.values())[::-1]  # the rarer, the dearer
    assert found.familiar_within > 0


@pytest.fixture(scope="module")
def run(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(dataset, tmp_path_factory.mktemp("runs") / "tiny")


def test_a_policy_is_calibrated_and_keeps_it(dataset: Dataset, run: Path) -> None:
    told: list[tuple[str, int, int]] = []
    policy = load_policy(run)
    found = calibrate_policy(
        policy, dataset, **BRIEFLY, on_progress=lambda what, done, total: told.append((what, done, total))
    )
    check_sane(found, dataset)
    eps = [each.restriction for each in found.curve]
    assert len(eps) == pipeline.POINTS
    assert (eps[0], eps[-1]) == (0.02, 2.0)
    assert eps == sorted(eps)
    assert {done for _, done, _ in told} == {SMALL_FITTED_Q.updates}
    assert len({what for what, *_ in told}) == 2
    loaded = load_policy(run)
    assert loaded.calibration == replace(found, settings=json.loads(json.dumps(found.settings)))
    chosen = found.choose(1e6).restriction
    assert chosen == max(found.curve, key=lambda each: each.reward.mean).restriction
    seen = dataset.observations[:5]
    np.testing.assert_array_equal(loaded.act(seen, budget=1e6), load_policy(run, restriction=chosen).act(seen))
    # The networks that were kept for the guard are those whose opinion stands in the curve.
    models = storage.load_guard_models(run / "policy" / "seed-0", found, Spec.of(dataset))
    assert isinstance(policy.net, LspcPolicy)
    family = LspcFamily(policy.net)
    initial = jnp.asarray(dataset.initial_observations)
    again = fitted_q.predict_returns(models.fitted_q, family, initial, jnp.asarray([0.02, 2.0]))
    costs = np.asarray(again)[..., 1].mean(axis=(0, 2))
    np.testing.assert_allclose(costs, [found.curve[0].fitted_cost, found.curve[-1].fitted_cost], rtol=1e-4, atol=1e-4)


def test_the_seed_decides_the_whole_calibration(dataset: Dataset) -> None:
    net = untrained(dataset)
    first, again, other = (calibrate(net, dataset, **BRIEFLY, seed=seed)[0] for seed in (0, 0, 1))
    assert first == again
    assert first.curve != other.curve


def test_a_run_with_one_eps_has_one_point(dataset: Dataset, tmp_path: Path) -> None:
    out = finished_run(dataset, tmp_path / "fixed", restriction_range=None, restriction=0.6)
    found = calibrate_policy(load_policy(out), dataset, **BRIEFLY)
    check_sane(found, dataset)
    assert [each.restriction for each in found.curve] == [0.6]
    assert found.choose(1e6).restriction == 0.6
    seen = dataset.observations[:5]
    np.testing.assert_allclose(load_policy(out).act(seen, budget=1e6), load_policy(out).act(seen), atol=1e-6)
    watched = load_policy(out).act(seen, budget=1e6, budget_left=1e6, steps_left=50)
    assert watched.shape == (5, 2)


def test_other_data_other_methods_and_homeless_policies_are_refused(
    dataset: Dataset, run: Path, tmp_path: Path
) -> None:
    policy = load_policy(run)
    with pytest.raises(UserError, match="is not the data that the policy learned from: their fingerprints differ"):
        calibrate_policy(policy, small_dataset(seed=1), **BRIEFLY)
    bc = algos.get("bc").Config(steps=2, batch_size=32, hidden=(8, 8))
    cloned = load_policy(training.train(dataset, tmp_path / "bc", bc, method="bc"))
    with pytest.raises(UserError, match="only LSPC has an eps to choose, and this is a policy of bc"):
        calibrate_policy(cloned, dataset, **BRIEFLY)
    swapped = load_policy(finished_run(dataset, tmp_path / "converse", roles="converse", steps=2))
    with pytest.raises(UserError, match="only LSPC has an eps to choose"):
        calibrate_policy(swapped, dataset, **BRIEFLY)
    homeless = type(policy)(policy.net, "LSPC-O", policy.card)
    with pytest.raises(UserError, match="not loaded from a folder"):
        calibrate_policy(homeless, dataset, **BRIEFLY)


def test_a_calibration_replaces_the_one_before(dataset: Dataset, run: Path) -> None:
    before = add_calibration(run, dataset)
    assert load_policy(run).calibration.curve == before.curve
    calibrate_policy(load_policy(run), dataset, **BRIEFLY)
    assert load_policy(run).calibration.curve != before.curve
