"""Every statement of the paper on many random CMDPs and on the few made by hand, summed up in one row each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.theory import examples
from lspc.theory.bounds import STATEMENTS, Case, Gap, Statement
from lspc.theory.cmdp import CMDP, Array, random_cmdps, random_policies, value
from lspc.theory.optimum import constrained_optimum, floored, unconstrained_optimum, with_floor
from lspc.theory.tabular import lspc

SHAPES = ((2, 2), (3, 2), (4, 3), (5, 4), (8, 3), (10, 5))
"""Numbers of states and actions."""
CHUNK = 50
TOLERANCE = 1e-8
"""Of the most that a left side can be: linear program and linear solves are exact to about this."""


@dataclass(frozen=True)
class Row:
    """One line of the table: how one form of one statement fared."""

    statement: str
    form: str
    holds: int
    cases: int
    vacuous: float
    """Share of the cases whose bound is at or above the most that the left side could be."""
    infinite: float
    """Share of the cases whose bound is infinite."""
    median: float | None
    """Median of left side / bound where the bound is finite; a left side below zero counts as zero."""
    worst: float | None
    ratios: Array = field(repr=False)

    @property
    def correct(self) -> bool:
        return self.holds == self.cases

    def record(self) -> dict[str, Any]:
        """What JSON can hold: an infinite ratio becomes null."""
        told = {name: value for name, value in vars(self).items() if name != "ratios"}
        return {name: None if value == np.inf else value for name, value in told.items()}


def check(count: int = 3000, seed: int = 0, on_progress: Callable[[int], None] | None = None) -> list[Row]:
    """Check every statement on `count` random CMDPs, each with three sets of policies, and on those made by hand.

    `on_progress` is told how many CMDPs are done. The same seed draws the same CMDPs.
    """
    cases: list[Case] = []
    for done, chunk in _chunks(count, seed):
        cases += chunk
        if on_progress:
            on_progress(done)
    cases += examples.cases()
    return [_summed_up(statement, cases) for statement in STATEMENTS]


def _chunks(count: int, seed: int) -> Iterator[tuple[int, list[Case]]]:
    for index, start in enumerate(range(0, count, CHUNK)):
        size = min(CHUNK, count - start)
        rng = np.random.default_rng([seed, index])
        yield start + size, random_cases(rng, size, *SHAPES[index % len(SHAPES)])


def random_cases(rng: np.random.Generator, count: int, states: int, actions: int) -> list[Case]:
    """The same random CMDPs with LSPC's policies, with policies near pi*, and near the optimum without a budget.

    In half of the CMDPs pi* is the best among those that give every action a share, so that KL to it is finite.
    """
    cmdp = random_cmdps(rng, count, states, actions)
    floor = np.where(rng.random(count) < 0.5, 0, 10 ** rng.uniform(-3, -1, count))
    open_to_all = with_floor(cmdp, floor)
    careful, greedy = (unconstrained_optimum(open_to_all, s) for s in (-open_to_all.cost, open_to_all.reward))
    least, greedy_cost = (value(open_to_all, policy, open_to_all.cost) for policy in (careful, greedy))
    # Mostly a budget that binds; the little more keeps rounding from emptying the feasible set.
    kappa = least + rng.uniform(0.02, 1.2, count) * np.maximum(greedy_cost - least, 0) + 1e-7 * (1 + least)
    optimum = floored(constrained_optimum(open_to_all, kappa), floor)
    greedy = floored(greedy, floor)

    behaviour = _data_policy(rng, cmdp)
    safe, policy = lspc(cmdp, behaviour, restriction=rng.choice((0.25, 0.6, 1, 2, np.inf), count))
    return [
        Case("lspc", cmdp, behaviour, safe, policy, optimum, kappa),
        Case("near", cmdp, behaviour, *_near(rng, cmdp, optimum), optimum, kappa),
        Case("argmax", cmdp, behaviour, *_near(rng, cmdp, greedy), greedy, kappa),
    ]


def _data_policy(rng: np.random.Generator, cmdp: CMDP) -> Array:
    """In half of the CMDPs the data lack the actions that would be rare."""
    drawn = random_policies(rng, cmdp)
    rare = (drawn < 0.05) & (rng.random(len(drawn)) < 0.5)[:, None, None]
    drawn = np.where(rare, 0, drawn)
    return drawn / drawn.sum(-1, keepdims=True)


def _near(rng: np.random.Generator, cmdp: CMDP, optimum: Array) -> tuple[Array, Array]:
    """pi_s off pi* by a share between a ten-thousandth and one, then pi off pi_s."""

    def moved(policy: Array) -> Array:
        share = 10 ** rng.uniform(-4, 0, (len(policy), 1, 1))
        return (1 - share) * policy + share * random_policies(rng, cmdp)

    safe = moved(optimum)
    return safe, moved(safe)


def _summed_up(statement: Statement, cases: Sequence[Case]) -> Row:
    gaps = [statement.gap(case) for case in cases if case.kind in statement.kinds]
    left, bound, most = (np.concatenate(arrays) for arrays in zip(*gaps, strict=True))
    finite = np.isfinite(bound)
    ratios = ratio(Gap(left, bound, most))[finite]
    never_zero = bool(np.any(bound > 0))
    return Row(
        statement=statement.name,
        form=statement.form,
        holds=int(holds(Gap(left, bound, most)).sum()),
        cases=len(left),
        vacuous=float((bound >= most).mean()),
        infinite=float((~finite).mean()),
        median=float(np.median(ratios)) if never_zero and finite.any() else None,
        worst=float(ratios.max()) if never_zero and finite.any() else None,
        ratios=ratios,
    )


def holds(gap: Gap) -> NDArray[np.bool_]:
    """One truth value per CMDP, allowing for rounding."""
    slack = TOLERANCE * np.where(np.isfinite(gap.most), gap.most, 1)
    return gap.left <= gap.bound + slack


def ratio(gap: Gap) -> Array:
    """Left side over bound: above 1 the statement fails; over a bound of zero or less, infinite."""
    left = np.where(holds(gap._replace(bound=np.zeros_like(gap.left))), 0, gap.left)
    return np.divide(left, gap.bound, out=np.where(left > 0, np.inf, 0.0), where=gap.bound > 0)
