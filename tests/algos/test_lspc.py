"""LSPC: its losses by explicit formula, where its gradients stop, where its latents live, and the paper's table."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from helpers import tiny
from jaxtyping import Array
from numpy.typing import NDArray

from lspc import algos
from lspc.algos import lspc
from lspc.algos.base import Batch
from lspc.algos.parts import iql
from lspc.algos.parts.cvae import evidence_loss
from lspc.algos.parts.latent_policy import rewarding_latents, safe_latents
from lspc.algos.parts.weights import effective_share
from lspc.errors import UserError
from lspc.tasks import get_task
from lspc.training import settings

update = lspc.update
"""Not compiled: op by op the compiler is asked once. `tiny.update` is compiled, once for each setting."""
FIXED: dict[str, Any] = {"cost_share": None, "reward_share": None}
"""The paper's fixed temperatures instead of ones fitted to the batch."""


state = tiny.lspc_state


def forward(net: Any, *inputs: Any) -> NDArray[np.float64]:
    """The network once more, in numpy and double precision."""
    x = np.concatenate([np.asarray(part, np.float64) for part in inputs], axis=-1)
    for layer in net.layers[:-1]:
        x = np.maximum(x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64), 0)
    return x @ np.asarray(net.layers[-1].weight, np.float64) + np.asarray(net.layers[-1].bias, np.float64)


def report(value: list[float], q: list[float]) -> iql.CriticReport:
    values, qs = jnp.asarray(value, jnp.float32), jnp.asarray(q, jnp.float32)
    return iql.CriticReport(qs - values, values, qs, {})


def learned(nets: lspc.State) -> lspc.CriticOutputs:
    return tiny.update_critics(nets, tiny.batch())


def noise(seed: int = 5, size: int = 16) -> Array:
    return jax.random.normal(jax.random.key(seed), (size, tiny.LATENT))


def told(eps: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the encoder hears of eps: the range's end is 1."""
    high = (tiny.config().restriction_range or (0.0, 1.0))[1]
    return 2 * eps / high - 1


# The losses.


@pytest.mark.parametrize("form", ["mean", "sum"])
def test_cvae_loss_by_explicit_formula(form: Any) -> None:
    batch, cvae = tiny.batch(), state().cvae.net
    weights = jnp.linspace(0.0, 3.0, 16)
    loss, metrics = evidence_loss(cvae, batch.observations, batch.actions, weights, noise(), 0.3, form, 0.0)

    mean, log_std = np.split(forward(cvae.encoder, batch.observations, batch.actions), 2, axis=-1)
    latents = mean + np.exp(log_std) * np.asarray(noise())
    error = ((np.tanh(forward(cvae.decoder, batch.observations, latents)) - np.asarray(batch.actions)) ** 2).sum(1)
    kl = -0.5 * (1 + 2 * log_std - mean**2 - np.exp(log_std) ** 2)
    kl = kl.mean(1) if form == "mean" else kl.sum(1)
    assert loss == pytest.approx(np.mean(np.asarray(weights) * (error + 0.3 * kl)), rel=1e-4)
    assert metrics["reconstruction"] == pytest.approx(error.mean(), rel=1e-4)
    assert metrics["kl"] == pytest.approx(kl.mean(), rel=1e-4)


def test_encoder_loss_by_explicit_formula() -> None:
    nets, eps = state(), jnp.linspace(0.1, 1.9, 16)
    critics, observations = learned(nets), learned(nets).observations
    weights, decoder, encoder = jnp.linspace(0.0, 3.0, 16), nets.cvae.net.decoder, nets.encoder.net
    plain, searching = (
        lspc.encoder_loss(encoder, decoder, critics, weights, noise(), eps, tiny.config(search=search))
        for search in (0.0, 0.5)
    )

    each = np.asarray(eps)[:, None]
    mean, log_std = np.split(forward(encoder, observations, told(each)), 2, axis=-1)
    box = np.maximum(each, 1.0)  # the record chooses
    latents = box * np.tanh(mean + np.exp(log_std) * np.asarray(noise()))
    decoded = np.tanh(forward(decoder, observations, latents))
    error = ((decoded - np.asarray(critics.actions)) ** 2).sum(1)
    assert plain[0] == pytest.approx(np.mean(np.asarray(weights) * error), rel=1e-4)
    assert plain[1]["latents_at_edge"] == pytest.approx(np.mean(np.abs(latents) > 0.95 * box))
    followed = lspc.search_loss(critics, jnp.asarray(decoded, jnp.float32), eps, tiny.config())
    assert searching[0] - plain[0] == pytest.approx(0.5 * float(followed.mean()), rel=1e-3)
    converse, unsearched = (
        lspc.encoder_loss(encoder, decoder, critics, weights, noise(), eps, tiny.config(record_share=None, **changes))
        for changes in ({"search": 0.5, "roles": "converse"}, {})
    )
    assert converse[0] == unsearched[0]


def test_search_loss_by_explicit_formula() -> None:
    higher = eqx.tree_at(lambda s: s.cost.value.net.layers[-1].bias, state(), replace_fn=lambda bias: bias + 0.5)
    critics, actions = learned(higher), 0.5 * tiny.batch().actions
    span = tiny.config().restriction_range
    assert span is not None
    eps = jnp.linspace(0.0, span[1], 16)
    loss = lspc.search_loss(critics, actions, eps, tiny.config(caution=3.0))

    seen = critics.observations
    reward = np.minimum(*(forward(net, seen, actions)[:, 0] for net in critics.reward.q.net))
    cost = np.maximum(*(forward(net, seen, actions)[:, 0] for net in critics.cost.q.net))
    excess = np.maximum(cost - np.maximum(forward(critics.cost.value.net, seen)[:, 0], 0), 0)
    assert 0 < np.mean(excess > 0) < 1
    caution = 3.0 * (1 - np.linspace(0, 1, 16))
    expected = caution * excess / np.std(critics.cost_report.advantage)
    np.testing.assert_allclose(
        loss, expected - reward / np.std(critics.reward_report.advantage), rtol=1e-3, atol=1e-3
    )
    alone = tiny.config(caution=3.0, restriction=0.6, restriction_range=None)  # halfway where there is no range
    one = lspc.search_loss(critics, actions, jnp.full(16, 0.6), alone)
    other = lspc.search_loss(critics, actions, jnp.ones(16), tiny.config(caution=3.0))
    np.testing.assert_allclose(one, other, rtol=1e-5)


# The weights.


def test_cost_weights_favour_the_careful_and_are_clipped() -> None:
    config = tiny.config(**FIXED, cost_temperature=2.0, max_weight=200.0)
    weights, metrics = lspc.cost_weights(report([1, 1, 1, 9], [0.5, 1, 2, 1]), config)
    np.testing.assert_allclose(weights, [np.exp(1), 1, np.exp(-2), 200], rtol=1e-5)
    assert metrics["clipped"] == 0.25
    assert metrics["temperature"] == 2.0
    share = (np.exp(1) + 1 + np.exp(-2) + 200) ** 2 / 4 / (np.exp(2) + 1 + np.exp(-4) + 200**2)
    assert metrics["effective_share"] == pytest.approx(share, rel=1e-5)


@pytest.mark.parametrize("renormalise", [False, True])
def test_cost_mask_needs_both_values_below_it(renormalise: bool) -> None:
    config = tiny.config(**FIXED, cost_temperature=2.0, cost_mask=0.02, renormalise_mask=renormalise)
    weights, _ = lspc.cost_weights(report([0.01, 0.01, 0.5, 0.5], [0.01, 0.5, 0.01, 0.5]), config)
    assert weights.tolist() == [4.0 if renormalise else 1.0, 0, 0, 0]  # one in four is left


def test_a_mask_that_leaves_nothing_gives_zeros_not_nans() -> None:
    config = tiny.config(**FIXED, cost_mask=0.02, renormalise_mask=True)
    weights, metrics = lspc.cost_weights(report([1, 1], [1, 1]), config)
    assert weights.tolist() == [0, 0]
    assert metrics["effective_share"] == 0


def test_reward_weights_favour_the_rewarding_and_refer_to_the_safe() -> None:
    reward = report([1, 1, 1, 1], [1.5, 1.4, 1, -1e3])
    cost = report([0, 0, 0, 0], [50, 0, 0, 0])
    free = tiny.config(**FIXED, reference_share=None, reward_temperature=2.0)
    plain, _ = lspc.reward_weights(reward, cost, jnp.ones(4), free)
    np.testing.assert_allclose(plain, [np.exp(1), np.exp(0.8), 1, 0], rtol=1e-5, atol=1e-6)
    bound = tiny.config(**FIXED, reference_share=0.6, reward_temperature=2.0)
    weights = np.asarray(lspc.reward_weights(reward, cost, jnp.ones(4), bound)[0])
    assert weights[0] == 0  # rewarding but unsafe
    assert weights[1] / weights[2] == pytest.approx(np.exp(0.8), rel=1e-4)
    eps = jnp.asarray([2.0, 1.5, 0.3, 3.0])  # beyond 1 the plain weights take over, at 2 wholly
    mixed = np.asarray(lspc.reward_weights(reward, cost, eps, bound)[0])
    share = np.array([1.0, 0.5, 0.0, 1.0])
    np.testing.assert_allclose(mixed, weights + share * (np.asarray(plain) - weights), rtol=1e-5, atol=1e-6)


def test_shares_reach_the_weights_and_point_the_right_way() -> None:
    q = np.random.default_rng(0).normal(size=64).tolist()
    critics = report([0.0] * 64, q)
    config = tiny.config(cost_share=0.3, reward_share=0.3, reference_share=None)
    careful, _ = lspc.cost_weights(critics, config)
    rewarding, _ = lspc.reward_weights(critics, critics, jnp.ones(64), config)
    assert effective_share(careful) == pytest.approx(0.3, rel=1e-2)
    assert effective_share(rewarding) == pytest.approx(0.3, rel=1e-2)
    assert np.argmax(careful) == np.argmin(q)
    assert np.argmax(rewarding) == np.argmax(q)


# Which parameters a step changes.


def test_a_step_changes_every_part_and_leaves_the_rest() -> None:
    old = state()
    new, metrics = tiny.update(old, tiny.batch(), jax.random.key(1))
    for part in ("reward", "cost", "cvae", "encoder"):
        for before, after in zip(
            *(jax.tree.leaves(eqx.filter(getattr(s, part), eqx.is_inexact_array)) for s in (old, new)), strict=True
        ):
            assert not np.array_equal(before, after), part
    assert tiny.same(old.normaliser, new.normaliser)
    assert tiny.same((old.reward_units, old.cost_units), (new.reward_units, new.cost_units))
    assert {name.split("/")[0] for name in metrics} == {"reward", "cost", "cvae", "encoder"}
    assert all(value.shape == () and np.isfinite(value) for value in metrics.values())


PLAIN: dict[str, Any] = {**FIXED, "reference_share": None, "latent_form": "clamp", "kl_weight": 0.5}


@pytest.fixture(scope="module")
def plainly_updated() -> lspc.State:
    return update(state(**PLAIN), tiny.batch(), jax.random.key(1))[0]


@pytest.mark.parametrize(
    ("change", "untouched"),
    [
        ({"kl_weight": 5.0}, ("reward", "cost", "encoder")),  # the divergence is no matter of the decoder
        ({"cost_temperature": 0.1}, ("reward", "cost")),
        ({"cost_mask": 0.0}, ("reward", "cost")),
        ({"reward_temperature": 0.1}, ("reward", "cost", "cvae")),
        ({"restriction_range": (0.02, 1.5)}, ("reward", "cost", "cvae")),
        ({"reference_share": 0.5}, ("reward", "cost", "cvae")),
        ({"zero_share": 0.5}, ("reward", "cost")),
        ({"safe_restriction": 0.1}, ("reward", "cost", "cvae", "encoder")),
        ({"latent_form": "tanh"}, ("reward", "cost", "cvae", "encoder")),
    ],
)
def test_a_setting_reaches_only_the_parts_behind_it(
    change: dict[str, Any], untouched: tuple[str, ...], plainly_updated: lspc.State
) -> None:
    """The critics do not hear of the policies, nor the CVAE of the latent safety encoder: bit for bit."""
    changed, _ = update(state(**PLAIN | change), tiny.batch(), jax.random.key(1))
    for part in ("reward", "cost", "cvae", "encoder"):
        assert tiny.same(getattr(plainly_updated, part), getattr(changed, part)) == (part in untouched), part


def test_reward_and_cost_critics_do_not_hear_of_each_other() -> None:
    old, key = state(), jax.random.key(1)
    plain, _ = tiny.update(old, tiny.batch(), key)
    richer, _ = tiny.update(old, tiny.batch(rewards=tiny.batch().rewards + 5), key)
    costlier, _ = tiny.update(old, tiny.batch(costs=1 - tiny.batch().costs), key)
    assert tiny.same(plain.cost, richer.cost)
    assert not tiny.same(plain.reward, richer.reward)
    assert tiny.same(plain.reward, costlier.reward)
    assert not tiny.same(plain.cost, costlier.cost)


def test_the_decoder_is_frozen_for_the_encoder_but_passes_gradients() -> None:
    nets, config = state(), tiny.config()
    critics = learned(nets)

    def loss(encoder: Any, decoder: Any) -> Array:
        eps = jnp.linspace(0.1, 1.0, 16)
        return lspc.encoder_loss(encoder, decoder, critics, jnp.ones(16), noise(), eps, config)[0]

    gradient = eqx.filter_grad(loss)(nets.encoder.net, nets.cvae.net.decoder)
    assert all(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(gradient))
    deaf = eqx.tree_at(  # a decoder that does not listen to its latent passes nothing on
        lambda d: d.layers[0].weight, nets.cvae.net.decoder, replace_fn=lambda w: w.at[tiny.OBSERVATION :].set(0)
    )
    assert tiny.all_zero(eqx.filter_grad(loss)(nets.encoder.net, deaf))


def test_the_encoder_learns_through_the_decoder_of_this_very_step() -> None:
    old, key, batch = state(**FIXED, reference_share=None), jax.random.key(1), tiny.batch()
    new, _ = update(old, batch, key)
    config, critics = old.config, learned(old)
    _, noise_key, eps_key = jax.random.split(key, 3)
    draw, eps = jax.random.normal(noise_key, (16, tiny.LATENT)), lspc.draw_restrictions(eps_key, 16, config)
    weights, _ = lspc.reward_weights(critics.reward_report, critics.cost_report, eps, config)
    gradient, _ = eqx.filter_grad(lspc.encoder_loss, has_aux=True)(
        old.encoder.net, new.cvae.net.decoder, critics, weights, draw, eps, config
    )
    tiny.close(new.encoder, old.encoder.step(gradient, config.learning_rate), rtol=1e-3)


def test_zero_weights_teach_the_cvae_nothing() -> None:
    """With every transition masked the CVAE stands still while the critics go on learning."""
    old = state(**FIXED, cost_mask=-1.0)
    new, _ = update(old, tiny.batch(), jax.random.key(1))
    assert tiny.same(old.cvae.net, new.cvae.net)
    assert not tiny.same(old.cost, new.cost)


# What acts.


def test_the_policies_act_with_averages_and_the_learning_nets_do_not_notice() -> None:
    averaged, last = state(averaging=10.0), state(averaging=None)
    first_nets = averaged.cvae.net.decoder, averaged.encoder.net
    assert tiny.same(lspc.policy(averaged).decoder, first_nets[0])
    for step in (1, 2):
        averaged, _ = update(averaged, tiny.batch(seed=step), jax.random.key(step))
        last, _ = update(last, tiny.batch(seed=step), jax.random.key(step))
        nets = last.cvae.net.decoder, last.encoder.net
        assert tiny.same((averaged.cvae, averaged.encoder), (last.cvae, last.encoder))
        assert tiny.same((lspc.policy(last).decoder, lspc.policy(last).encoder), nets)
        if step == 1:
            tiny.close(averaged.acting, nets)
            first_nets = nets
    expected = jax.tree.map(lambda old, new: old + 10 / 11 * (new - old), first_nets, nets)
    acting = lspc.policy(averaged)
    tiny.close((acting.decoder, acting.encoder), expected)


# The end of an episode.


def valued(state: lspc.State, value: float = 5.0) -> lspc.State:
    """Every state is worth about this much, so that looking past an end or not makes a difference."""
    return eqx.tree_at(
        lambda s: (s.reward.value.net.layers[-1].bias, s.cost.value.net.layers[-1].bias),
        state,
        (jnp.asarray([value]), jnp.asarray([value])),
    )


def one_ending(flag: str) -> Batch:
    zeros, ones = np.zeros(16), np.ones(16)
    flags: dict[str, Any] = {"terminated": zeros, "truncated": zeros} | ({flag: ones} if flag else {})
    return tiny.batch(**flags)


def test_a_timeout_bootstraps_and_a_terminal_does_not() -> None:
    old, key = valued(state(timeouts_end_episode=False)), jax.random.key(1)
    going_on, timed_out, ended = (
        tiny.update(old, one_ending(flag), key)[0] for flag in ("", "truncated", "terminated")
    )
    for part in ("reward", "cost"):
        assert tiny.same(getattr(going_on, part), getattr(timed_out, part))
        assert not tiny.same(getattr(going_on, part).q, getattr(ended, part).q)


def test_both_end_where_timeouts_end_episodes() -> None:
    old, key = valued(state(timeouts_end_episode=True)), jax.random.key(1)
    both = tiny.batch(terminated=np.ones(16), truncated=np.ones(16))  # the released code sums them to 2
    timed_out, ended, doubly = (
        tiny.update(old, batch, key)[0] for batch in (one_ending("truncated"), one_ending("terminated"), both)
    )
    assert tiny.same(ended.reward, doubly.reward)
    assert not tiny.same(timed_out.reward.q, ended.reward.q)  # behind a time-out the mean reward goes on
    for other in (ended, doubly):
        assert tiny.same(timed_out.cost, other.cost)
    going_on, _ = tiny.update(old, one_ending(""), key)
    assert not tiny.same(timed_out.cost.q, going_on.cost.q)


def test_the_released_codes_clamp_leaves_only_the_cost_critic_stuck() -> None:
    stuck, free = (
        update(valued(state(released_critics=clamp), -50.0), tiny.batch(), jax.random.key(1))[0]
        for clamp in (True, False)
    )
    assert stuck.cost.value.net.layers[-1].bias.tolist() == [-50.0]
    assert free.cost.value.net.layers[-1].bias[0] > -50.0
    assert stuck.reward.value.net.layers[-1].bias[0] > -50.0  # a reward may be negative: nothing is clamped there


# The latents.


@pytest.mark.parametrize("restriction", [0.25, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("form", ["clamp", "tanh", "truncated"])
def test_safe_latents_stay_inside_and_zero_noise_is_zero(form: str, restriction: float) -> None:
    draws = jnp.concatenate([jnp.linspace(-8, 8, 2001), jnp.asarray([1e3, -1e3, 1e30, -1e30])])
    latents = np.asarray(safe_latents(draws, restriction, form))
    assert np.abs(latents).max() <= np.float32(restriction)
    assert np.all(np.diff(latents[500:1501]) > -1e-3 * restriction)  # in the order of the noise, but for rounding
    assert not np.any(safe_latents(jnp.zeros(3), restriction, form))


@pytest.mark.parametrize("restriction", [0.25, 1.0, 2.0])
def test_truncated_latents_are_a_truncated_normal(restriction: float) -> None:
    latents = np.asarray(safe_latents(jax.random.normal(jax.random.key(0), (20_000,)), restriction, "truncated"))
    truth = scipy.stats.truncnorm(-restriction, restriction)
    levels = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(np.quantile(latents, levels), truth.ppf(levels), atol=0.02 * restriction)
    # Draw by draw: the noise's quantile is the latent's quantile.
    draws = np.linspace(-3, 3, 13)
    expected = truth.ppf(scipy.stats.norm.cdf(draws))
    np.testing.assert_allclose(safe_latents(jnp.asarray(draws), restriction, "truncated"), expected, atol=1e-4)


def test_clamped_latents_pile_up_on_the_edge() -> None:
    """The released code's form: at 0.25 four fifths of the coordinates are on the boundary."""
    latents = safe_latents(jax.random.normal(jax.random.key(0), (20_000,)), 0.25, "clamp")
    assert np.mean(np.abs(latents) == 0.25) == pytest.approx(2 * scipy.stats.norm.sf(0.25), abs=0.01)


def test_rewarding_latents_stay_inside_their_box() -> None:
    encoder, observations, config = state().encoder.net, tiny.batch().observations, tiny.config(record_share=None)
    eps = jnp.asarray(0.6)
    moderate = np.asarray(rewarding_latents(encoder, observations, noise(), eps, config))
    assert np.abs(moderate).max() < 0.6
    assert len(np.unique(moderate)) == moderate.size
    huge = rewarding_latents(encoder, 1e3 * observations, 1e6 * noise(), eps, config)
    assert np.abs(huge).max() <= np.float32(0.6)  # tanh rounds to 1 in float32: the open box closes
    still = rewarding_latents(encoder, observations, jnp.zeros((16, tiny.LATENT)), eps, config)
    mean = forward(encoder, observations, told(np.full((16, 1), 0.6)))[:, : tiny.LATENT]
    np.testing.assert_allclose(still, 0.6 * np.tanh(mean), rtol=1e-4)


@pytest.mark.parametrize(("eps", "box"), [(0.3, 1.0), (1.7, 1.7)])
def test_where_the_record_chooses_the_box_is_never_smaller_than_one(eps: float, box: float) -> None:
    config, encoder, observations = tiny.config(), state().encoder.net, tiny.batch().observations
    latents = rewarding_latents(encoder, observations, jnp.zeros((16, tiny.LATENT)), jnp.asarray(eps), config)
    mean = forward(encoder, observations, told(np.full((16, 1), eps)))[:, : tiny.LATENT]
    np.testing.assert_allclose(latents, box * np.tanh(mean), rtol=1e-4)
    for changes in ({"record_share": None}, {"restriction_range": None}, {"roles": "converse"}):
        assert tiny.config(**changes).smallest_box == 0.0


# The policy.


def test_variants_decode_their_own_latents() -> None:
    config = tiny.config(restriction=1.6, safe_restriction=0.1, latent_form="clamp")
    trained = lspc.init(jax.random.key(0), tiny.SPEC, config)
    policy, observations = lspc.policy(trained), tiny.batch().observations
    assert policy.noise_dim == tiny.LATENT
    assert policy.variants[0] == "LSPC-O"
    inputs = (np.asarray(observations) - tiny.SPEC.observation_mean) / np.asarray(tiny.SPEC.observation_std)
    z = np.asarray(noise())
    mean, log_std = np.split(forward(trained.encoder.net, inputs, told(np.full((16, 1), 1.6))), 2, axis=-1)
    latents = {
        "LSPC-O": 1.6 * np.tanh(mean + np.exp(log_std) * z),
        "LSPC-S": np.clip(z, -0.1, 0.1),
        "CVAE": z,
    }
    assert set(latents) == set(policy.variants)
    for variant, latent in latents.items():
        expected = np.tanh(forward(trained.cvae.net.decoder, inputs, latent))
        np.testing.assert_allclose(policy(observations, noise(), variant), expected, rtol=1e-4, atol=1e-5)


def test_critics_have_units_of_their_own() -> None:
    units = state(discount=0.9, scale_signals=True)
    reward, cost = units.reward_units, units.cost_units
    assert (reward.scale, cost.scale) == (2.0, 4.0)  # the spread of 50 is a hundred, and so is the costliest 25
    assert (reward.mean_value, cost.mean_value) == pytest.approx((5.0, 0.0))
    np.testing.assert_allclose(reward.to_critic(jnp.asarray([0.5, 3.0]), 0.9), [0.0, 5.0], atol=1e-6)
    np.testing.assert_allclose(reward.to_user(jnp.asarray([0.0, 4.0])), [5.0, 7.0], rtol=1e-6)
    unscaled = state(scale_signals=False)
    for raw in (unscaled.reward_units, unscaled.cost_units):
        assert (raw.scale, raw.mean_value) == (1.0, 0.0)
    bounds = lspc.metric_bounds(tiny.SPEC, tiny.config(discount=0.9, scale_signals=True))
    assert bounds["reward/value_max"] == pytest.approx(10 * ((3.0 + 0.5) * 10 + 5.0), rel=1e-5)
    assert bounds["cost/value_max"] == pytest.approx(10 * 10 * 1.0, rel=1e-5)


@pytest.mark.parametrize(("factor", "stretch", "offset"), [(1e-4, 1.0, 0.0), (1e4, 10.0, 100.0), (1.0, 1e-3, -5.0)])
def test_units_make_no_difference(factor: float, stretch: float, offset: float) -> None:
    """Costs in other units, rewards stretched and moved: the same update, and values told in those units."""
    plain = tiny.batch(terminated=np.zeros(16))
    other = plain._replace(costs=factor * plain.costs, rewards=stretch * plain.rewards + offset)
    spec = replace(
        tiny.SPEC, largest_cost=factor, cost_return_max=factor * 25.0, reward_mean=stretch * 0.5 + offset,
        reward_spread=stretch * 50.0, largest_reward=3 * stretch + abs(offset),
    )  # fmt: skip
    config = tiny.config(cost_mask=0.5)
    here = tiny.update(state(cost_mask=0.5), plain, jax.random.key(1))
    masked = replace(config, cost_mask=0.5 * factor)  # said in the user's units
    there = update(lspc.init(jax.random.key(0), spec, masked), other, jax.random.key(1))
    for part in ("reward", "cost", "cvae", "encoder"):
        tiny.close(getattr(here[0], part), getattr(there[0], part), rtol=1e-2, atol=1e-5)
    told = [{**metrics, **lspc.probe(after, batch)} for (after, metrics), batch in ((here, plain), (there, other))]
    for name in ("value_mean", "value_max", "value_spread", "q_mean", "predicted_of_lspc_o"):
        expected = factor * float(told[0][f"cost/{name}"])
        assert float(told[1][f"cost/{name}"]) == pytest.approx(expected, rel=1e-3), name
    horizon = offset / (1 - config.discount)
    expected = stretch * float(here[1]["reward/value_mean"]) + horizon
    assert float(there[1]["reward/value_mean"]) == pytest.approx(expected, rel=1e-3)
    seen, drawn = plain.observations, noise()
    policies = lspc.policy(here[0]), lspc.policy(there[0])
    tiny.close(*(policy(seen, drawn, "LSPC-O") for policy in policies), atol=1e-4)
    costs, in_other_units = (
        iql.twin(policy.cost_q, policy.normaliser(seen), plain.actions, is_cost=True) for policy in policies
    )
    np.testing.assert_allclose(in_other_units, factor * costs, rtol=1e-2, atol=1e-3 * factor)


def test_nothing_follows_a_terminal_state_and_the_mean_step_a_time_out() -> None:
    """Of the targets by hand: a step of 3 at an end is worth 3, or 3 and the mean of 0.5 for ever after."""
    old, rewards = state(discount=0.9, learning_rate=0.0), np.full(16, 3.0)
    ends = [
        tiny.batch(rewards=rewards, terminated=np.full(16, over), truncated=np.full(16, not over))
        for over in (True, False)
    ]
    losses = [float(update(old, batch, jax.random.key(1))[1]["reward/q_loss"]) for batch in ends]
    batch = old.normaliser.apply_to(ends[0])
    answers = np.stack([np.asarray(net(batch.observations, batch.actions)[:, 0]) for net in old.reward.q.net])
    for loss, worth in zip(losses, (3.0, 3.0 + 0.9 * 0.5 * 10), strict=True):
        target = 2.0 * (worth - 0.5 * 10)
        assert loss == pytest.approx(((answers - target) ** 2).mean(1).sum(), rel=1e-4)


# Randomness.


def test_the_same_key_gives_the_same_numbers_and_another_key_others() -> None:
    assert tiny.same(state(0), lspc.init(jax.random.key(0), tiny.SPEC, tiny.config()))
    for part in ("reward", "cost", "cvae", "encoder"):
        first, second = (jax.tree.leaves(eqx.filter(getattr(state(seed), part), eqx.is_array)) for seed in (0, 1))
        assert not np.array_equal(first[0], second[0]), part
    old = state()
    a, b, c = (tiny.update(old, tiny.batch(), jax.random.key(seed))[0] for seed in (1, 1, 2))
    assert tiny.same(a, b)
    assert not tiny.same(a.cvae, c.cvae)
    assert not tiny.same(a.encoder, c.encoder)
    assert tiny.same((a.reward, a.cost), (c.reward, c.cost))  # the critics draw nothing


def test_the_critics_start_apart() -> None:
    nets = state()
    starts = [nets.reward.q.net[0], nets.reward.q.net[1], nets.cost.q.net[0], nets.cost.q.net[1]]
    weights = {np.asarray(net.layers[0].weight).tobytes() for net in starts}
    assert len(weights) == 4


# The paper's table.


@pytest.mark.parametrize(
    ("task", "restriction", "mask"),
    [
        ("CarRun", 0.6, None),
        ("AntCircle", 0.6, None),
        ("AntRun", 0.25, None),
        ("PointGoal1", 0.25, None),
        ("HalfCheetahVelocity", 0.25, None),
        ("EasySparse", 0.25, 0.02),
    ],
)
def test_the_paper_preset_is_the_papers_printed_table(task: str, restriction: float, mask: float | None) -> None:
    config = settings.resolve(algos.get("lspc"), "paper", get_task(task)).config
    printed = {
        "batch_size": 1024,
        "discount": 0.99,
        "target_rate": 0.005,
        "reward_temperature": 2.0,
        "cost_temperature": 2.0,
        "learning_rate": 3e-4,
        "expectile": 0.7,
        "max_weight": 200.0,
        "kl_weight": 0.5,
        "latent_dim": 32,
        "safe_restriction": 0.25,
        "restriction": restriction,
        "cost_mask": mask,
    }
    assert {name: getattr(config, name) for name in printed} == printed
    # The printed method has no fitted temperatures, no products of weights, no scaling.
    plain = {"cost_share": None, "reward_share": None, "reference_share": None, "scale_signals": False}
    assert {name: getattr(config, name) for name in plain} == plain
    assert not config.normalise_observations
    assert config.steps == 1_000_000


def test_the_user_has_the_last_word() -> None:
    resolved = settings.resolve(algos.get("lspc"), "paper", get_task("CarRun"), {"restriction": 0.25})
    assert resolved.config.restriction == 0.25
    assert resolved.provenance["restriction"] == "user"
    assert settings.resolve(algos.get("lspc"), "paper", None).config.restriction == 0.25


# One run, every restriction.


def test_restrictions_are_drawn_over_the_whole_range_or_are_all_the_same() -> None:
    drawn = np.asarray(lspc.draw_restrictions(jax.random.key(0), 4000, tiny.config(restriction_range=(0.2, 1.0))))
    assert drawn.min() >= 0.2
    assert drawn.max() <= 1.0
    assert drawn.mean() == pytest.approx(0.6, abs=0.02)
    fixed = lspc.draw_restrictions(jax.random.key(0), 4, tiny.config(restriction_range=None, restriction=0.25))
    np.testing.assert_array_equal(fixed, np.full(4, 0.25, np.float32))


def test_a_policy_at_another_restriction_moves_lspc_o_alone() -> None:
    policy, seen, draw = lspc.policy(state()), tiny.batch().observations, noise()
    narrow = policy.at(0.1)
    assert not np.allclose(policy(seen, draw, "LSPC-O"), narrow(seen, draw, "LSPC-O"))
    for variant in ("LSPC-S", "CVAE"):
        np.testing.assert_array_equal(policy(seen, draw, variant), narrow(seen, draw, variant))
    both = policy.act(jnp.stack([seen, seen]), jnp.stack([draw, draw]), "LSPC-O", jnp.asarray([[1.0], [0.1]]))
    np.testing.assert_allclose(both[0], policy(seen, draw, "LSPC-O"), rtol=1e-5)
    np.testing.assert_allclose(both[1], narrow(seen, draw, "LSPC-O"), rtol=1e-5)


def test_a_policy_refuses_a_restriction_it_was_not_trained_for() -> None:
    with pytest.raises(UserError, match=r"every eps from 0\.02 to 2, not for 2\.5"):
        lspc.policy(state()).at(2.5)
    with pytest.raises(UserError, match=r"eps 0\.25 alone"):
        lspc.policy(state(restriction_range=None, restriction=0.25)).at(0.1)


@pytest.mark.parametrize("wrong", [{"restriction": 3.0}, {"restriction_range": (1.0, 0.5)}])
def test_a_restriction_outside_its_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="restriction_range"):
        state(**wrong)


@pytest.mark.parametrize("wrong", [-0.1, 1.0])
def test_a_share_at_latent_zero_that_leaves_nothing_is_refused(wrong: float) -> None:
    with pytest.raises(UserError, match="zero_share"):
        state(zero_share=wrong)
