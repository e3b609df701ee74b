"""LSPC without networks: exact expectile critics, exact weighted regression, on tables.

What the method would do with unlimited capacity; the data are a behaviour policy and a model, true or counted.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lspc.theory.cmdp import CMDP, Array, action_values, normalised, state_values


def lspc(
    cmdp: CMDP,
    behaviour: Array,
    *,
    restriction: ArrayLike = 0.25,
    expectile: float = 0.7,
    cost_temperature: float = 2.0,
    reward_temperature: float = 2.0,
) -> tuple[Array, Array]:
    """pi_s and pi (LSPC-O), with the paper's settings. `restriction` is eps, one for all or one per CMDP."""
    v_c, q_c = expectile_values(cmdp, behaviour, cmdp.cost, 1 - expectile)
    v_r, q_r = expectile_values(cmdp, behaviour, cmdp.reward, expectile)
    safe = reweighted(behaviour, cost_temperature * (v_c[..., None] - q_c))
    allowed = likeliest(safe, prior_mass(restriction))
    policy = reweighted(np.where(allowed, behaviour, 0), reward_temperature * (q_r - v_r[..., None]))
    return safe, policy


def expectile_values(cmdp: CMDP, behaviour: Array, signal: Array, expectile: float) -> tuple[Array, Array]:
    """IQL's V and Q at their fixed point.

    An expectile is a mean that weighs what lies above it by `expectile` and the rest by one minus that. So V is the
    exact value of the behaviour tilted in this way, and policy iteration finds it in a few steps.
    """
    tilted = behaviour
    last = np.full(signal.shape[:2], np.inf)
    while True:
        v = state_values(cmdp, tilted, signal)
        q = action_values(cmdp, v, signal)
        if np.all(np.abs(v - last) <= 1e-10 * (1 + np.abs(v))):
            return v, q
        above = q > v[..., None] + 1e-10 * (1 + np.abs(v[..., None]))
        tilted, last = normalised(behaviour * np.where(above, expectile, 1 - expectile)), v


def reweighted(policy: Array, exponent: Array) -> Array:
    """The policy that advantage-weighted regression fits: proportional to policy exp(exponent)."""
    highest = np.where(policy > 0, exponent, -np.inf).max(-1, keepdims=True)
    return normalised(policy * np.exp(np.minimum(exponent - highest, 0)))


def prior_mass(restriction: ArrayLike) -> Array:
    """Share of a standard normal latent inside (-eps, eps)."""
    return np.vectorize(math.erf, otypes=[float])(np.asarray(restriction) / math.sqrt(2))


def likeliest(policy: Array, mass: ArrayLike) -> NDArray[np.bool_]:
    """The box around the latent's mode, in a table: each state's likeliest actions until they hold `mass`."""
    order = np.argsort(-policy, axis=-1, kind="stable")
    ranked = np.take_along_axis(policy, order, -1)
    before = ranked.cumsum(-1) - ranked
    kept = (before < np.asarray(mass).reshape(-1, 1, 1)) & (ranked > 0)
    return np.take_along_axis(kept, np.argsort(order, axis=-1), -1)
