"""Has training diverged, or did a part of the method learn nothing?

Metrics that are not finite or beyond what the data allow, weights that broke unseen; critics that died, latents that
nobody listens to.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lspc import checkpoints
from lspc.algos.base import Spec

SMALLEST_SPREAD = 1e-6
"""In parts of a value's bound: values that differ by less do not differ."""
LEAST_SIGNAL = 3.0
"""Q's spread over a state's actions in parts of its twins' disagreement; two twins that know nothing give 1. On
CarGoal1, where Q_c does not keep LSPC-O out of hazards, it is about 2; where it does help, 6 or more."""
LEAST_DIVERGENCE = 2e-4
"""Of the CVAE's latents from noise, per dimension: below it they tell the decoder nothing."""
OLD_ENOUGH = 1000
"""Updates after which a critic should know something."""


def find_divergence(
    metrics: Mapping[str, Sequence[float]], bounds: Mapping[str, float], seeds: Sequence[int]
) -> str | None:
    """The first metric, one value per seed, that shows that training has diverged."""
    for name, values in metrics.items():
        for seed, value in zip(seeds, values, strict=True):
            if not np.isfinite(value):
                return f"{name} of seed {seed} is {value}"
            if abs(value) > bounds.get(name, np.inf):
                return f"{name} of seed {seed} is {value:.3g}, beyond what the data allow ({bounds[name]:.3g})"
    return None


def find_dead_critics(
    metrics: Mapping[str, Sequence[float]], bounds: Mapping[str, float], spec: Spec, seeds: Sequence[int]
) -> list[str]:
    """What to tell of critics that say the same of every state, although the data hold something to learn."""
    found = []
    for part, name, exists in (("reward", "V_r", spec.reward_spread > 0), ("cost", "V_c", spec.largest_cost > 0)):
        bound, spreads = bounds.get(f"{part}/value_max"), metrics.get(f"{part}/value_spread")
        if not exists or bound is None or spreads is None:
            continue
        for seed, spread, highest in zip(seeds, spreads, metrics[f"{part}/value_max"], strict=True):
            if part == "cost" and highest == 0.0:
                found.append(f"seed {seed}: {name} is zero or below in every state, so no action counts as costly")
            elif spread < SMALLEST_SPREAD * bound:
                found.append(f"seed {seed}: {name} is the same in every state")
    return found


def find_weak_signals(metrics: Mapping[str, Sequence[float]], seeds: Sequence[int]) -> list[str]:
    """What to tell of critics whose word about the actions of a state is noise."""
    return [
        f"seed {seed}: {name} differs between the actions of a state by {signal:.1f} times its twins' disagreement"
        for part, name in (("reward", "Q_r"), ("cost", "Q_c"))
        for seed, signal in zip(seeds, metrics.get(f"{part}/signal", ()), strict=False)
        if signal < LEAST_SIGNAL
    ]


def find_ignored_latents(metrics: Mapping[str, Sequence[float]], seeds: Sequence[int]) -> list[str]:
    """What to tell of an LSPC whose decoder gives the same action whatever its latent encoder chooses."""
    if "encoder/loss" not in metrics:
        return []
    return [
        f"seed {seed}: the decoder ignores its latent (cvae/kl is {kl:.1g}), so what LSPC-O chooses changes nothing"
        for seed, kl in zip(seeds, metrics["cvae/kl"], strict=True)
        if kl < LEAST_DIVERGENCE
    ]


def find_broken_weights(states: Any) -> str | None:
    """What the chunk's last update broke, which no metric has seen yet."""
    for name, leaf in checkpoints.arrays_by_path(states).items():
        if not np.isfinite(np.asarray(leaf)).all():
            return f"{name} holds NaN or infinity"
    return None


def explain_divergence(reason: str, step: int, kept: Sequence[Path]) -> str:
    """What happened, which of the checkpoints `kept` to go back to, and what to try."""
    where = f"the last good checkpoint is {kept[-1]}" if kept else "no checkpoint was written yet"
    return (
        f"training diverged before update {step}: {reason}; {where}. "
        "Try a smaller --learning-rate, or --scale-signals / --normalise-observations if they are off"
    )
