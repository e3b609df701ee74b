"""What episodes say about a mean: tests that hold for any distribution of costs, as long as costs are bounded.

Costs are given as shares of the largest possible one, so all numbers here lie between 0 and 1. A p-value is of the
claim "the mean is above the target": at most delta, it proves the contrary with confidence 1 - delta. Every function
works along the last axis.

Betting (Waudby-Smith and Ramdas, 2024): who bets before each episode that its cost will be below the target cannot
hope to gain when the mean is above it, and by Ville's inequality ever multiplies the stake by 1 / delta with a
chance of delta at most. So one may look after every episode, and stop or go on as one likes.

Hoeffding-Bentkus (Bates et al., 2021) is for a number of episodes that was fixed before the first of them.
"""

import numpy as np
from scipy.special import bdtr

SMALLEST_GAP = 0.25
"""Share of the target that bets take the mean to be below it at least: a few dear episodes must not end them."""
EXCESS_BETS = 6
"""Sizes of bets that a mean is above the target."""
LARGEST_EXPONENT = 700.0
"""Money beyond e to this is as good as this: a float holds no more."""


def hoeffding_bentkus_p_value(shares: np.ndarray, target: float) -> np.ndarray | np.float64:
    """The p-value of a number of episodes that was fixed beforehand."""
    number = shares.shape[-1]
    total = shares.sum(axis=-1)
    mean = np.minimum(total / number, target)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(mean > 0, mean * np.log(mean / target), 0.0)
        above = np.where(mean < 1, (1 - mean) * np.log((1 - mean) / (1 - target)), 0.0)
    hoeffding = np.exp(-number * (below + above))
    bentkus = np.e * bdtr(np.ceil(total), number, target)  # the binomial distribution function
    return np.minimum(1.0, np.minimum(hoeffding, bentkus))


def place_bets(shares: np.ndarray, target: float) -> np.ndarray:
    """Before each episode, the stake from 0 to 1 on its cost being below the target, from those before it alone.

    The stake that would have made money grow fastest, were costs distributed as mean and variance so far suggest;
    both begin with one imagined episode that cost nothing. None exceeds 1, so that the same bets serve for every
    other target too (`upper_bound`).
    """
    count = np.arange(1, shares.shape[-1] + 1)
    means = np.cumsum(shares, axis=-1) / (count + 1)
    variances = np.cumsum((shares - means) ** 2, axis=-1) / (count + 1)
    gap = np.maximum(target - _delay(means), SMALLEST_GAP * target)
    return np.minimum(1.0, gap / (_delay(variances) + gap**2))


def _delay(values: np.ndarray) -> np.ndarray:
    """What was known before each episode."""
    return np.concatenate([np.zeros_like(values[..., :1]), values[..., :-1]], axis=-1)


def log_wealth(shares: np.ndarray, bets: np.ndarray, target: float) -> np.ndarray:
    """Logarithm of the money after each episode, from a stake of 1."""
    return np.cumsum(np.log1p(bets * (target - shares)), axis=-1)


def betting_p_value(shares: np.ndarray, target: float) -> np.ndarray | np.float64:
    """The p-value of episodes that may have been stopped at any time, for any reason: one over the most money had."""
    wealth = log_wealth(shares, place_bets(shares, target), target)
    return np.exp(-np.maximum(wealth.max(axis=-1), 0.0))


def upper_bound(shares: np.ndarray, target: float, confidence: float) -> float:
    """What the mean is below with this confidence, at any time, by the bets that are meant for `target`.

    Money grows with the target that is betted on, so the smallest target at which it suffices is the bound; it is at
    most `target` where `betting_p_value` is at most 1 - confidence.
    """
    bets, needed = place_bets(shares, target), -np.log1p(-confidence)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        enough = np.cumsum(np.log1p(bets * (middle - shares))).max() >= needed
        low, high = (low, middle) if enough else (middle, high)
    return high


def fewest_episodes(target: float, confidence: float) -> int:
    """Episodes that betting needs when none costs anything: no test of any kind needs many fewer."""
    return int(np.ceil(-np.log1p(-confidence) / np.log1p(target)))


def estimate_more_episodes(shares: np.ndarray, target: float, confidence: float) -> int | None:
    """How many more like these betting would need; none if the best of constant bets gains nothing on them."""
    growth = max(float(np.log1p(bet * (target - shares)).mean()) for bet in np.linspace(0.05, 1.0, 20))
    have = float(log_wealth(shares, place_bets(shares, target), target)[-1])
    needed = float(-np.log1p(-confidence)) - have
    return max(1, int(np.ceil(needed / growth))) if growth > 1e-9 else None


def excess_bets(target: float) -> np.ndarray:
    """Stakes on costs being above the target: small ones tell a rare large cost, large ones many that are a bit more.

    None exceeds 1 / target, which an episode without cost would lose whole.
    """
    return np.geomspace(0.5, max(0.5, 0.8 / target), EXCESS_BETS)


def excess_p_value(shares: np.ndarray, target: float) -> np.ndarray | np.float64:
    """Of the opposite claim, "the mean is at most the target", at any time: money is spread evenly over the bets."""
    bets = excess_bets(target)[:, None]
    each = np.cumsum(np.log1p(bets * (shares[..., None, :] - target)), axis=-1)
    wealth = np.exp(np.minimum(each, LARGEST_EXPONENT)).mean(axis=-2)
    return 1.0 / np.maximum(wealth.max(axis=-1), 1.0)
