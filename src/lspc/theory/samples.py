"""How the gaps of Theorems 3 and 4 fall as data grow: tabular LSPC, and equation 18 itself, on counted samples.

As in the paper, the N transitions of a dataset start from independent states of d^{pi_b}.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lspc.theory import bounds
from lspc.theory.bounds import Case, Gap
from lspc.theory.cmdp import (
    CMDP,
    Array,
    expected,
    normalised,
    occupancy,
    random_cmdps,
    random_policies,
    total_variation,
    value,
)
from lspc.theory.optimum import constrained_optimum, unconstrained_optimum
from lspc.theory.tabular import lspc

STATES, ACTIONS = 5, 3
SIZES = (100, 316, 1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
QUANTITIES = {
    "imitator_tv": "Eq. 18: TV to pi*, in data",
    "imitator_reward": "Eq. 18: reward short of pi*",
    "imitator_cost": "Eq. 18: cost over kappa",
    "learnt_tv": "LSPC: TV to its limit, in data",
    "learnt_reward": "LSPC: reward off its limit",
    "learnt_cost": "LSPC: cost off its limit",
    "gap_reward": "LSPC: reward short of pi*",
    "gap_cost": "LSPC: cost over kappa",
}
"""Values are divided by the largest difference of values that the CMDP allows. LSPC's limit has unlimited data."""


@dataclass(frozen=True)
class Samples:
    """What was measured, and with which settings."""

    sizes: tuple[int, ...]
    errors: dict[str, Array]
    """Quantity -> mean over the datasets of each size and CMDP, (sizes, cmdps)."""
    settings: dict[str, float]

    def record(self) -> dict[str, object]:
        """What JSON can hold, averaged over the CMDPs."""
        means = {quantity: table.mean(1).tolist() for quantity, table in self.errors.items()}
        return {"settings": self.settings, "sizes": list(self.sizes), "means": means}


@dataclass(frozen=True)
class Slope:
    """How fast one quantity falls: proportional to N to the power of minus `rate`."""

    quantity: str
    rate: float
    low: float
    high: float
    """95 % interval, bootstrapped over CMDPs."""
    first: float
    last: float
    """Mean at the smallest and at the largest dataset."""


def sample_complexity(
    sizes: Sequence[int] = SIZES,
    *,
    cmdps: int = 1000,
    repeats: int = 5,
    restriction: float = 0.25,
    discount: float = 0.9,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> Samples:
    """Learn from `repeats` datasets of each size in each CMDP; `on_progress` is told how many sizes are done."""
    rng = np.random.default_rng(seed)
    cmdp, behaviour, optimum, kappa = random_problems(rng, cmdps, discount)
    limit = lspc(cmdp, behaviour, restriction=restriction)[1]
    many = cmdp.repeated(repeats)
    behaviour, optimum, limit, kappa = (np.repeat(x, repeats, axis=0) for x in (behaviour, optimum, limit, kappa))
    errors: dict[str, list[Array]] = {quantity: [] for quantity in QUANTITIES}
    for done, size in enumerate(sizes, 1):
        learnt = lspc(*counted(rng, many, behaviour, size), restriction=restriction)[1]
        imitator = imitated(rng, many, behaviour, optimum, size)
        measured = {
            "imitator_tv": _seen_tv(many, behaviour, imitator, optimum),
            "imitator_reward": _short(many, many.reward, value(many, optimum, many.reward), imitator),
            "imitator_cost": _short(many, -many.cost, -kappa, imitator),
            "learnt_tv": _seen_tv(many, behaviour, learnt, limit),
            "learnt_reward": _apart(many, many.reward, learnt, limit),
            "learnt_cost": _apart(many, many.cost, learnt, limit),
            "gap_reward": _short(many, many.reward, value(many, optimum, many.reward), learnt),
            "gap_cost": _short(many, -many.cost, -kappa, learnt),
        }
        for quantity, array in measured.items():
            errors[quantity].append(array.reshape(cmdps, repeats).mean(1))
        if on_progress:
            on_progress(done)
    settings = {"cmdps": cmdps, "repeats": repeats, "restriction": restriction, "discount": discount, "seed": seed}
    return Samples(tuple(sizes), {quantity: np.stack(rows) for quantity, rows in errors.items()}, settings)


def random_problems(rng: np.random.Generator, count: int, discount: float) -> tuple[CMDP, Array, Array, Array]:
    """CMDPs, a behaviour policy that tries everything, pi*, and a budget between the careful and the greedy cost."""
    cmdp = random_cmdps(rng, count, STATES, ACTIONS, [discount])
    behaviour = 0.9 * random_policies(rng, cmdp) + 0.1 / ACTIONS
    careful, greedy = (
        value(cmdp, unconstrained_optimum(cmdp, signal), cmdp.cost) for signal in (-cmdp.cost, cmdp.reward)
    )
    kappa = (careful + greedy) / 2 + 1e-7 * (1 + careful)
    return cmdp, behaviour, constrained_optimum(cmdp, kappa), kappa


def counted(rng: np.random.Generator, cmdp: CMDP, behaviour: Array, size: int) -> tuple[CMDP, Array]:
    """What `size` transitions show of the CMDP and of pi_b. An action never seen leads nowhere and has no weight."""
    pairs = occupancy(cmdp, behaviour)[..., None] * behaviour
    seen = _multinomial(rng, size, pairs.reshape(len(pairs), -1)).reshape(pairs.shape)
    followed = _multinomial(rng, seen, cmdp.transition)
    stays = np.eye(pairs.shape[1])[None, :, None, :]
    known = seen > 0
    model = CMDP(
        transition=np.where(known[..., None], normalised(followed.astype(float)), stays),
        reward=np.where(known, cmdp.reward, 0),
        cost=np.where(known, cmdp.cost, 0),
        discount=cmdp.discount,
        initial=cmdp.initial,
    )
    return model, normalised(seen.astype(float))


def imitated(rng: np.random.Generator, cmdp: CMDP, behaviour: Array, optimum: Array, size: int) -> Array:
    """Equation 18 from samples: in states of the data an oracle shows an action of pi*, and the learner counts."""
    seen = _multinomial(rng, size, occupancy(cmdp, behaviour))
    return normalised(_multinomial(rng, seen, optimum).astype(float))


def _multinomial(rng: np.random.Generator, size: int | NDArray[np.int64], chances: Array) -> NDArray[np.int64]:
    # NumPy wants the chances to sum to one or less, to the last bit but one.
    return rng.multinomial(size, chances / np.maximum(chances.sum(-1, keepdims=True), 1))


def _seen_tv(cmdp: CMDP, behaviour: Array, p: Array, q: Array) -> Array:
    return expected(occupancy(cmdp, behaviour), total_variation(p, q))


def _apart(cmdp: CMDP, signal: Array, p: Array, q: Array) -> Array:
    return np.abs(value(cmdp, p, signal) - value(cmdp, q, signal)) / _most(cmdp, signal)


def _short(cmdp: CMDP, signal: Array, wanted: Array, policy: Array) -> Array:
    """By how much the policy falls short of a value."""
    return np.maximum(wanted - value(cmdp, policy, signal), 0) / _most(cmdp, signal)


def _most(cmdp: CMDP, signal: Array) -> Array:
    return 2 * bounds.half_range(signal) * cmdp.horizon


def slopes(samples: Samples, *, draws: int = 2000) -> list[Slope]:
    """The straight line through the logarithms of the means, for each quantity."""
    rng = np.random.default_rng(int(samples.settings["seed"]))
    fitted = []
    for quantity, table in samples.errors.items():
        cmdps = table.shape[1]
        means = table[:, rng.integers(cmdps, size=(draws, cmdps))].mean(2)
        low, high = np.quantile(_rates(samples.sizes, means), (0.025, 0.975))
        rate = _rates(samples.sizes, table.mean(1, keepdims=True))[0]
        first, last = table[[0, -1]].mean(1)
        fitted.append(Slope(quantity, float(rate), float(low), float(high), float(first), float(last)))
    return fitted


def _rates(sizes: Sequence[int], means: Array) -> Array:
    """One rate per column of (sizes, columns)."""
    # Where every policy is already exact there is no logarithm: the smallest float stands for zero.
    return -np.polyfit(np.log(sizes), np.log(np.maximum(means, 1e-300)), 1)[0]


def vacuity(
    *,
    discounts: Sequence[float] = (0.5, 0.9, 0.99),
    restrictions: Sequence[float] = (0.1, 0.25, 0.6, 1, 1.5, 2, 3),
    sizes: Sequence[int] = SIZES,
    cmdps: int = 200,
    seed: int = 0,
) -> list[dict[str, float]]:
    """Bounds on the cost over kappa as multiples of the most that it could be: from 1 on they say nothing.

    `bound` is Theorem 2 for LSPC with total variation to pi*, since with KL it is infinite, and `informative` the
    share of CMDPs in which it is below 1; `imitator` is the same bound for a policy learnt from the actions of pi*
    itself. Both are medians over CMDPs. `over` is LSPC's true excess, its 95th percentile.
    """
    records: list[dict[str, float]] = []
    for discount in discounts:
        rng = np.random.default_rng(seed)
        cmdp, behaviour, optimum, kappa = random_problems(rng, cmdps, discount)
        for size in sizes:
            data = counted(rng, cmdp, behaviour, size)
            copy = imitated(rng, cmdp, behaviour, optimum, size)
            oracle = _theorem_2(Case("near", cmdp, behaviour, copy, copy, optimum, kappa))
            for restriction in restrictions:
                gap = _theorem_2(Case("lspc", cmdp, behaviour, *lspc(*data, restriction=restriction), optimum, kappa))
                records.append(
                    {
                        "discount": discount,
                        "samples": size,
                        "restriction": restriction,
                        "bound": float(np.median(gap.bound / gap.most)),
                        "informative": float((gap.bound < gap.most).mean()),
                        "imitator": float(np.median(oracle.bound / oracle.most)),
                        "over": float(np.quantile(np.maximum(gap.left, 0) / gap.most, 0.95)),
                    }
                )
    return records


def _theorem_2(case: Case) -> Gap:
    return bounds.theorem_2(case, bounds.by_total_variation)
