"""The policy pi* that the paper measures others by: the best one whose cost stays within the budget kappa.

A linear program over discounted state-action visits, solved by HiGHS; without a budget, policy iteration.
"""

import numpy as np

from lspc.theory.cmdp import CMDP, Array, action_values, normalised, state_values


def constrained_optimum(cmdp: CMDP, kappa: Array) -> Array:
    """pi* with V_c(rho_0) <= kappa, (n, s, a); it randomises in at most one state that it visits."""
    return np.stack([_one_optimum(cmdp, float(budget), i) for i, budget in enumerate(kappa)])


def _one_optimum(cmdp: CMDP, kappa: float, i: int) -> Array:
    from scipy.optimize import linprog

    states, actions = cmdp.reward.shape[1:]
    discount = float(cmdp.discount[i])
    leaves = np.repeat(np.eye(states), actions, axis=1)
    enters = cmdp.transition[i].reshape(states * actions, states).T
    solved = linprog(
        -cmdp.reward[i].ravel(),
        A_ub=cmdp.cost[i].reshape(1, -1),
        b_ub=[(1 - discount) * kappa],
        A_eq=leaves - discount * enters,
        b_eq=(1 - discount) * cmdp.initial[i],
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solved.x is None:
        raise ValueError(f"no policy of CMDP {i} keeps its cost within {kappa:g}: {solved.message}")
    visits = solved.x.reshape(states, actions)
    return normalised(np.where(visits > 1e-12, visits, 0))


def unconstrained_optimum(cmdp: CMDP, signal: Array) -> Array:
    """The deterministic policy of the highest value from every state, (n, s, a)."""
    chosen = np.zeros(signal.shape[:2], int)
    actions = np.eye(signal.shape[2])
    while True:
        q = action_values(cmdp, state_values(cmdp, actions[chosen], signal), signal)
        now = np.take_along_axis(q, chosen[..., None], 2)[..., 0]
        # Ties and rounding must not make it wander for ever.
        better = q.max(2) > now + 1e-9 * (1 + np.abs(now))
        if not better.any():
            return actions[chosen]
        chosen = np.where(better, q.argmax(2), chosen)


def with_floor(cmdp: CMDP, floor: Array) -> CMDP:
    """The CMDP in which whatever is chosen, every action keeps at least the probability `floor` (n,)."""

    def mixed(table: Array) -> Array:
        least = floor.reshape(-1, *[1] * (table.ndim - 1))
        return (1 - table.shape[2] * least) * table + least * table.sum(2, keepdims=True)

    return CMDP(mixed(cmdp.transition), mixed(cmdp.reward), mixed(cmdp.cost), cmdp.discount, cmdp.initial)


def floored(policy: Array, floor: Array) -> Array:
    """What a policy of `with_floor` does in the CMDP itself."""
    least = floor[:, None, None]
    return (1 - policy.shape[2] * least) * policy + least
