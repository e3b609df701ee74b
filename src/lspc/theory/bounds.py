"""The paper's lemmas and theorems, one function each: the left side, the bound, and the most the left side could be.

A bound at or above that most is vacuous. Lemmas 1 to 4 and both theorems hold for any policy, not only a learnt one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np

from lspc.theory.cmdp import CMDP, Array, expected, kl, occupancy, total_variation, value

Kind = Literal["lspc", "near", "argmax"]
"""Where the policies come from: LSPC's own; drawn near pi*; drawn near the optimum that ignores the budget."""


class Gap(NamedTuple):
    left: Array
    bound: Array
    most: Array


@dataclass(frozen=True)
class Case:
    """A stack of CMDPs with the policies that the statements speak of, each (n, s, a)."""

    kind: Kind
    cmdp: CMDP
    behaviour: Array
    """pi_b."""
    safe: Array
    """pi_s."""
    policy: Array
    """pi."""
    optimum: Array
    """pi*: the best policy within kappa; for the kind "argmax", the best one regardless of kappa."""
    kappa: Array

    @cached_property
    def at_optimum(self) -> Array:
        """d^{pi*}(s)."""
        return occupancy(self.cmdp, self.optimum)

    @cached_property
    def in_data(self) -> Array:
        """d^{pi_b}(s)."""
        return occupancy(self.cmdp, self.behaviour)

    @cached_property
    def distance(self) -> Array:
        """E_{s ~ d^{pi*}} TV(pi, pi*), on which everything hangs."""
        return expected(self.at_optimum, total_variation(self.policy, self.optimum))

    def change(self, signal: Array) -> Array:
        """V^pi(rho_0) - V^{pi*}(rho_0)."""
        return value(self.cmdp, self.policy, signal) - value(self.cmdp, self.optimum, signal)


def largest(signal: Array) -> Array:
    """The maximum as the paper words it."""
    return signal.max((1, 2))


def largest_size(signal: Array) -> Array:
    return np.abs(signal).max((1, 2))


def half_range(signal: Array) -> Array:
    """The smallest R_m that a constant added to every reward can lead to; the gap does not feel the constant."""
    return (signal.max((1, 2)) - signal.min((1, 2))) / 2


def lemma_1(case: Case) -> Gap:
    """TV(d^pi, d^{pi*}) <= gamma / (1 - gamma) E TV(pi, pi*)."""
    left = total_variation(occupancy(case.cmdp, case.policy), case.at_optimum)
    return Gap(left, case.cmdp.discount * case.cmdp.horizon * case.distance, np.ones_like(left))


def lemma_2(case: Case, size: Callable[[Array], Array] = largest_size) -> Gap:
    """|V_r^pi - V_r^{pi*}| <= 2 R_m / (1 - gamma)^2 E TV(pi, pi*); `size` says what R_m is."""
    return _value_gap(case, case.cmdp.reward, case.distance, size)


def lemma_4(case: Case, size: Callable[[Array], Array] = largest_size) -> Gap:
    """The same for the cost, with C_m."""
    return _value_gap(case, case.cmdp.cost, case.distance, size)


def _value_gap(case: Case, signal: Array, distance: Array, size: Callable[[Array], Array] = largest_size) -> Gap:
    most = 2 * half_range(signal) * case.cmdp.horizon
    factor = 2 * size(signal) * case.cmdp.horizon**2
    # Where nothing is ever earned there is no gap, however far the policies are apart.
    return Gap(np.abs(case.change(signal)), factor * np.where(factor == 0, 0, distance), most)


def at_worst_state(case: Case) -> Array:
    """sqrt(eps'_1 / 2) + sqrt(eps'_2 / 2), with D_KL <= eps' in every state."""
    apart = kl(case.policy, case.safe).max(-1), kl(case.safe, case.optimum).max(-1)
    return np.sqrt(apart[0] / 2) + np.sqrt(apart[1] / 2)


def where_optimum_goes(case: Case) -> Array:
    """The same with D_KL averaged over d^{pi*}: the least that the proof needs."""
    return _pinsker(case.at_optimum, case.policy, case.safe) + _pinsker(case.at_optimum, case.safe, case.optimum)


def where_data_are(case: Case) -> Array:
    """The same with D_KL averaged over d^{pi_b}: all that a dataset can show."""
    return _pinsker(case.in_data, case.policy, case.safe) + _pinsker(case.in_data, case.safe, case.optimum)


def by_total_variation(case: Case) -> Array:
    """The distance to pi* in total variation: finite although pi* is deterministic."""
    to_optimum = expected(case.at_optimum, total_variation(case.safe, case.optimum))
    return _pinsker(case.at_optimum, case.policy, case.safe) + to_optimum


def by_reverse_kl(case: Case) -> Array:
    """D_KL(pi* || pi_s) instead of D_KL(pi_s || pi*): finite where pi_s can do what pi* does."""
    return _pinsker(case.at_optimum, case.policy, case.safe) + _pinsker(case.at_optimum, case.optimum, case.safe)


def _pinsker(weights: Array, p: Array, q: Array) -> Array:
    return np.sqrt(expected(weights, kl(p, q)) / 2)


def lemma_3(case: Case, distance: Callable[[Case], Array] = at_worst_state) -> Gap:
    """E TV(pi, pi*) <= sqrt(eps'_1 / 2) + sqrt(eps'_2 / 2); `distance` says how eps' is read."""
    return Gap(case.distance, distance(case), np.ones_like(case.distance))


def theorem_1(case: Case, distance: Callable[[Case], Array] = at_worst_state) -> Gap:
    """V_r^{pi*} - V_r^pi <= 2 R_m / (1 - gamma)^2 (sqrt(eps'_1 / 2) + sqrt(eps'_2 / 2))."""
    gap = _value_gap(case, case.cmdp.reward, distance(case))
    return gap._replace(left=-case.change(case.cmdp.reward))


def theorem_2(case: Case, distance: Callable[[Case], Array] = at_worst_state) -> Gap:
    """V_c^pi - kappa <= 2 C_m / (1 - gamma)^2 (sqrt(eps'_1 / 2) + sqrt(eps'_2 / 2))."""
    gap = _value_gap(case, case.cmdp.cost, distance(case))
    over = value(case.cmdp, case.policy, case.cmdp.cost) - case.kappa
    return Gap(over, gap.bound, np.maximum(largest(case.cmdp.cost) * case.cmdp.horizon - case.kappa, 0))


def concentrability(case: Case) -> Array:
    """max_s d^{pi*}(s) / d^{pi_b}(s): how much more often pi* is where the data are thinnest."""
    goes = case.at_optimum > 0
    with np.errstate(divide="ignore"):
        return np.where(goes, case.at_optimum / np.where(goes, case.in_data, 1), 0).max(-1)


def seen_distance(case: Case) -> Array:
    """E_{s ~ d^{pi_b}} TV(pi, pi*)."""
    return expected(case.in_data, total_variation(case.policy, case.optimum))


def transferred_distance(case: Case) -> Array:
    """The same times the concentrability; infinite if pi* leaves the data, even where pi and pi* agree in them."""
    seen, factor = seen_distance(case), concentrability(case)
    return np.where(np.isinf(factor), np.inf, seen * np.where(np.isinf(factor), 0, factor))


def equation_17_step(case: Case, distance: Callable[[Case], Array] = seen_distance) -> Gap:
    """E_{d^{pi*}} TV(pi, pi*) <= E_{d^{pi_b}} TV(pi, pi*), the last step of equation 17."""
    return Gap(case.distance, distance(case), np.ones_like(case.distance))


def equation_17(case: Case, distance: Callable[[Case], Array] = seen_distance) -> Gap:
    """Its two ends: |V_r^pi - V_r^{pi*}| <= 2 R_m / (1 - gamma)^2 E_{d^{pi_b}} TV(pi, pi*)."""
    return _value_gap(case, case.cmdp.reward, distance(case))


def equation_20(case: Case, of: Literal["safe", "policy"] = "safe") -> Gap:
    """E_{d^{pi_b}} TV(pi, pi*) <= sqrt(E_{d^{pi_b}} D_KL(pi_s || pi*) / 2): pi on the left, pi_s on the right."""
    left = seen_distance(case)
    return Gap(left, _pinsker(case.in_data, getattr(case, of), case.optimum), np.ones_like(left))


def theorem_3_limit(case: Case) -> Gap:
    """With unlimited data V_r^{pi*} - V_r^pi <= 0; the paper proves it of equation 18 and concludes it of LSPC."""
    gap = theorem_1(case)
    return gap._replace(bound=np.zeros_like(gap.left))


def theorem_4_limit(case: Case) -> Gap:
    """With unlimited data V_c^pi <= kappa; as above."""
    gap = theorem_2(case)
    return gap._replace(bound=np.zeros_like(gap.left))


def safe_is_nearer_to_optimum(case: Case) -> Gap:
    """TV(pi_s, pi*) <= TV(pi_b, pi*), averaged over d^{pi*}; in KL both are mostly infinite."""
    near, far = (expected(case.at_optimum, total_variation(p, case.optimum)) for p in (case.safe, case.behaviour))
    return Gap(near, far, np.ones_like(near))


def safe_is_nearer_to_policy(case: Case) -> Gap:
    """D_KL(pi || pi_s) <= D_KL(pi || pi_b), averaged over d^pi."""
    visited = occupancy(case.cmdp, case.policy)
    near, far = (expected(visited, kl(case.policy, p)) for p in (case.safe, case.behaviour))
    return Gap(near, far, np.full_like(near, np.inf))


@dataclass(frozen=True)
class Statement:
    name: str
    form: str
    gap: Callable[[Case], Gap]
    kinds: tuple[Kind, ...] = ("lspc", "near")
    """The policies it is checked with."""


STATEMENTS = (
    Statement("Lemma 1", "printed", lemma_1),
    Statement("Lemma 2", "printed: R_m = max r", partial(lemma_2, size=largest)),
    Statement("Lemma 2", "corrected: R_m = max |r|", lemma_2),
    Statement("Lemma 2", "sharper: R_m = range / 2", partial(lemma_2, size=half_range)),
    Statement("Lemma 3", "printed, eps' worst state", lemma_3),
    Statement("Lemma 3", "printed, eps' mean in d*", partial(lemma_3, distance=where_optimum_goes)),
    Statement("Lemma 3", "printed, eps' mean in d_b", partial(lemma_3, distance=where_data_are)),
    Statement("Lemma 3", "finite: TV(pi_s, pi*)", partial(lemma_3, distance=by_total_variation)),
    Statement("Lemma 3", "finite: KL(pi* || pi_s)", partial(lemma_3, distance=by_reverse_kl)),
    Statement("Theorem 1", "printed, R_m = max |r|", theorem_1),
    Statement("Theorem 1", "finite: TV(pi_s, pi*)", partial(theorem_1, distance=by_total_variation)),
    Statement("Lemma 4", "printed", lemma_4),
    Statement("Lemma 4", "sharper: C_m = range / 2", partial(lemma_4, size=half_range)),
    Statement("Theorem 2", "printed, pi* within kappa", theorem_2),
    Statement("Theorem 2", "printed, pi* = best reward", theorem_2, ("argmax",)),
    Statement("Theorem 2", "finite: TV(pi_s, pi*)", partial(theorem_2, distance=by_total_variation)),
    Statement("Eq. 17, step", "printed", equation_17_step),
    Statement("Eq. 17, step", "corrected: x max d*/d_b", partial(equation_17_step, distance=transferred_distance)),
    Statement("Eq. 17, ends", "printed", equation_17),
    Statement("Eq. 17, ends", "corrected: x max d*/d_b", partial(equation_17, distance=transferred_distance)),
    Statement("Eq. 20", "printed: KL(pi_s || pi*)", equation_20),
    Statement("Eq. 20", "corrected: KL(pi || pi*)", partial(equation_20, of="policy")),
    Statement("Theorem 3", "LSPC, endless data: no gap", theorem_3_limit, ("lspc",)),
    Statement("Theorem 4", "LSPC, endless data: safe", theorem_4_limit, ("lspc",)),
    Statement("Remark", "pi_s nearer pi* than pi_b", safe_is_nearer_to_optimum, ("lspc",)),
    Statement("Remark", "pi_s nearer pi than pi_b", safe_is_nearer_to_policy, ("lspc",)),
)
