"""A trained policy: what is saved acts as what was trained, and it refuses what it cannot act on."""

import json
from dataclasses import asdict
from pathlib import Path

import jax
import numpy as np
import pytest

from lspc import algos, policy
from lspc.algos.base import Policy, Spec
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.sims.pool import Seen

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
    for change in ({"config": {**card["config"], "brand_new": 1}}, {"spec": {}}, {"method": "nothing"}):
        path.write_text(json.dumps({**card, **change}))
        with pytest.raises(UserError, match=r"card\.json: not a card|unknown method"):
            load_policy(tmp_path)
    path.write_text(json.dumps({**card, "config": {**card["config"], "hidden": [9, 9]}}))
    with pytest.raises(UserError, match=r"weights\.safetensors: .* should be"):
        load_policy(tmp_path)
    path.write_text("{")
    with pytest.raises(UserError, match=r"card\.json: damaged"):
        load_policy(tmp_path)
