"""What simulators and policies share: the question a simulator asks, and the answer a policy gives.

It stands apart from lspc.policy, which imports every method; simulators know nothing of those.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Seen(NamedTuple):
    """What a policy is asked about: a row for each world of one worker; spare rows are zero.

    The number of rows never changes within a run, so a compiled policy compiles once.
    """

    observations: np.ndarray
    """(B, o) float32."""
    seeds: np.ndarray
    """(B,) int64: the episode's seed."""
    steps: np.ndarray
    """(B,) int64: steps taken so far; 0 asks for an episode's first action."""
    rewards: np.ndarray
    """(B,) float32: what the last action earned."""
    costs: np.ndarray
    """(B,) float32: what the last action cost."""
    lanes: np.ndarray
    """(B,) int64: the row's place in the whole pool, for a policy that remembers; an episode keeps its own."""


Act = Callable[[Seen], np.ndarray]
"""To actions (B, a). Row i of the answer must depend on row i of the question alone, and on that lane's past."""
