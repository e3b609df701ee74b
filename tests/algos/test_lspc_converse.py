"""Converse LSPC-O: the weights change places and nothing else, and on the ring it is worse off for it."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import tiny
from common import Learned

from lspc.algos import cvae, iql, lspc


def state(**changes: Any) -> lspc.State:
    return lspc.init(jax.random.key(0), tiny.SPEC, tiny.config(**changes))


def test_the_cvae_learns_by_reward_and_the_encoder_by_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each regression is given, seen from inside one update."""
    seen: dict[str, Any] = {}
    real_cvae, real_encoder = lspc.cvae_loss, lspc.encoder_loss

    def watch_cvae(cvae: Any, observations: Any, actions: Any, weights: Any, noise: Any, config: Any) -> Any:
        seen["cvae"] = np.asarray(jax.lax.stop_gradient(weights))
        return real_cvae(cvae, observations, actions, weights, noise, config)

    def watch_encoder(
        encoder: Any, decoder: Any, observations: Any, actions: Any, weights: Any, noise: Any, config: Any
    ) -> Any:
        seen["encoder"] = np.asarray(jax.lax.stop_gradient(weights))
        return real_encoder(encoder, decoder, observations, actions, weights, noise, config)

    monkeypatch.setattr(lspc, "cvae_loss", watch_cvae)
    monkeypatch.setattr(lspc, "encoder_loss", watch_encoder)
    given = {}
    for roles in ("safety-first", "converse"):
        lspc.update(state(roles=roles, reference_share=None), tiny.batch(), jax.random.key(1))
        given[roles] = dict(seen)
    np.testing.assert_array_equal(given["converse"]["cvae"], given["safety-first"]["encoder"])
    np.testing.assert_array_equal(given["converse"]["encoder"], given["safety-first"]["cvae"])
    assert not np.array_equal(given["converse"]["cvae"], given["converse"]["encoder"])


def test_rewarding_actions_are_not_looked_for_among_safe_ones() -> None:
    q = np.random.default_rng(0).normal(size=(2, 16))
    reward, cost = (iql.CriticReport(jax.numpy.asarray(x), jax.numpy.zeros(16), jax.numpy.asarray(x), {}) for x in q)
    mirrored, plain = (
        lspc.reward_weights(reward, cost, tiny.config(**settings))[0]
        for settings in ({"roles": "converse", "reference_share": 0.2}, {"reference_share": None})
    )
    np.testing.assert_array_equal(mirrored, plain)


def test_the_critics_do_not_hear_of_it_and_saved_weights_have_the_same_names() -> None:
    plain, converse = (
        lspc.update(state(roles=roles), tiny.batch(), jax.random.key(1))[0] for roles in ("safety-first", "converse")
    )
    assert tiny.same((plain.reward, plain.cost), (converse.reward, converse.cost))
    assert not tiny.same(plain.cvae, converse.cvae)
    assert not tiny.same(plain.encoder, converse.encoder)


def test_its_policies_say_what_they_are() -> None:
    trained = state(roles="converse", restriction=0.6)
    policy, ordinary = lspc.policy(trained), lspc.policy(state(restriction=0.6))
    assert policy.variants == ("converse LSPC-O", "converse CVAE")
    seen, noise = tiny.batch().observations, jax.random.normal(jax.random.key(2), (16, tiny.LATENT))
    for variant in policy.variants:
        np.testing.assert_array_equal(
            policy(seen, noise, variant), ordinary(seen, noise, variant.removeprefix("converse "))
        )
    latents = lspc.rewarding_latents(policy.encoder, policy.normaliser(seen), noise, 0.6)
    decoded = cvae.decode(policy.decoder, policy.normaliser(seen), latents)
    np.testing.assert_allclose(policy(seen, noise, "converse LSPC-O"), decoded, rtol=1e-5)


def test_on_the_ring_its_cvae_is_fast_and_the_encoder_hardly_slows_it_down(tmp_path: Path) -> None:
    """The paper's point: safety that is only searched for within rewarding actions is not found."""
    from test_tiny_cmdp import judged

    learned = Learned(tmp_path, "lspc", roles="converse", steps=1500, hidden=(32, 32), target_rate=0.05, latent_dim=8)
    fast, sought = judged(learned.run, "converse CVAE"), learned.judged()
    assert fast[1] > 10  # rewarding is what costs
    assert 10 < sought[1] <= fast[1]
