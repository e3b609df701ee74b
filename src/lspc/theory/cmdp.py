"""Finite CMDPs, many at a time, and what can be computed of them exactly.

Every array has a stack of CMDPs as its first axis; s and a are axes of states and actions. The horizon is infinite.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CMDP:
    transition: Array
    """Probability of the next state, (n, s, a, s)."""
    reward: Array
    """(n, s, a)."""
    cost: Array
    """(n, s, a), not negative."""
    discount: Array
    """gamma, (n,)."""
    initial: Array
    """rho_0, (n, s)."""

    @property
    def horizon(self) -> Array:
        """1 / (1 - gamma), (n,)."""
        return 1 / (1 - self.discount)

    def repeated(self, times: int) -> "CMDP":
        """Each CMDP `times` in a row."""
        return CMDP(**{name: np.repeat(array, times, axis=0) for name, array in vars(self).items()})


def state_values(cmdp: CMDP, policy: Array, signal: Array) -> Array:
    """V(s) of the reward or the cost: (I - gamma P_pi) V = r_pi solved, (n, s)."""
    return np.linalg.solve(_resolvent(cmdp, policy), (policy * signal).sum(-1)[..., None])[..., 0]


def action_values(cmdp: CMDP, values: Array, signal: Array) -> Array:
    """Q(s, a) when the states that follow are worth `values`, (n, s, a)."""
    return signal + cmdp.discount[:, None, None] * (cmdp.transition @ values[:, None, :, None])[..., 0]


def value(cmdp: CMDP, policy: Array, signal: Array) -> Array:
    """V(rho_0), (n,)."""
    return (cmdp.initial * state_values(cmdp, policy, signal)).sum(-1)


def occupancy(cmdp: CMDP, policy: Array) -> Array:
    """d^pi(s), the paper's stationary state distribution: discounted, sums to one, (n, s)."""
    visits = np.linalg.solve(_resolvent(cmdp, policy).swapaxes(1, 2), cmdp.initial[..., None])[..., 0]
    # A state that is never entered may come out as minus a rounding error.
    return normalised(np.maximum(visits, 0))


def _resolvent(cmdp: CMDP, policy: Array) -> Array:
    step = (policy[..., None] * cmdp.transition).sum(2)
    return np.eye(step.shape[-1]) - cmdp.discount[:, None, None] * step


def normalised(weights: Array) -> Array:
    """Along the last axis; where nothing has weight, uniform."""
    total = weights.sum(-1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1), 1 / weights.shape[-1])


def total_variation(p: Array, q: Array) -> Array:
    return np.asarray(np.abs(p - q).sum(-1) / 2)


def kl(p: Array, q: Array) -> Array:
    """D_KL(p || q) along the last axis; infinite where q rules out what p does."""
    inside = (p > 0) & (q > 0)
    terms = p * np.log(np.where(inside, p, 1) / np.where(inside, q, 1))
    # It is never negative, but for rounding.
    return np.asarray(np.maximum(np.where((p > 0) & (q <= 0), np.inf, terms).sum(-1), 0))


def expected(weights: Array, values: Array) -> Array:
    """Mean over the last axis; an infinite value of weight zero does not count."""
    return (weights * np.where(weights > 0, values, 0)).sum(-1)


def random_cmdps(
    rng: np.random.Generator, count: int, states: int, actions: int, discounts: ArrayLike = (0.5, 0.9, 0.95, 0.99)
) -> CMDP:
    """Sparse to dense transitions; rewards of either sign; rare to frequent costs; one start or many."""

    def each(*choices: float, axes: int = 2) -> Array:
        return rng.choice(np.asarray(choices, np.float64), count).reshape(-1, *[1] * axes)

    reward = (rng.random((count, states, actions)) + each(0, -0.5, -1)) * each(0.1, 1, 10)
    cost = rng.random((count, states, actions)) * (rng.random((count, states, actions)) < each(0.2, 0.5, 1))
    # Somewhere there is a cost: without any, C_m is zero and nothing is left to bound.
    cost[:, 0, 0] = rng.random(count)
    return CMDP(
        transition=_dirichlet(rng, each(0.1, 1, axes=3), (count, states, actions, states)),
        reward=reward,
        cost=cost * each(1, 10),
        discount=rng.choice(np.asarray(discounts), count),
        initial=_dirichlet(rng, each(0.03, 1, axes=1), (count, states)),
    )


def random_policies(rng: np.random.Generator, cmdp: CMDP, concentration: ArrayLike = 1.0) -> Array:
    return _dirichlet(rng, concentration, cmdp.reward.shape)


def _dirichlet(rng: np.random.Generator, concentration: ArrayLike, shape: tuple[int, ...]) -> Array:
    # A gamma draw of small shape can round to nothing at all; what is left over goes to the first entry.
    draws = rng.gamma(np.broadcast_to(concentration, shape))
    draws[..., 0] += 1e-12
    return normalised(draws)
