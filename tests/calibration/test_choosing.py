"""Calibration: the split, the margins and the choice by hand, what is kept and refused, and the whole of it once."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.calibrated import SMALL, SMALL_WORLD, add_calibration, evidence, finished_run, made, point, untrained
from helpers.data import small_dataset

from lspc import algos, training
from lspc.algos.base import Spec
from lspc.calibration import choosing as calibration
from lspc.calibration import dynamics, fitted_q
from lspc.calibration.choosing import Calibration, Estimate, calibrate, calibrate_policy, split
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import load_policy

BRIEFLY: dict[str, Any] = {"worlds": SMALL_WORLD, "fitted": SMALL}


def episodes_of(costs: list[float]) -> Dataset:
    """Episodes of two steps, told apart by their observation: their number."""
    numbers = np.repeat(np.arange(len(costs), dtype=np.float32), 2)
    halves = np.repeat(np.array(costs, np.float32) / np.float32(2), 2)
    last = np.tile([False, True], len(costs))
    return Dataset(
        numbers[:, None], 0 * numbers[:, None], numbers, halves, numbers[:, None],
        np.zeros(len(numbers), bool), last,
    )  # fmt: skip


def numbers(dataset: Dataset) -> list[int]:
    return [int(first) for first in dataset.initial_observations[:, 0]]


def test_the_split_takes_every_fifth_episode_in_order_of_cost() -> None:
    costs = np.random.default_rng(0).permutation(50).astype(float)
    learned, held_out = split(episodes_of(costs.tolist()), seed=0)
    assert sorted(numbers(learned) + numbers(held_out)) == list(range(50))
    assert len(numbers(held_out)) == 10
    assert [sum(5 * i <= cost < 5 * i + 5 for cost in held_out.cost_returns) for i in range(10)] == [1] * 10


def test_the_seed_decides_among_episodes_of_one_cost() -> None:
    alike = episodes_of([1.0] * 40)
    first, again, other = (numbers(split(alike, seed)[1]) for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == len(other) == 8


def test_too_few_episodes_are_refused() -> None:
    enough = 2 * calibration.FEWEST_NEAR
    split(episodes_of([1.0] * enough), 0)
    with pytest.raises(UserError, match=f"arrays: {enough - 1} episodes cannot support a calibration; {enough} can"):
        split(episodes_of([1.0] * (enough - 1)), 0)


def test_the_margin_by_hand() -> None:
    """Errors beyond twice the spread: 2 of (8 + 2), 4 - 1 of (8 + 2), 3 - 4 which is none."""
    found = calibration.margin([(10.0, 8.0), (4.0, 8.0), (3.0, 6.0)], [0.0, 0.5, 2.0], unit=2.0)
    assert (found.share, found.unit) == pytest.approx((0.3, 2.0))
    around = found.around(18.0, 1.0)
    assert (around.mean, around.low, around.high) == pytest.approx((18.0, 10.0, 26.0))
    negative = found.around(-18.0, 1.0)
    assert (negative.mean, negative.low, negative.high) == pytest.approx((-18.0, -26.0, -10.0))


def test_what_is_known_exactly_has_the_spread_alone_as_its_margin() -> None:
    found = calibration.margin([(10.0, 10.0)], [3.0], unit=1.0)
    assert found.share == 0.0
    assert found.around(10.0, 3.0) == Estimate(10.0, 4.0, 16.0)


@pytest.mark.parametrize(
    ("budget", "eps"), [(12.0, 0.5), (11.99, 0.02), (17.0, 0.5), (18.0, 1.0), (60.0, 2.0), (1e6, 2.0)]
)
def test_the_largest_eps_whose_upper_bound_fits_is_chosen(budget: float, eps: float) -> None:
    choice = made().choose(budget)
    assert choice.restriction == eps
    assert choice.cost is not None
    assert choice.cost.high <= budget
    assert choice.cost == next(p.cost for p in made().curve if p.restriction == eps)
    assert f"eps {eps:g}: predicted cost {choice.cost.mean:g}" in choice.why
    assert ("the largest eps there is" in choice.why) == (eps == 2.0)


def test_a_curve_that_does_not_rise_is_no_matter() -> None:
    curve = tuple(point(eps, high) for eps, high in ((0.02, 30.0), (0.5, 8.0), (1.0, 15.0), (2.0, 10.0)))
    assert made(curve=curve).choose(12.0).restriction == 2.0
    assert made(curve=curve).choose(9.0).restriction == 0.5


def test_when_no_eps_fits_it_says_so_and_how_far_off_it_is() -> None:
    choice = made().choose(5.9)
    assert (choice.restriction, choice.cost, choice.reward) == (None, None, None)
    assert "no eps fits: even eps 0.02 may cost 6 (predicted 3)" in choice.why


def test_data_without_episodes_near_the_budget_cannot_tell() -> None:
    """Nine cheap episodes among many costly ones, whatever the curve says."""
    cheap, costly = [1.0] * 9, [500.0] * 91
    choice = made(episode_costs=(*cheap, *costly)).choose(20.0)
    assert choice.restriction is None
    assert "the data cannot tell: only 9 of 100 episodes cost about 20 or less (10 are needed)" in choice.why
    assert made(episode_costs=(*cheap, 1.0, *costly)).choose(20.0).restriction == 1.0
    assert made(episode_costs=(*cheap, *costly)).choose(1e4).restriction == 2.0


@pytest.mark.parametrize("budget", [-0.1, float("nan"), float("inf"), float("-inf")])
def test_a_budget_that_makes_no_sense_is_refused(budget: float) -> None:
    with pytest.raises(UserError, match="a budget must be a number of 0 or more, not"):
        made().choose(budget)


def test_saved_and_loaded_it_is_the_same(dataset: Dataset, tmp_path: Path) -> None:
    spec = Spec.of(dataset)
    before, proof = made(), evidence(spec, (0.1, 0.4))
    calibration.save(tmp_path, before, proof)
    assert sorted(path.name for path in tmp_path.iterdir()) == [calibration.FILE, calibration.JUDGES]
    assert calibration.load(tmp_path) == replace(before, settings=json.loads(json.dumps(before.settings)))
    loaded = calibration.load_evidence(tmp_path, calibration.load(tmp_path), spec)
    assert jax.tree.structure(loaded) == jax.tree.structure(proof)
    for one, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(proof), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace('"episode_costs"', '"episode_prices"'),
        lambda text: text.replace('"share"', '"part"'),
        lambda text: text.replace('"high"', '"higher"'),
        lambda text: json.dumps({**json.loads(text), "curve": None}),
        lambda text: json.dumps({**json.loads(text), "brand_new": 1}),
    ],
)
def test_a_damaged_file_is_one_clear_line(dataset: Dataset, tmp_path: Path, damage: Any) -> None:
    calibration.save(tmp_path, made(), evidence(Spec.of(dataset)))
    path = tmp_path / calibration.FILE
    path.write_text(damage(path.read_text()))
    with pytest.raises(UserError) as told:
        calibration.load(tmp_path)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


def test_missing_or_foreign_parts_are_one_clear_line(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path} has no calibration: run `lspc calibrate`"):
        calibration.load(tmp_path)
    spec, found = Spec.of(dataset), made()
    with pytest.raises(UserError, match=calibration.JUDGES):
        calibration.load_evidence(tmp_path, found, spec)
    calibration.save(tmp_path, found, evidence(spec))
    wider = {**found.settings, "hidden": [9]}
    with pytest.raises(UserError, match=rf"{calibration.JUDGES}: .* should be"):
        calibration.load_evidence(tmp_path, made(settings=wider), spec)


def test_distance_to_the_nearest_landmark_by_hand() -> None:
    landmarks = np.array([[0.0, 0.0], [3.0, 4.0]])
    asked = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 5.0], [6.0, 8.0]])
    np.testing.assert_allclose(calibration.nearest_distance(asked, landmarks), [0.0, 3.0, 1.0, 5.0], atol=1e-6)


def test_states_like_the_datas_are_familiar_and_others_are_not() -> None:
    data = small_dataset(episodes=60)
    data = replace(data, observations=data.observations * [1, 1, 1, 50, 1, 1, 1])  # a feature in other units
    learned, held_out = split(data, 0)
    landmarks, limit = calibration.familiar_states(learned, held_out, seed=0)
    assert landmarks.shape == (calibration.LANDMARKS, 7)
    assert {tuple(row) for row in landmarks.tolist()} <= {tuple(row) for row in learned.observations.tolist()}
    std = learned.statistics.observation_std

    def share_beyond(asked: np.ndarray) -> float:
        return float((calibration.nearest_distance(asked / std, landmarks / std) > limit).mean())

    assert share_beyond(held_out.observations) < 0.01
    assert share_beyond(held_out.observations + 20 * std) == 1.0


def test_replayed_stretches_are_grouped_by_what_was_predicted() -> None:
    """Costs and rewards are scaled from a stretch to the whole horizon; nothing is lost on the way."""
    data = small_dataset(episodes=60)
    learned, held_out = split(data, 0)
    models = dynamics.fit(learned, SMALL_WORLD)
    replays, cost, reward = calibration.replay_margins(models, held_out, horizon=50)
    predicted, true = dynamics.replayed(models, held_out, calibration.STRETCH)
    assert sum(replay.stretches for replay in replays) == len(true) == 24
    assert [replay.predicted_cost for replay in replays] == sorted(replay.predicted_cost for replay in replays)
    for place, name in ((0, "reward"), (1, "cost")):
        for values, field in ((true, name), (predicted.mean(0), f"predicted_{name}")):
            weighed = sum(replay.stretches * getattr(replay, field) for replay in replays) / len(true)
            assert weighed == pytest.approx(50 / calibration.STRETCH * values[:, place].mean())
    assert (cost.unit, reward.unit > 0) == (1.0, True)
    # A share no larger than the worst group's error, and none when the spread explains everything.
    worst = max(abs(replay.cost - replay.predicted_cost) / (replay.predicted_cost + 1) for replay in replays)
    assert 0.0 <= cost.share <= worst + 1e-9


def test_data_of_short_episodes_are_replayed_in_short_stretches() -> None:
    learned, held_out = split(small_dataset(episodes=40, steps=6), 0)
    replays, *_ = calibration.replay_margins(dynamics.fit(learned, SMALL_WORLD), held_out, horizon=6)
    assert sum(replay.stretches for replay in replays) == 8
    assert np.mean([replay.cost for replay in replays]) == pytest.approx(held_out.cost_returns.mean(), abs=1.0)


def check_sane(found: Calibration, dataset: Dataset) -> None:
    assert found.dataset == dataset.fingerprint
    assert found.horizon == 50
    assert found.episode_costs == tuple(sorted(dataset.cost_returns.tolist()))
    for each in found.curve:
        assert 0.0 <= each.cost.low <= each.cost.mean <= each.cost.high
        assert each.cost.mean <= 50  # the data's largest cost at every step
        assert each.reward.low <= each.reward.mean <= each.reward.high
        assert 0 <= each.fitted_cost <= 50
    assert 1 <= len(found.replays) <= calibration.GROUPS
    assert found.familiar_within > 0


@pytest.fixture(scope="module")
def run(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(dataset, tmp_path_factory.mktemp("runs") / "tiny")


def test_a_policy_is_calibrated_and_keeps_it(dataset: Dataset, run: Path) -> None:
    told: list[tuple[str, int, int]] = []
    policy = load_policy(run)
    found = calibrate_policy(policy, dataset, **BRIEFLY, on_progress=lambda *now: told.append(now))
    check_sane(found, dataset)
    eps = [each.restriction for each in found.curve]
    assert len(eps) == calibration.POINTS
    assert (eps[0], eps[-1]) == (0.02, 2.0)
    assert eps == sorted(eps)
    assert {done for _, done, _ in told} == {SMALL.updates}
    assert len({what for what, *_ in told}) == 2
    loaded = load_policy(run)
    assert loaded.calibration == replace(found, settings=json.loads(json.dumps(found.settings)))
    choice = found.choose(1e6)
    assert choice.restriction == 2.0
    seen = dataset.observations[:5]
    np.testing.assert_array_equal(loaded.act(seen, budget=1e6), load_policy(run, restriction=2.0).act(seen))
    # The judges that were kept for the guard are those whose opinion stands in the curve.
    proof = calibration.load_evidence(run / "policy" / "seed-0", found, Spec.of(dataset))
    family = fitted_q.Restricted(policy.net)  # pyright: ignore[reportArgumentType]
    again = fitted_q.judged(proof.judges, family, jnp.asarray(dataset.initial_observations), jnp.asarray([0.02, 2.0]))
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
    bc = algos.get("bc").Config(steps=2, batch_size=8, hidden=(8, 8))
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
