"""How sure the page may be of a mean cost: ends that hold for few episodes, and for episodes that cost nothing.

Resampling twenty zeros gives zeros only, which would read as certainty. So each end is the wider of two: the
bootstrap's, which knows how training seeds differ, and that of a test that holds for any distribution of costs
between 0 and the largest an episode can have.
"""

from collections.abc import Sequence

import numpy as np

from lspc.calibration.bounds import hoeffding_bentkus_p_value
from lspc.runs.statistics import Interval, bootstrap

CONFIDENCE = 0.95
"""Of each end."""


def bound_cost(groups: Sequence[np.ndarray], largest: float) -> Interval:
    """The mean cost of an episode with its ends; a group is one training seed, `largest` what an episode may cost."""
    resampled, costs = bootstrap(groups), np.concatenate(groups)
    largest = max(largest, float(costs.max()))
    if largest <= 0:
        return resampled
    shares = costs / largest
    high = largest * _bound_above(shares)
    low = largest * (1.0 - _bound_above(1.0 - shares))
    return Interval(resampled.mean, min(resampled.low, low), max(resampled.high, high))


def bound_reward(groups: Sequence[np.ndarray]) -> Interval:
    """The mean reward; a reward has no known bounds, so the ends of a single episode are unknown."""
    found = bootstrap(groups)
    return found if sum(map(len, groups)) > 1 else Interval(found.mean, np.nan, np.nan)


def _bound_above(shares: np.ndarray) -> float:
    """The smallest mean that these episodes rule out, and with it every larger one."""
    low, high = float(shares.mean()), 1.0
    for _ in range(40):
        middle = (low + high) / 2
        refuted = middle < 1.0 and hoeffding_bentkus_p_value(shares, middle) <= 1.0 - CONFIDENCE
        low, high = (low, middle) if refuted else (middle, high)
    return high
