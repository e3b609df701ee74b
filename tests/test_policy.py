"""A trained policy: what is saved acts as what was trained, and it refuses what it cannot act on."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers.calibrated import add_calibration, with_tails

from lspc import algos, files, policy
from lspc.acting import Seen
from lspc.algos.base import Policy, Spec
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy

OBSERVATIONS = np.random.default_rng(1).normal(size=(6, 7)).astype(np.float32)


def leave(folder: Path, dataset: Dataset, name: str = "lspc", seed: int = 0) -> tuple[Policy, dict]:
    """A policy as training leaves it, untrained."""
    method, spec = algos.get(name), Spec.of(dataset)
    config = method.Config(hidden=(8, 8), **({"latent_dim": 4} if name == "lspc" else {}))
    net = method.policy(method.init(jax.random.key(seed), spec, config))
    card = {"method": name, "spec": asdict(spec), "config": asdict(config), "training_seed": seed}
    policy.save(folder, net, card)
    return net, card


@pytest.fixture(scope="module")
def folder(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run")
    leave(run / "policy" / "seed-3", dataset, seed=3)
    leave(run / "policy" / "seed-12", dataset, seed=12)
    return run


@pytest.mark.parametrize("name", ["lspc", "bc"])
def test_saved_and_loaded_policies_act_alike(tmp_path: Path, dataset: Dataset, name: str) -> None:
    net, card = leave(tmp_path, dataset, name)
    for variant in net.variants:
        before, after = TrainedPolicy(net, variant, card), load_policy(tmp_path, variant=variant)
        np.testing.assert_array_equal(before.act(OBSERVATIONS), after.act(OBSERVATIONS))
        one, other = (p.act(OBSERVATIONS, np.random.default_rng(5)) for p in (before, after))
        np.testing.assert_array_equal(one, other)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["card.json", "weights.safetensors"]


def test_the_first_seed_and_the_policy_to_deploy_are_the_default(folder: Path) -> None:
    loaded = load_policy(folder)
    assert loaded.card["training_seed"] == 3
    assert loaded.variant == loaded.net.variants[0] == loaded.card["variants"][0] == "LSPC-O"
    assert load_policy(folder, seed=12).card["training_seed"] == 12


def test_the_variants_differ(folder: Path) -> None:
    deterministic = {v: load_policy(folder, variant=v).act(OBSERVATIONS) for v in ("LSPC-O", "LSPC-S", "CVAE")}
    assert not np.array_equal(deterministic["LSPC-O"], deterministic["LSPC-S"])
    np.testing.assert_array_equal(deterministic["LSPC-S"], deterministic["CVAE"])  # both decode the zero latent
    sampled = {v: load_policy(folder, variant=v).act(OBSERVATIONS, np.random.default_rng(0)) for v in deterministic}
    assert not np.array_equal(sampled["LSPC-S"], sampled["CVAE"])


def test_one_observation_and_a_batch_agree(folder: Path) -> None:
    loaded = load_policy(folder)
    batch = loaded.act(OBSERVATIONS)
    assert batch.shape == (6, 2)
    assert batch.dtype == np.float32
    assert (np.abs(batch) <= 1).all()
    for observation, action in zip(OBSERVATIONS, batch, strict=True):
        assert loaded.act(observation).shape == (2,)
        np.testing.assert_allclose(loaded.act(observation), action, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(loaded.act(OBSERVATIONS.reshape(2, 3, 7)).reshape(6, 2), batch, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(loaded.act(OBSERVATIONS.astype(np.float64)), batch)


def test_sampling_follows_the_generator(folder: Path) -> None:
    loaded = load_policy(folder)
    first, again = (loaded.act(OBSERVATIONS, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, loaded.act(OBSERVATIONS, np.random.default_rng(8)))
    assert not np.array_equal(first, loaded.act(OBSERVATIONS))
    np.testing.assert_array_equal(loaded.act(OBSERVATIONS), loaded.act(OBSERVATIONS))


def test_episode_noise_depends_on_seed_and_step_alone(folder: Path) -> None:
    act = load_policy(folder).for_episodes(sampled=True)
    same, nothing = np.tile(OBSERVATIONS[:1], (4, 1)), np.zeros(4, np.float32)
    seen = Seen(same, np.array([5, 5, 6, 5]), np.array([0, 1, 0, 0]), nothing, nothing, np.arange(4))
    a, b, c, d = act(seen)
    np.testing.assert_allclose(a, d, atol=1e-6)
    assert not np.allclose(a, b)
    assert not np.allclose(a, c)
    quiet = load_policy(folder).for_episodes(sampled=False)(seen)
    np.testing.assert_allclose(quiet, np.tile(load_policy(folder).act(same[0]), (4, 1)), atol=1e-6)


@pytest.mark.parametrize("shape", [(6,), (8,), (5, 8), (), (7, 1)])
def test_observations_of_another_size_are_refused(folder: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="takes observations of size 7, not of shape"):
        load_policy(folder).act(np.zeros(shape, np.float32))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_observation_that_is_no_number_is_refused(folder: Path, bad: float) -> None:
    observations = OBSERVATIONS.copy()
    observations[3, 2] = bad
    with pytest.raises(UserError, match="NaN or infinity"):
        load_policy(folder).act(observations)


def test_wrong_names_are_refused_with_the_right_ones(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no policy 'LSPC': choose one of LSPC-O, LSPC-S, CVAE"):
        load_policy(folder, variant="LSPC")
    with pytest.raises(UserError, match="no seed 4: it has 3, 12"):
        load_policy(folder, seed=4)
    with pytest.raises(UserError, match="is the policy of seed 3, not of seed 12"):
        load_policy(folder / "policy" / "seed-3", seed=12)
    with pytest.raises(UserError, match="is it the folder of a run"):
        load_policy(tmp_path)
    with pytest.raises(UserError, match="is it the folder of a run"):
        load_policy(tmp_path / "nowhere")


def test_an_unfinished_run_has_no_policy(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="training has not finished"):
        load_policy(tmp_path)


def test_a_card_that_does_not_fit_is_refused(tmp_path: Path, dataset: Dataset) -> None:
    _, card = leave(tmp_path, dataset)
    path = tmp_path / "card.json"
    card[policy.WEIGHTS_HASH] = files.file_hash(tmp_path / "weights.safetensors")
    for change in ({"config": {**card["config"], "brand_new": 1}}, {"spec": {}}, {"method": "nothing"}):
        files.write_json(path, files.seal({**card, **change}))
        with pytest.raises(UserError, match=r"card\.json: not a card|not settings of|unknown method"):
            load_policy(tmp_path)
    files.write_json(path, files.seal({**card, "config": {**card["config"], "hidden": [9, 9]}}))
    with pytest.raises(UserError, match=r"weights\.safetensors: .* should be"):
        load_policy(tmp_path)
    path.write_text("{")
    with pytest.raises(UserError, match=r"card\.json: damaged"):
        load_policy(tmp_path)


@pytest.fixture
def calibrated_run(dataset: Dataset, tmp_path: Path) -> Path:
    """A policy whose calibration takes eps 0.5 for budget 12 and 1 for 20, and expects a cost of 1/4 at each step."""
    leave(tmp_path / "policy" / "seed-0", dataset)
    add_calibration(tmp_path, dataset)
    return tmp_path


def test_lspc_s_does_not_act_as_lspc_o_when_given_a_budget(calibrated_run: Path, dataset: Dataset) -> None:
    careful = load_policy(calibrated_run, variant="LSPC-S")
    asked_for: list[dict[str, Any]] = [{"budget": 40.0}, {"budget_left": 4.0, "steps_left": 10}]
    for asked in asked_for:
        with pytest.raises(UserError, match="this is LSPC-S, which does not depend on a budget: load LSPC-O"):
            careful.act(dataset.observations[0], **asked)
    with pytest.raises(UserError, match="this is LSPC-S, which does not depend on a budget: load LSPC-O"):
        careful.for_budget(40.0)


def test_a_budget_takes_the_eps_chosen_for_it(calibrated_run: Path) -> None:
    loaded = load_policy(calibrated_run)
    for budget, eps in ((12, 0.5), (20.0, 1.0), (1e6, 2.0)):
        wanted = load_policy(calibrated_run, restriction=eps).act(OBSERVATIONS)
        np.testing.assert_allclose(loaded.act(OBSERVATIONS, budget=budget), wanted, atol=1e-6)
    assert not np.allclose(loaded.act(OBSERVATIONS, budget=12), loaded.act(OBSERVATIONS, budget=1e6))
    sampled = loaded.act(OBSERVATIONS, np.random.default_rng(3), budget=12)
    again = load_policy(calibrated_run, restriction=0.5).act(OBSERVATIONS, np.random.default_rng(3))
    np.testing.assert_allclose(sampled, again, atol=1e-6)
    assert loaded.for_budget(12) is loaded.for_budget(12)  # chosen and compiled once


def test_a_risk_takes_a_more_careful_eps_for_the_same_budget(calibrated_run: Path, dataset: Dataset) -> None:
    add_calibration(calibrated_run, dataset, curve=with_tails())
    loaded = load_policy(calibrated_run)
    assert [loaded.choose(12.0, risk).restriction for risk in (None, 0.05)] == [0.5, 0.02]
    at = {eps: load_policy(calibrated_run, restriction=eps).act(OBSERVATIONS) for eps in (0.02, 0.5)}
    for _ in range(2):
        np.testing.assert_allclose(loaded.act(OBSERVATIONS, budget=12.0), at[0.5], atol=1e-6)
        np.testing.assert_allclose(loaded.act(OBSERVATIONS, budget=12.0, risk=0.05), at[0.02], atol=1e-6)
        np.testing.assert_allclose(loaded.for_budget(12.0, 0.05).act(OBSERVATIONS), at[0.02], atol=1e-6)
    with pytest.raises(UserError, match=r"^budget 8: no eps fits: .* may cost 9 in more than 5% of episodes"):
        loaded.act(OBSERVATIONS, budget=8.0, risk=0.05)
    with pytest.raises(UserError, match="give a budget too"):
        loaded.act(OBSERVATIONS, risk=0.05)


def test_a_budget_that_no_eps_keeps_is_refused(calibrated_run: Path) -> None:
    loaded = load_policy(calibrated_run)
    for budget, told in (
        (5, "budget 5: no eps fits"),
        (1, "budget 1: the data cannot tell"),
        (-1, "0 or more"),
        (np.nan, "0 or more"),
    ):
        with pytest.raises(UserError, match=told):
            loaded.act(OBSERVATIONS, budget=budget)


def test_a_budget_needs_lspc_and_a_calibration(folder: Path, dataset: Dataset, tmp_path: Path) -> None:
    loaded = load_policy(folder)
    questions: list[dict[str, Any]] = [{"budget": 10}, {"budget_left": 10, "steps_left": 5}]
    for asked in questions:
        with pytest.raises(UserError, match="has no calibration: run `lspc calibrate`"):
            loaded.act(OBSERVATIONS, **asked)
        with pytest.raises(UserError, match="not loaded from a folder"):
            TrainedPolicy(loaded.net, "LSPC-O", loaded.card).act(OBSERVATIONS, **asked)
    leave(tmp_path, dataset, "bc")
    with pytest.raises(UserError, match="a policy of bc has no restriction"):
        load_policy(tmp_path).act(OBSERVATIONS, budget=10)


def test_what_is_left_puts_the_guard_in_charge(calibrated_run: Path) -> None:
    loaded = load_policy(calibrated_run)
    bold, careful = (load_policy(calibrated_run, variant=v).act(OBSERVATIONS) for v in ("LSPC-O", "LSPC-S"))
    fits = loaded.act(OBSERVATIONS, budget_left=10, steps_left=40)
    np.testing.assert_allclose(fits, bold, atol=1e-6)
    np.testing.assert_allclose(loaded.act(OBSERVATIONS, budget_left=9.9, steps_left=40), careful, atol=1e-6)
    wanted = {"steps": 12, "too_costly": 6, "unfamiliar": 0, "lowered": 0, "alarmed": 0, "not_finite": 0}
    assert loaded.guard.interventions == wanted
    loaded.act(OBSERVATIONS)
    assert loaded.guard.interventions["steps"] == 12  # steps without it are none of its business


def test_a_budget_and_the_guard_together(calibrated_run: Path) -> None:
    loaded = load_policy(calibrated_run)
    wanted = load_policy(calibrated_run, restriction=0.5).act(OBSERVATIONS)
    found = loaded.act(OBSERVATIONS, budget=12, budget_left=10, steps_left=40)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert loaded.for_budget(12).guard.interventions["steps"] == 6


def test_half_a_question_to_the_guard_is_refused(calibrated_run: Path) -> None:
    loaded = load_policy(calibrated_run)
    halves: list[dict[str, Any]] = [
        {"budget_left": 5.0},
        {"steps_left": 5},
        {"rng": np.random.default_rng(0), "budget_left": 5.0, "steps_left": 5},
    ]
    for asked in halves:
        with pytest.raises(UserError, match="the guard needs both budget_left and steps_left, and does not sample"):
            loaded.act(OBSERVATIONS, **asked)
    broken = OBSERVATIONS.copy()
    broken[0, 0] = np.nan
    questions: list[dict[str, Any]] = [{"budget": 12}, {"budget_left": 5.0, "steps_left": 5}]
    for asked in questions:
        with pytest.raises(UserError, match="NaN or infinity"):
            loaded.act(broken, **asked)


def test_an_eps_beyond_the_trained_range_is_refused(calibrated_run: Path) -> None:
    for eps in (0.01, 2.1, np.nan):
        with pytest.raises(UserError, match=r"trained for every eps from 0\.02 to 2"):
            load_policy(calibrated_run, restriction=eps)


def test_a_copy_has_the_calibration_and_acts_alike(calibrated_run: Path, dataset: Dataset, tmp_path: Path) -> None:
    trained = load_policy(calibrated_run)
    trained.save(tmp_path / "copy")
    copy, seen = load_policy(tmp_path / "copy"), dataset.observations[:3]
    np.testing.assert_array_equal(copy.predict(seen), trained.act(seen))
    assert copy.calibration == trained.calibration
    made = TrainedPolicy(trained.net, trained.variant, trained.card)  # of no folder
    made.save(tmp_path / "made")
    np.testing.assert_array_equal(load_policy(tmp_path / "made").act(seen), trained.act(seen))


def test_its_words_tell_what_it_is(calibrated_run: Path) -> None:
    told = repr(load_policy(calibrated_run, restriction=0.5))
    assert told.startswith("TrainedPolicy(LSPC-O of lspc, eps 0.5, seed 0: ")
    assert str(calibrated_run) in told
    assert repr(load_policy(calibrated_run).calibration).startswith("Calibration(seed 0: LSPC-O from eps ")
