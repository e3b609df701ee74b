"""The CVAE of actions: its divergence by hand, its loss without weights, two ways of acting, small actions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from lspc.algos.parts import cvae
from lspc.nets import Learner


def model(seed: int = 0) -> cvae.Cvae:
    first, second = jax.random.split(jax.random.key(seed))
    return cvae.init((first, second), tiny.OBSERVATION, tiny.ACTION, tiny.LATENT, (8, 8))


def test_divergence_by_hand() -> None:
    mean, log_std = jnp.asarray([[1.0, 0.0], [0.0, 0.0]]), jnp.log(jnp.asarray([[1.0, 2.0], [1.0, 1.0]]))
    terms = [0.5, 0.5 * (4 - 1) - np.log(2)]
    np.testing.assert_allclose(cvae.divergence(mean, log_std, "sum"), [sum(terms), 0], atol=1e-6)
    np.testing.assert_allclose(cvae.divergence(mean, log_std, "mean"), [sum(terms) / 2, 0], atol=1e-6)


def test_typical_latents_are_near_zero() -> None:
    assert cvae.clip_latents(jnp.asarray([-3.0, -0.2, 0.0, 0.7])).tolist() == [-0.5, np.float32(-0.2), 0, 0.5]


def test_a_fit_weighs_all_transitions_alike_and_balances_as_the_authors_do() -> None:
    net, batch, key = model(), tiny.batch(), jax.random.key(3)
    noise = jax.random.normal(key, (16, tiny.LATENT))

    def loss(net: cvae.Cvae) -> jax.Array:
        mean, log_std = cvae.encode(net.encoder, batch.observations, batch.actions)
        decoded = cvae.decode(net.decoder, batch.observations, mean + jnp.exp(log_std) * noise)
        kl = 0.5 * jnp.mean(mean**2 + jnp.exp(log_std) ** 2 - 1 - 2 * log_std)
        return jnp.mean((decoded - batch.actions) ** 2) + 0.5 * kl  # both are means, over dimensions too

    new, metrics = cvae.update(Learner.of(net), batch.observations, batch.actions, key, 0.5, 1e-2)
    by_hand = Learner.of(net).step(eqx.filter_grad(loss)(net), 1e-2)
    tiny.close(new.net, by_hand.net, rtol=1e-3)
    np.testing.assert_allclose(metrics["loss"], tiny.ACTION * loss(net), rtol=1e-5)


def test_it_learns_two_ways_of_acting() -> None:
    """Half the data does 0.7, half -0.7: latents of either sign decode to either, where a mean would do 0."""
    actions = np.where(np.arange(16)[:, None] % 2 == 0, 0.7, -0.7) * np.ones((1, tiny.ACTION))
    batch = tiny.batch(actions=actions)

    @eqx.filter_jit
    def run(learner: Learner[cvae.Cvae]) -> Learner[cvae.Cvae]:
        def one(learner: Learner[cvae.Cvae], key: jax.Array) -> tuple[Learner[cvae.Cvae], None]:
            return cvae.update(learner, batch.observations, batch.actions, key, 0.02, 1e-2)[0], None

        return jax.lax.scan(one, learner, jax.random.split(jax.random.key(0), 800))[0]

    learned = run(Learner.of(model())).net
    noise = jax.random.normal(jax.random.key(1), (16, 50, tiny.LATENT))
    observations = jnp.broadcast_to(batch.observations[:, None], (16, 50, tiny.OBSERVATION))
    decoded = np.asarray(cvae.decode(learned.decoder, observations, noise))
    assert np.mean(np.abs(np.abs(decoded) - 0.7) < 0.2) > 0.7
    assert 0.2 < np.mean(decoded > 0) < 0.8


def test_a_share_at_latent_zero_by_hand() -> None:
    """Four of sixteen transitions teach latent zero; what they leave open weighs the others' divergence."""
    net, batch, weights = model(), tiny.batch(), jnp.arange(1.0, 17.0)
    noise = jax.random.normal(jax.random.key(3), (16, tiny.LATENT))
    mean, log_std = (np.asarray(part) for part in cvae.encode(net.encoder, batch.observations, batch.actions))
    latents = mean + np.exp(log_std) * np.asarray(noise)
    latents[:4] = 0.0
    error = np.square(
        np.asarray(cvae.decode(net.decoder, batch.observations, jnp.asarray(latents)) - batch.actions)
    ).sum(-1)
    unexplained = np.average(error[:4], weights=[1, 2, 3, 4])
    kl = (0.5 * (mean**2 + np.exp(2 * log_std) - 1 - 2 * log_std)).mean(-1)
    terms = error + np.where(np.arange(16) < 4, 0.0, 0.3 * unexplained * kl)
    loss, metrics = cvae.evidence_loss(net, batch.observations, batch.actions, weights, noise, 0.3, "mean", 0.25)
    np.testing.assert_allclose(loss, np.mean(np.arange(1, 17) * terms), rtol=1e-5)
    np.testing.assert_allclose(metrics["unexplained"], unexplained, rtol=1e-5)
    np.testing.assert_allclose(metrics["reconstruction"], error[4:].mean(), rtol=1e-5)


def test_what_is_unexplained_is_a_constant_to_the_loss() -> None:
    """Or the decoder would learn to fit latent zero badly where latents are dear."""
    net, batch, weights = model(), tiny.batch(), jnp.ones(16)
    noise = jnp.zeros((16, tiny.LATENT))

    def gradient(kl_weight: float) -> cvae.Cvae:
        return eqx.filter_grad(cvae.evidence_loss, has_aux=True)(
            net, batch.observations, batch.actions, weights, noise, kl_weight, "mean", 0.25
        )[0]

    assert tiny.same(gradient(0.3).decoder, gradient(3.0).decoder)
    assert not tiny.same(gradient(0.3).encoder, gradient(3.0).encoder)


@pytest.mark.parametrize("zero_share", [0.25, 0.0])
def test_latents_count_where_actions_differ_by_little(zero_share: float) -> None:
    """Two ways of acting that are 0.1 apart: with a fixed weight of the divergence the latent is ignored."""
    observations, weights = tiny.batch().observations, jnp.ones(16)

    def draw_actions(key: jax.Array) -> jax.Array:
        return 0.05 * jax.random.rademacher(key, (16, 1), jnp.float32) * jnp.ones((1, tiny.ACTION))

    @eqx.filter_jit
    def run(learner: Learner[cvae.Cvae]) -> Learner[cvae.Cvae]:
        def one(learner: Learner[cvae.Cvae], key: jax.Array) -> tuple[Learner[cvae.Cvae], None]:
            actions = draw_actions(jax.random.fold_in(key, 1))
            step = cvae.update_weighted(learner, observations, actions, weights, key, 0.02, "mean", 1e-2, zero_share)
            return step[0], None

        return jax.lax.scan(one, learner, jax.random.split(jax.random.key(0), 800))[0]

    net, actions = run(Learner.of(model())).net, draw_actions(jax.random.key(5))
    means, _ = cvae.encode(net.encoder, observations, actions)
    error = jnp.mean((cvae.decode(net.decoder, observations, means) - actions) ** 2)
    assert (float(error) < 0.3 * 0.05**2) == (zero_share > 0)
    typical = cvae.decode(net.decoder, observations, jnp.zeros_like(means))
    assert float(jnp.abs(typical).max()) < 0.03  # latent zero: between the two
