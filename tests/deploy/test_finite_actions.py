"""No NaN leaves: a broken policy is refused by name, an action that is not finite is replaced, counted and told."""

import warnings
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.calibrated import guard_models, made, untrained
from helpers.exported import FEED_FORWARD, leave_run, open_session, run, untrained_policy

from lspc import policy
from lspc.acting import Seen
from lspc.algos.base import Policy, Spec
from lspc.algos.lspc import LspcPolicy
from lspc.data import Dataset
from lspc.deploy import onnx_policies
from lspc.deploy.guard import Guard
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.runs import layout

CARD = {"spec": {"observation_dim": 7}}


def break_encoder(net: LspcPolicy) -> LspcPolicy:
    """LSPC-O gives NaN, LSPC-S, which has no use for the encoder, does not."""
    return eqx.tree_at(lambda n: n.encoder.layers[-1].bias, net, replace_fn=lambda bias: bias.at[0].set(jnp.nan))


def huge(dataset: Dataset) -> np.ndarray:
    """Two observations of which the second is finite, and too large to compute with."""
    observations = dataset.observations[:2].copy()
    observations[1, :] = [3e38, -3e38, 3e38, 3e38, -3e38, 3e38, 3e38]
    return observations


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_policy_with_weights_that_are_not_finite_is_refused(tmp_path: Path, dataset: Dataset, wrong: float) -> None:
    out = leave_run(tmp_path / "run", "bc", dataset)
    sound = load_policy(out)
    broken = eqx.tree_at(lambda n: n.net.layers[0].weight, sound.net, replace_fn=lambda w: w.at[1, 2].set(wrong))
    policy.save(layout.policy_folder(out, 0), broken, sound.card)
    with pytest.raises(UserError, match=r"weights\.safetensors: net\.layers\.0\.weight holds NaN or infinity"):
        load_policy(out)


def test_lspc_s_acts_where_lspc_o_gives_no_number(dataset: Dataset) -> None:
    net = untrained(dataset)
    broken, careful = (TrainedPolicy(n, v, CARD) for n, v in ((break_encoder(net), "LSPC-O"), (net, "LSPC-S")))
    seen = dataset.observations[:5]
    with pytest.warns(UserWarning, match="action was NaN or infinite"):
        actions = broken.act(seen)
    np.testing.assert_array_equal(actions, careful.act(seen))
    broken.act(seen[0])  # told once: a second warning would be an error here
    assert broken.fallbacks == {"LSPC-S": 6, "zeros": 0}


@pytest.mark.parametrize("name", [*FEED_FORWARD])
def test_a_huge_observation_gets_zeros_and_its_neighbour_its_own_action(name: str, dataset: Dataset) -> None:
    net, _ = untrained_policy(name, dataset)
    trained = TrainedPolicy(net, net.variants[0], CARD)
    observations = huge(dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actions = trained.act(observations)
    assert np.isfinite(actions).all()
    np.testing.assert_allclose(actions[0], trained.act(observations[0]), atol=1e-6)
    exported = run(open_session(onnx_policies.build(net, facts={})), ["action"], {"observation": observations})[0]
    np.testing.assert_allclose(exported, actions, atol=1e-5)


def test_the_pool_gets_finite_actions_too(dataset: Dataset) -> None:
    trained = TrainedPolicy(untrained(dataset), "LSPC-O", CARD)
    zeros = np.zeros(2, np.float32)
    seen = Seen(huge(dataset), np.arange(1, 3), np.zeros(2, np.int64), zeros, zeros, np.arange(2))
    with pytest.warns(UserWarning, match="action was NaN or infinite"):
        actions = trained.for_episodes(sampled=False)(seen)
    assert actions[1].tolist() == [0, 0]
    assert trained.fallbacks == {"LSPC-S": 0, "zeros": 1}


def test_the_guard_lets_no_nan_pass(dataset: Dataset) -> None:
    net = untrained(dataset)
    models = guard_models(Spec.of(dataset))
    broken = Guard(break_encoder(net), models, made())
    with pytest.warns(UserWarning, match="action was NaN or infinite"):
        actions = broken.act(dataset.observations[:3], budget_left=100.0, steps_left=5)
    np.testing.assert_allclose(actions, TrainedPolicy(net, "LSPC-S", CARD).act(dataset.observations[:3]), atol=1e-6)
    assert broken.interventions == {
        "steps": 3,
        "too_costly": 0,
        "unfamiliar": 0,
        "lowered": 0,
        "alarmed": 0,
        "not_finite": 3,
    }
    sound = Guard(net, models, made())
    with pytest.warns(UserWarning, match="action was NaN or infinite"):
        actions = sound.act(huge(dataset), budget_left=100.0, steps_left=5)
    assert actions[1].tolist() == [0, 0]
    assert sound.interventions["not_finite"] == 1


@pytest.mark.parametrize("what", ["action", "safe_action"])
def test_the_file_lets_no_nan_pass(what: str, dataset: Dataset) -> None:
    broken: Policy = break_encoder(untrained(dataset))
    session = open_session(onnx_policies.build(broken, facts={}))
    [actions] = run(session, [what], {"observation": dataset.observations[:4]})
    wanted = TrainedPolicy(untrained(dataset), "LSPC-S", CARD).act(dataset.observations[:4])
    np.testing.assert_allclose(actions, wanted, atol=1e-5)


def test_an_eps_that_is_no_number_gives_lspc_s(dataset: Dataset) -> None:
    session = open_session(onnx_policies.build(untrained(dataset), facts={}))
    inputs = {"observation": dataset.observations[:4], "eps": np.array([np.nan], np.float32)}
    bold, careful = run(session, ["action", "safe_action"], inputs)
    np.testing.assert_array_equal(bold, careful)
    assert np.isfinite(bold).all()
