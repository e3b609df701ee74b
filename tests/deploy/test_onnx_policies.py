"""The ONNX graphs are the JAX policies: same actions, same critics, raw observations, any batch, eps in or fixed."""

import inspect
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from helpers.calibrated import observations, untrained
from helpers.exported import FEED_FORWARD, open_session, run, shift, untrained_policy
from jaxtyping import Array

from lspc import algos
from lspc.algos.base import Policy
from lspc.algos.bc import BcPolicy
from lspc.algos.fisor import FisorPolicy
from lspc.algos.lspc import LspcPolicy
from lspc.algos.parts import iql
from lspc.data import Dataset
from lspc.deploy import onnx_graph, onnx_policies
from lspc.errors import UserError

ALL = ["action", "safe_action", "cost", "reward", "safe_cost", "safe_reward"]
JUDGED = {"judge": np.array(True)}
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-5}


def eps(value: float) -> np.ndarray:
    return np.array([value], np.float32)


@pytest.fixture(scope="module")
def shifted(dataset: Dataset) -> Dataset:
    return shift(dataset)


@pytest.fixture(scope="module")
def policy(shifted: Dataset) -> LspcPolicy:
    return untrained(shifted, hidden=(64, 64), latent_dim=8)


@pytest.fixture(scope="module")
def session(policy: LspcPolicy) -> onnxruntime.InferenceSession:
    return open_session(onnx_policies.build(policy, fixed=False, facts={"task": "BallRun"}))


@pytest.fixture(scope="module")
def seen(shifted: Dataset) -> np.ndarray:
    return observations(10_000, shifted)


def acted(
    policy: LspcPolicy, seen: np.ndarray, variant: str, at: float, noise: np.ndarray | None = None
) -> np.ndarray:
    noise = np.zeros((len(seen), policy.noise_dim), np.float32) if noise is None else noise
    act = eqx.filter_jit(type(policy).act)  # which is one program for every eps
    return np.asarray(act(policy, jnp.asarray(seen), jnp.asarray(noise), variant, jnp.asarray(at)))


@pytest.mark.parametrize("at", [0.02, 0.3, 1.0, 2.0])
def test_actions_equal_the_policys_on_ten_thousand_raw_observations(
    policy: LspcPolicy, session: onnxruntime.InferenceSession, seen: np.ndarray, at: float
) -> None:
    action, safe = run(session, ["action", "safe_action"], {"observation": seen, "eps": eps(at)})
    np.testing.assert_allclose(action, acted(policy, seen, "LSPC-O", at), **CLOSE)
    np.testing.assert_allclose(safe, acted(policy, seen, "LSPC-S", at), **CLOSE)
    assert action.shape == safe.shape == (10_000, 2)
    assert action.std(axis=0).min() > 0.05  # constant actions would agree too


def test_eps_and_noise_matter_and_have_the_policys_own_defaults(
    policy: LspcPolicy, session: onnxruntime.InferenceSession, seen: np.ndarray
) -> None:
    (default,) = run(session, ["action"], {"observation": seen})
    np.testing.assert_allclose(default, acted(policy, seen, "LSPC-O", 1.0), **CLOSE)
    (other,) = run(session, ["action"], {"observation": seen, "eps": eps(0.02)})
    assert np.abs(default - other).max() > 0.05
    noise = np.random.default_rng(5).standard_normal((len(seen), policy.noise_dim), dtype=np.float32)
    (sampled,) = run(session, ["action"], {"observation": seen, "eps": eps(0.6), "noise": noise})
    np.testing.assert_allclose(sampled, acted(policy, seen, "LSPC-O", 0.6, noise), **CLOSE)
    (one_for_all,) = run(session, ["action"], {"observation": seen, "eps": eps(0.6), "noise": noise[:1]})
    shared = np.tile(noise[:1], (len(seen), 1))
    np.testing.assert_allclose(one_for_all, acted(policy, seen, "LSPC-O", 0.6, shared), **CLOSE)
    assert np.abs(sampled - one_for_all).max() > 0.05


def test_critics_equal_the_policys_for_both_actions(
    policy: LspcPolicy, session: onnxruntime.InferenceSession, seen: np.ndarray
) -> None:
    found = dict(zip(ALL, run(session, ALL, {"observation": seen, "eps": eps(0.7), **JUDGED}), strict=True))
    normalised = policy.normaliser(jnp.asarray(seen))
    for prefix, variant in (("", "LSPC-O"), ("safe_", "LSPC-S")):
        actions = jnp.asarray(acted(policy, seen, variant, 0.7))
        cost = iql.twin(policy.cost_q, normalised, actions, is_cost=True)
        reward = iql.twin(policy.reward_q, normalised, actions, is_cost=False)
        np.testing.assert_allclose(found[f"{prefix}cost"], cost[:, None], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found[f"{prefix}reward"], reward[:, None], rtol=1e-5, atol=1e-5)
    (best, worst) = (net(normalised, jnp.asarray(found["action"]))[:, :1] for net in policy.cost_q)
    assert np.abs(best - worst).max() > 0.01  # the twins differ, so taking the wrong one would show


def test_critics_are_silent_unless_asked(session: onnxruntime.InferenceSession, seen: np.ndarray) -> None:
    for asked in ({}, {"judge": np.array(False)}):
        outputs = run(session, ALL, {"observation": seen[:3], **asked})
        assert [output.shape for output in outputs] == [(3, 2), (3, 2), (0, 1), (0, 1), (0, 1), (0, 1)]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_rows_of_a_batch_do_not_touch_each_other(
    session: onnxruntime.InferenceSession, seen: np.ndarray, size: int
) -> None:
    whole = run(session, ALL, {"observation": seen[:20], **JUDGED})
    part = run(session, ALL, {"observation": seen[5 : 5 + size], **JUDGED})
    for big, small in zip(whole, part, strict=True):
        np.testing.assert_allclose(small, big[5 : 5 + size], **CLOSE)


def test_a_fixed_file_takes_neither_eps_nor_noise(policy: LspcPolicy, seen: np.ndarray) -> None:
    model = onnx_policies.build(policy.at(0.3), fixed=True, facts={})
    session = open_session(model)
    names = {tensor.name for tensor in [*session.get_inputs(), *session.get_overridable_initializers()]}
    assert names == {"observation", "judge"}
    (action,) = run(session, ["action"], {"observation": seen})
    np.testing.assert_allclose(action, acted(policy, seen, "LSPC-O", 0.3), **CLOSE)
    with pytest.raises(Exception, match="Invalid input name: eps"):
        run(session, ["action"], {"observation": seen, "eps": eps(2.0)})


@pytest.mark.parametrize(
    "settings",
    [
        {"restriction_range": None, "restriction": 0.6},
        {"normalise_observations": False},
        {"hidden": (16,)},
        {"hidden": (24, 16, 8), "restriction_range": (0.1, 0.9), "restriction": 0.5},
    ],
)
def test_policies_of_other_settings(shifted: Dataset, settings: dict[str, Any]) -> None:
    policy = untrained(shifted, **settings)
    session, seen = open_session(onnx_policies.build(policy, fixed=False, facts={})), observations(500, shifted)
    action, safe = run(session, ["action", "safe_action"], {"observation": seen})
    np.testing.assert_allclose(action, acted(policy, seen, "LSPC-O", policy.config.restriction), **CLOSE)
    np.testing.assert_allclose(safe, acted(policy, seen, "LSPC-S", policy.config.restriction), **CLOSE)


def test_what_the_file_says_of_itself(policy: LspcPolicy, session: onnxruntime.InferenceSession) -> None:
    assert [tensor.name for tensor in session.get_inputs()] == ["observation"]
    assert session.get_inputs()[0].shape == ["batch", 7]
    assert {tensor.name for tensor in session.get_overridable_initializers()} == {"eps", "noise", "judge"}
    assert [tensor.name for tensor in session.get_outputs()] == ALL
    assert session.get_modelmeta().custom_metadata_map == {"task": "BallRun"}
    model = onnx_policies.build(policy, fixed=False, facts={})
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == onnx_graph.OPSET
    assert all(tensor.doc_string for tensor in [*model.graph.input, *model.graph.output])
    assert {tensor.data_type for tensor in model.graph.initializer} == {onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL}


def test_observations_of_another_size_are_refused(session: onnxruntime.InferenceSession) -> None:
    with pytest.raises(Exception, match="Got: 8 Expected: 7"):
        run(session, ["action"], {"observation": np.zeros((1, 8), np.float32)})


def test_the_same_policy_gives_the_same_bytes(policy: LspcPolicy) -> None:
    one, other = (onnx_policies.build(policy, fixed=False, facts={"a": "b"}).SerializeToString() for _ in range(2))
    assert one == other


def first_actions(policy: Policy, seen: np.ndarray, noise: np.ndarray | None = None) -> Array:
    """Of the policy to deploy; one program for all weights of a shape."""
    noise = np.zeros((len(seen), policy.noise_dim), np.float32) if noise is None else noise
    return eqx.filter_jit(type(policy).__call__)(policy, jnp.asarray(seen), jnp.asarray(noise), policy.variants[0])


@pytest.mark.parametrize("method", FEED_FORWARD)
def test_every_methods_actions_equal_the_policys(shifted: Dataset, method: str) -> None:
    policy, _ = untrained_policy(method, shifted)
    session, seen = open_session(onnx_policies.build(policy, facts={})), observations(300, shifted)
    wanted = first_actions(policy, seen)
    (action,) = run(session, ["action"], {"observation": seen})
    np.testing.assert_allclose(action, wanted, **CLOSE)
    assert action.shape == (300, 2)
    assert action.std(axis=0).min() > 0.05  # constant actions would agree too
    for row in (0, 7):
        (single,) = run(session, ["action"], {"observation": seen[row : row + 1]})
        np.testing.assert_allclose(single, wanted[row : row + 1], **CLOSE)


@pytest.mark.parametrize("method", [name for name in FEED_FORWARD if name != "bc"])
def test_noise_makes_the_policys_own_random_actions(shifted: Dataset, method: str) -> None:
    """A row of noise for each observation, or one for all; BC has none to take."""
    policy, _ = untrained_policy(method, shifted)
    session, seen = open_session(onnx_policies.build(policy, facts={})), observations(300, shifted)
    noise = np.random.default_rng(5).standard_normal((300, policy.noise_dim), dtype=np.float32)
    (sampled,) = run(session, ["action"], {"observation": seen, "noise": noise})
    np.testing.assert_allclose(sampled, first_actions(policy, seen, noise), **CLOSE)
    (one_for_all,) = run(session, ["action"], {"observation": seen, "noise": noise[:1]})
    np.testing.assert_allclose(one_for_all, first_actions(policy, seen, np.tile(noise[:1], (300, 1))), **CLOSE)
    assert np.abs(sampled - one_for_all).max() > 0.02
    fixed = open_session(onnx_policies.build(policy, facts={}, fixed=True))
    assert "noise" not in {tensor.name for tensor in fixed.get_overridable_initializers()}


@pytest.mark.parametrize("method", FEED_FORWARD)
@pytest.mark.parametrize(
    "settings",
    [
        {"hidden": (), "cvae_hidden": (), "actor_blocks": 0, "normalise_observations": False},
        {"hidden": (24, 16, 8), "cvae_hidden": (12,), "actor_blocks": 3, "diffusion_steps": 2, "candidates": 1},
    ],
)
def test_every_method_in_other_settings(shifted: Dataset, method: str, settings: dict[str, Any]) -> None:
    known = inspect.signature(algos.get(method).Config).parameters
    policy, _ = untrained_policy(method, shifted, **{name: x for name, x in settings.items() if name in known})
    session, seen = open_session(onnx_policies.build(policy, facts={})), observations(50, shifted)
    wanted = first_actions(policy, seen)
    np.testing.assert_allclose(run(session, ["action"], {"observation": seen})[0], wanted, **CLOSE)


@pytest.mark.slow
def test_a_fisor_of_the_default_size_is_close_too(shifted: Dataset) -> None:
    """Rounding grows over five denoising steps through three blocks of 256, in JAX as in onnxruntime."""
    size: dict[str, Any] = {"hidden": (256, 256), "actor_width": 256, "actor_blocks": 3, "candidates": 16}
    policy, _ = untrained_policy("fisor", shifted, scale=1.0, **size)
    session, seen = open_session(onnx_policies.build(policy, facts={})), observations(100, shifted)
    wanted = first_actions(policy, seen)
    np.testing.assert_allclose(run(session, ["action"], {"observation": seen})[0], wanted, rtol=0, atol=3e-5)


def test_fisor_says_how_feasible_its_action_is(shifted: Dataset) -> None:
    policy, _ = untrained_policy("fisor", shifted)
    assert isinstance(policy, FisorPolicy)
    session, seen = open_session(onnx_policies.build(policy, facts={})), observations(100, shifted)
    action, feasibility = run(session, ["action", "feasibility"], {"observation": seen})
    q_h = iql.twin(policy.q_h, policy.normaliser(jnp.asarray(seen)), jnp.asarray(action), is_cost=True)
    np.testing.assert_allclose(feasibility, q_h[:, None], rtol=1e-4, atol=1e-4)


def test_the_converse_has_no_safe_action(shifted: Dataset) -> None:
    policy = untrained(shifted, roles="converse")
    session, seen = open_session(onnx_policies.build(policy, facts={})), observations(100, shifted)
    assert [tensor.name for tensor in session.get_outputs()] == ["action", "cost", "reward"]
    action, cost = run(session, ["action", "cost"], {"observation": seen, "eps": eps(0.4), **JUDGED})
    np.testing.assert_allclose(action, acted(policy, seen, "converse LSPC-O", 0.4), **CLOSE)
    q_c = iql.twin(policy.cost_q, policy.normaliser(jnp.asarray(seen)), jnp.asarray(action), is_cost=True)
    np.testing.assert_allclose(cost, q_c[:, None], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", FEED_FORWARD)
def test_every_input_and_output_is_explained(shifted: Dataset, method: str) -> None:
    model = onnx_policies.build(untrained_policy(method, shifted)[0], facts={"method": method})
    assert all(tensor.doc_string for tensor in [*model.graph.input, *model.graph.output])
    assert (model.graph.input[0].name, model.graph.output[0].name) == ("observation", "action")
    assert [(fact.key, fact.value) for fact in model.metadata_props] == [("method", method)]
    assert model.opset_import[0].version == onnx_graph.OPSET


class Unknown(Policy):
    variants: ClassVar[tuple[str, ...]] = ("new",)

    @property
    def noise_dim(self) -> int:
        return 1

    def __call__(self, observations: Any, noise: Any, variant: str) -> Any:
        return observations


class Renamed(BcPolicy):
    variants: ClassVar[tuple[str, ...]] = ("renamed",)


class Opposite(BcPolicy):
    def __call__(self, observations: Any, noise: Any, variant: str) -> Any:
        return -super().__call__(observations, noise, variant)


def test_a_policy_nobody_described_is_named(dataset: Dataset) -> None:
    """One that inherits a known kind is described like it, unless it acts in its own way."""
    bc, _ = untrained_policy("bc", dataset)
    assert isinstance(bc, BcPolicy)
    parts: dict[str, Any] = {"net": bc.net, "normaliser": bc.normaliser}
    assert onnx_policies.build(Renamed(**parts), facts={}) == onnx_policies.build(bc, facts={})
    for policy in (Unknown(), Opposite(**parts)):
        with pytest.raises(UserError, match=f"{type(policy).__name__} has no ONNX graph: describe it"):
            onnx_policies.build(policy, facts={})
