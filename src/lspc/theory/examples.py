"""Small CMDPs made by hand: where a printed step breaks, where a bound is tight, and where LSPC is safe."""

import numpy as np

from lspc.theory.bounds import Case
from lspc.theory.cmdp import CMDP, Array
from lspc.theory.tabular import lspc


def door(opened: float = 1 / 15, discount: float = 0.5) -> Case:
    """Equation 17 breaks, and Lemma 3 for means over the data. Behind a door that the data seldom open, pi errs.

    Before the door (state 0) one stays or goes through. Behind it (state 1) one pays 1 and earns 1, or neither, for
    ever; the budget pays for half of the time, so pi* tosses a coin there, and pi always pays.
    """
    transition = np.array([[[1, 0], [0, 1]], [[0, 1], [0, 1]]])
    pays = [[0, 0], [1, 0]]
    optimum = _policy([[0, 1], [0.5, 0.5]])
    return Case(
        kind="near",
        cmdp=_one(transition, pays, pays, discount, [1, 0]),
        behaviour=_policy([[1 - opened, opened], [0.5, 0.5]]),
        safe=optimum,
        policy=_policy([[0, 1], [1, 0]]),
        optimum=optimum,
        kappa=np.array([0.5 * discount / (1 - discount)]),
    )


def cliff(slip: float = 1e-4, discount: float = 0.9) -> Case:
    """Lemmas 1, 2 and 4 are tight. On the ridge (state 0) one earns 1; one slip and it is -1 and cost 1 for ever."""
    transition = np.array([[[1, 0], [0, 1]], [[0, 1], [0, 1]]])
    reward, cost = [[1, -1], [-1, -1]], [[0, 1], [1, 1]]
    slips = [[1 - slip, slip], [1, 0]]
    return Case(
        kind="near",
        cmdp=_one(transition, reward, cost, discount, [1, 0]),
        behaviour=_policy([[0.5, 0.5], [1, 0]]),
        safe=_policy(slips),
        policy=_policy(slips),
        optimum=_policy([[1, 0], [1, 0]]),
        kappa=np.zeros(1),
    )


def toll(pays_safe: float, pays: float, discount: float = 0.5) -> Case:
    """Lemma 3 is tight for shares near a half; equation 20 breaks when pi_s = pi* and pi is not.

    One state: pay 1 and earn 1, or neither. The budget pays for half of the time, so pi* tosses a coin.
    """
    return Case(
        kind="near",
        cmdp=_one([[[1], [1]]], [[1, 0]], [[1, 0]], discount, [1]),
        behaviour=_policy([[0.5, 0.5]]),
        safe=_policy([[pays_safe, 1 - pays_safe]]),
        policy=_policy([[pays, 1 - pays]]),
        optimum=_policy([[0.5, 0.5]]),
        kappa=np.array([0.5 / (1 - discount)]),
    )


def toll_without_budget(discount: float = 0.5) -> Case:
    """Theorem 2 breaks if pi* ignores the budget: all three policies always pay."""
    always = _policy([[1, 0]])
    case = toll(1, 1, discount)
    return Case("argmax", case.cmdp, case.behaviour, always, always, always, case.kappa)


def road(walks: float = 0.5, cells: int = 4, discount: float = 0.9, restriction: float = 0.25) -> Case:
    """LSPC is safe where the data allow it. Along a ring road one walks a cell, or runs two at a cost of 1.

    Every cell passed earns 1. `walks` is the share of walking in the data; the budget is a cost of 1.
    """
    ahead = np.eye(cells)[[[(i + 1) % cells, (i + 2) % cells] for i in range(cells)]]
    cmdp = _one(ahead, [[1, 2]] * cells, [[0, 1]] * cells, discount, np.eye(cells)[0])
    behaviour = _policy([[walks, 1 - walks]] * cells)
    safe, policy = lspc(cmdp, behaviour, restriction=restriction)
    kappa = 1.0
    # In every cell the same choice: run as often as the budget pays for.
    runs = kappa * (1 - discount)
    return Case("lspc", cmdp, behaviour, safe, policy, _policy([[1 - runs, runs]] * cells), np.array([kappa]))


def cases() -> list[Case]:
    return [door(), cliff(), toll(0.499, 0.498), toll(0.5, 0.75), toll_without_budget(), road()]


def _one(transition: object, reward: object, cost: object, discount: float, initial: object) -> CMDP:
    tables = (np.array(table, float)[None] for table in (transition, reward, cost, discount, initial))
    return CMDP(*tables)


def _policy(table: object) -> Array:
    return np.array(table, float)[None]
