"""The `official` preset is the released code: five recorded updates of it, number by number.

`official_steps.npz` holds weights before and after, batches with the noise drawn for them, logged losses and actions,
of tiny networks in two cases: `bullet` (eps .6, no mask) and `masked` (eps .25, a mask at .15).
"""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from lspc import algos
from lspc.algos import lspc
from lspc.algos.base import Batch, Spec
from lspc.nets import MLP, Learner
from lspc.tasks import get_task
from lspc.training import settings

RECORDED = np.load(Path(__file__).with_name("official_steps.npz"), allow_pickle=False)
UPDATES = 5
SPEC = Spec(
    observation_dim=5, action_dim=2, observation_mean=(0.0,) * 5, observation_std=(1.0,) * 5, return_min=0.0,
    return_max=1.0, largest_reward=1.0, largest_cost=1.0, longest_episode=100,
)  # fmt: skip
CASES = {"bullet": ("BallCircle", {}), "masked": ("easysparse", {"cost_mask": 0.15})}
CRITICS = {"reward": ("q", "q_target", "v"), "cost": ("cost_q", "cost_q_target", "cost_v")}


def layers(prefix: str, *names: str) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(RECORDED[f"{prefix}/{name}.weight"].T, RECORDED[f"{prefix}/{name}.bias"]) for name in names]


def heads(prefix: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two heads, mean and log-spread, are the halves of our last layer."""
    (mean, mean_bias), (log_std, log_std_bias) = layers(prefix, "mean", "log_std")
    return [(np.concatenate([mean, log_std], axis=1), np.concatenate([mean_bias, log_std_bias]))]


def networks(moment: str) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Every network of the released code, as the layers of ours."""
    found = {}
    for part, (q, target, value) in CRITICS.items():
        for i in (1, 2):
            found[f"{part}.q{i}"] = layers(f"{moment}/{q}", *(f"q{i}.net.{n}" for n in (0, 2, 4)))
            found[f"{part}.target_q{i}"] = layers(f"{moment}/{target}", *(f"q{i}.net.{n}" for n in (0, 2, 4)))
        found[f"{part}.value"] = layers(f"{moment}/{value}", *(f"v.net.{n}" for n in (0, 2, 4)))
    found["cvae.encoder"] = layers(f"{moment}/cvae", "e1", "e2") + heads(f"{moment}/cvae")
    found["cvae.decoder"] = layers(f"{moment}/cvae", "d1", "d2", "d3")
    found["encoder"] = layers(f"{moment}/safety_encoder", "encoder.0", "encoder.2") + heads(
        f"{moment}/safety_encoder"
    )
    return found


def ours(state: lspc.State) -> dict[str, MLP]:
    found: dict[str, MLP] = {}
    for part in CRITICS:
        critic = getattr(state, part)
        for i in (1, 2):
            found[f"{part}.q{i}"], found[f"{part}.target_q{i}"] = critic.q.net[i - 1], critic.target_q[i - 1]
        found[f"{part}.value"] = critic.value.net
    return {
        **found,
        "cvae.encoder": state.cvae.net.encoder,
        "cvae.decoder": state.cvae.net.decoder,
        "encoder": state.encoder.net,
    }


def fill(net: MLP, recorded: list[tuple[np.ndarray, np.ndarray]]) -> MLP:
    arrays = [jnp.asarray(array) for pair in recorded for array in pair]
    return eqx.tree_at(lambda n: [leaf for layer in n.layers for leaf in (layer.weight, layer.bias)], net, arrays)


def start(case: str) -> lspc.State:
    name, more = CASES[case]
    user: dict[str, Any] = {"hidden": (16, 16), "latent_dim": 4, "batch_size": 32, **more}
    config = settings.resolve(algos.get("lspc"), "official", get_task(name), user).config
    state = lspc.init(jax.random.key(0), SPEC, config)
    nets = {name: fill(net, networks(f"{case}/before")[name]) for name, net in ours(state).items()}

    def critic(part: str) -> Any:
        fresh = getattr(state, part)
        twins = nets[f"{part}.q1"], nets[f"{part}.q2"]
        slow = nets[f"{part}.target_q1"], nets[f"{part}.target_q2"]
        return type(fresh)(Learner.of(twins), slow, Learner.of(nets[f"{part}.value"]))

    cvae = eqx.tree_at(lambda c: (c.encoder, c.decoder), state.cvae.net, (nets["cvae.encoder"], nets["cvae.decoder"]))
    return eqx.tree_at(
        lambda s: (s.reward, s.cost, s.cvae, s.encoder),
        state,
        (critic("reward"), critic("cost"), Learner.of(cvae), Learner.of(nets["encoder"])),
    )


def batch_of(place: str) -> Batch:
    names = ["observations", "actions", "rewards", "costs", "next_observations", "terminals", "timeouts"]
    return Batch(*(jnp.asarray(RECORDED[f"{place}/{name}"]) for name in names))


Replayed = tuple[lspc.State, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def replayed(case: str) -> Replayed:
    """The state after the five batches with their own noise, and the metrics of each update."""

    @eqx.filter_jit
    def update(state: lspc.State, batch: Batch, noise: tuple[Array, Array]) -> tuple[lspc.State, dict[str, Array]]:
        recorded = iter(noise)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jax.random, "normal", lambda key, shape: next(recorded))
            return lspc.update(state, batch, jax.random.key(0))

    state, metrics = start(case), []
    for number in range(UPDATES):
        place = f"{case}/batch{number}"
        noise = jnp.asarray(RECORDED[f"{place}/noise_cvae"]), jnp.asarray(RECORDED[f"{place}/noise_encoder"])
        state, found = update(state, batch_of(place), noise)
        metrics.append(found)
    return state, metrics


def test_every_weight_is_the_released_code_s(case: str, replayed: Replayed) -> None:
    recorded = networks(f"{case}/after")
    for name, net in ours(replayed[0]).items():
        for layer, (weight, bias) in zip(net.layers, recorded[name], strict=True):
            np.testing.assert_allclose(layer.weight, weight, atol=1e-5, err_msg=name)
            np.testing.assert_allclose(layer.bias, bias, atol=1e-5, err_msg=name)


def test_the_recorded_updates_did_something(case: str) -> None:
    before, after = networks(f"{case}/before"), networks(f"{case}/after")
    for name in before:
        assert max(np.abs(a - b).max() for (a, _), (b, _) in zip(before[name], after[name], strict=True)) > 1e-4 or (
            "target" in name
        )


def test_losses_and_weights_are_the_released_code_s(case: str, replayed: Replayed) -> None:
    names = {
        "value_loss": "reward/value_loss",
        "q_loss": "reward/q_loss",
        "cost_v_loss": "cost/value_loss",
        "cost_q_loss": "cost/q_loss",
        "vae/awr_loss": "cvae/loss",
        "safety_cons/awr_loss": "encoder/loss",
    }
    for number, metrics in enumerate(replayed[1]):
        for theirs, ours_name in names.items():
            np.testing.assert_allclose(
                metrics[ours_name], RECORDED[f"{case}/log{number}/{theirs}"], rtol=1e-5, atol=1e-6, err_msg=ours_name
            )


def test_actions_are_the_released_code_s(case: str, replayed: Replayed) -> None:
    policy = lspc.policy(replayed[0])
    observations, noise = (jnp.asarray(RECORDED[f"{case}/act/{name}"]) for name in ("observations", "noise"))
    np.testing.assert_allclose(policy(observations, noise, "LSPC-O"), RECORDED[f"{case}/act/lspc_o"], atol=1e-5)
    np.testing.assert_allclose(policy(observations, noise, "LSPC-S"), RECORDED[f"{case}/act/lspc_s"], atol=1e-5)
