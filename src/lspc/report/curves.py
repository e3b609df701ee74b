"""Training curves for the page, and what they warn of: every warning is found in a curve."""

from collections.abc import Mapping, Sequence

import numpy as np

from lspc import algos
from lspc.report.views import Part
from lspc.runs import Run, layout, metrics
from lspc.runs.record import group

CURVE_POINTS = 200
STRETCH = 8
"""The last of so many parts of a curve is compared with the one before it."""
STILL_MOVING = 0.05
"""Share of a curve's whole range that its mean may still move from one such part to the next."""
LEVELS_OFF = ("reward/value_mean", "cost/value_mean", "encoder/distance_to_data")
"""Metrics that should have stopped moving when training ends."""
FEW_UPDATES = 0.5
"""Of what the `cpu` preset does."""


def read_curves(run: Run) -> Part | None:
    """What the networks told while they learned and, if it was asked for, what the simulator said of them."""
    path = run.path / layout.METRICS
    if not path.exists() or not (shortened := shorten_curves(metrics.read(path))):
        return None
    warnings = find_warnings(int(shortened["steps"][-1]), shortened["metrics"], run)
    found: Part = {**shortened, "warnings": warnings}
    lines: dict[tuple[int, int], Part] = {}
    for (updates, seed), some in group(run.records(layout.CURVE), lambda r: (r.updates, r.training_seed)).items():
        lines[updates, seed] = {"step": updates, "seed": seed}
        for policy, episodes in group(some, lambda r: r.policy).items():
            for what in ("reward", "cost"):
                mean = float(np.mean([getattr(episode, f"{what}_return") for episode in episodes]))
                lines[updates, seed][f"measured/{what} of {policy}"] = mean
    if measured := shorten_curves(list(lines.values())):
        found = {**found, "measured": measured["steps"], "metrics": {**measured["metrics"], **found["metrics"]}}
    return found


def shorten_curves(lines: Sequence[Part]) -> Part | None:
    """Metrics by name and seed; of long runs, means over equal stretches."""
    by_seed: dict[int, dict[int, Part]] = {}
    for line in lines:
        by_seed.setdefault(line["seed"], {})[line["step"]] = line
    if not by_seed:
        return None
    steps = sorted(set.intersection(*(set(of_seed) for of_seed in by_seed.values())))
    stretches = np.array_split(np.array(steps), min(len(steps), CURVE_POINTS))

    def means(of_seed: dict[int, Part], name: str) -> list[float]:
        return [float(np.mean([of_seed[step][name] for step in stretch.tolist()])) for stretch in stretches]

    names = [name for name in lines[0] if name not in ("step", "seed") and all(name in line for line in lines)]
    return {
        "steps": [stretch[-1] for stretch in stretches],
        "seeds": list(by_seed),
        "metrics": {name: [means(of_seed, name) for of_seed in by_seed.values()] for name in names},
    }


def find_warnings(updates: int, metrics: Mapping[str, Sequence[Sequence[float]]], run: Run) -> list[Part]:
    """What the curves give cause to doubt: a sentence each and the metric it is about, if it is about one."""
    return [*_judge_length(updates, run), *_judge_trends(metrics), *_judge_ends(metrics)]


def _judge_length(done: int, run: Run) -> list[Part]:
    wanted = run.config.get("steps", done)
    usual = algos.get(run.method).PRESETS.get("cpu", {}).get("steps", 0)
    if done < wanted:
        told = f"Training stopped after {done:,} of {wanted:,} updates; the same command continues it."
    elif done < FEW_UPDATES * usual:
        told = f"Only {done:,} updates: the cpu preset has {usual:,}."
    else:
        return []
    return [{"metric": None, "words": told}]


def _judge_trends(metrics: Mapping[str, Sequence[Sequence[float]]]) -> list[Part]:
    found = []
    for name in LEVELS_OFF:
        change = measure_change(np.mean(metrics[name], axis=0)) if name in metrics else None
        if change is not None:
            way = "rising" if change > 0 else "falling"
            words = f"{name} was still {way} when training ended: more updates would change the policy."
            found.append({"metric": name, "words": words})
    return found


def measure_change(curve: np.ndarray) -> float | None:
    """How far the curve moved at its end, as a share of its range; none if it has levelled off or is mere noise."""
    size = len(curve) // STRETCH
    if size < 2 or (span := float(np.ptp(curve))) == 0.0:
        return None
    before, last = curve[-2 * size : -size], curve[-size:]
    change = float(last.mean() - before.mean())
    noise = float(np.sqrt((before.var() + last.var()) / size))
    return change / span if abs(change) > max(STILL_MOVING * span, 2.0 * noise) else None


def _judge_ends(metrics: Mapping[str, Sequence[Sequence[float]]]) -> list[Part]:
    """What the last values say by themselves."""

    def end(name: str) -> float:
        return float(np.mean([values[-1] for values in metrics[name]])) if name in metrics else np.nan

    searching, careful = end("cost/predicted_of_lspc_o"), end("cost/predicted_of_lspc_s")
    found = []
    if searching > 2.0 * max(careful, 0.5):
        words = f"The cost critic expects {searching:.3g} of LSPC-O's actions and {careful:.3g} of LSPC-S's."
        found.append(("cost/predicted_of_lspc_o", f"{words} Calibrate before trusting LSPC-O."))
    if end("cvae/kl") < 1e-3:
        found.append(("cvae/kl", "The latent space holds no information (cvae/kl is zero): LSPC-O equals LSPC-S."))
    if end("encoder/latents_at_edge") > 0.5:
        words = "More than half of LSPC-O's latents lie at the edge of the box: a larger eps would change it."
        found.append(("encoder/latents_at_edge", words))
    return [{"metric": name, "words": words} for name, words in found]
