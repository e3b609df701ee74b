"""Converse LSPC-O: the weights change places and nothing else, and on the ring it is unsafe."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.methods import RingRun

from lspc.algos import lspc
from lspc.algos.parts import cvae, iql
from lspc.algos.parts.latent_policy import rewarding_latents

state = tiny.lspc_state


def test_the_cvae_learns_by_reward_and_the_encoder_by_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each regression is given, seen from inside one update."""
    seen: dict[str, Any] = {}
    real_cvae, real_encoder = lspc.update_cvae, lspc.update_encoder

    def watch_cvae(cvae: Any, observations: Any, actions: Any, weights: Any, key: Any, config: Any) -> Any:
        seen["cvae"] = np.asarray(weights)
        return real_cvae(cvae, observations, actions, weights, key, config)

    def watch_encoder(encoder: Any, decoder: Any, shown: Any, weights: Any, key: Any, config: Any) -> Any:
        seen["encoder"] = np.asarray(weights)
        return real_encoder(encoder, decoder, shown, weights, key, config)

    monkeypatch.setattr(lspc, "update_cvae", watch_cvae)
    monkeypatch.setattr(lspc, "update_encoder", watch_encoder)
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
        lspc.reward_weights(reward, cost, jax.numpy.ones(16), tiny.config(**settings))[0]
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
    policy, ordinary = lspc.policy(trained), lspc.policy(state(restriction=0.6, record_share=None))
    assert policy.variants == ("converse LSPC-O", "converse CVAE")
    seen, noise = tiny.batch().observations, jax.random.normal(jax.random.key(2), (16, tiny.LATENT))
    for variant in policy.variants:
        np.testing.assert_array_equal(
            policy(seen, noise, variant), ordinary(seen, noise, variant.removeprefix("converse "))
        )
    latents = rewarding_latents(policy.encoder, policy.normaliser(seen), noise, policy.restriction, policy.config)
    decoded = cvae.decode(policy.decoder, policy.normaliser(seen), latents)
    np.testing.assert_allclose(policy(seen, noise, "converse LSPC-O"), decoded, rtol=1e-5)


@pytest.mark.learning
@pytest.mark.parametrize("zero_share", [0.0, 0.25])
def test_on_the_ring_it_is_rewarding_first_and_unsafe_where_its_latents_hardly_count(
    tmp_path: Path, zero_share: float
) -> None:
    """LSPC-O keeps a budget of 2 on the same data (test_tiny_cmdp.py). In the paper's form its decoder knows
    fast actions alone; where its latents count, they also reach the careful ones.
    """
    settings: dict[str, Any] = {"steps": 1000, "hidden": (32, 32), "target_rate": 0.05, "latent_dim": 8}
    reward, cost = RingRun(tmp_path, "lspc", roles="converse", zero_share=zero_share, **settings).measure()
    if zero_share:
        assert cost <= 2
        assert reward > 0.7
    else:
        assert reward > 1  # more than any safe driver
        assert cost > 10
