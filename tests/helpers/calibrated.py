"""Calibrations made by hand, whose choices are known in the head, and small policies to go with them."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lspc import algos, calibration, training
from lspc.algos.base import Spec
from lspc.algos.lspc import LspcPolicy
from lspc.calibration import dynamics, ensemble, fitted_q
from lspc.calibration.choosing import RISKS, RULES, Calibration, Point
from lspc.calibration.familiarity import LANDMARKS
from lspc.calibration.margins import Margin, Replay
from lspc.calibration.storage import GuardModels
from lspc.data import Dataset
from lspc.runs.statistics import Interval
from lspc.tasks import get_task

HORIZON = 50
SMALL_FITTED_Q = fitted_q.Config(updates=20, members=2, batch_size=32, hidden=(8,))
SMALL_DYNAMICS = dynamics.Config(updates=20, members=2, batch_size=32, hidden=(8,))
UPPER = {0.02: 6.0, 0.5: 12.0, 1.0: 18.0, 2.0: 60.0}
"""The upper bound of the cost at each eps of a calibration made by hand."""


def point(eps: float, high: float) -> Point:
    return Point(
        eps, Interval(high / 2, high / 4, high), Interval(100 * eps, 90 * eps, 110 * eps), high / 2, 100 * eps
    )


def made(**changes: Any) -> Calibration:
    """Budget 12 takes eps 0.5, budget 20 eps 1; half of the data's episodes cost at most 25."""
    values: dict[str, Any] = {
        "training_seed": 0,
        "dataset": "f" * 64,
        "confidence": 0.9,
        "horizon": HORIZON,
        "seed": 0,
        "settings": asdict(SMALL_FITTED_Q),
        "curve": tuple(point(eps, high) for eps, high in UPPER.items()),
        "replays": (Replay(5, 10.0, 12.0, 140.0, 150.0), Replay(5, 30.0, 27.0, 160.0, 150.0)),
        "cost_margin": Margin(share=0.0, unit=1.0),
        "reward_margin": Margin(share=0.1, unit=1.0),
        "episode_costs": tuple(float(cost) for cost in range(50)),
        "familiar_within": 100.0,
        "rules": RULES,
    }
    return Calibration(**(values | changes))


def with_tails() -> tuple[Point, ...]:
    """The same curve where few episodes cost half more than the mean's bound: by risk, budget 12 takes eps 0.02."""
    return tuple(replace(p, tails={f"{risk:g}": 1.5 * p.cost.high for risk in RISKS}) for p in made().curve)


def constant_fitted_q(spec: Spec, costs: Sequence[float], horizon: int = HORIZON) -> fitted_q.FittedQ:
    """An ensemble whose networks are zero but for the last bias: each expects its own cost at every step to come."""

    def one(cost: float) -> fitted_q.FittedQ:
        member = fitted_q.make_skeleton(spec, SMALL_FITTED_Q, 0.02, 2.0, horizon)
        nothing = jax.tree.map(jnp.zeros_like, member.net)
        net = eqx.tree_at(lambda n: n.layers[-1].bias, nothing, jnp.asarray([0.0, cost]))
        parts = net, jnp.ones(2), jnp.full(2, -100.0), jnp.full(2, 100.0)
        return eqx.tree_at(lambda q: (q.net, q.units, q.lowest, q.highest), member, parts)

    return ensemble.stack([one(cost) for cost in costs])


@cache
def guard_models(spec: Spec, costs: tuple[float, ...] = (0.25, 0.25), horizon: int = HORIZON) -> GuardModels:
    """Constant predictions, and the data's mean as the one familiar state."""
    landmarks = jnp.tile(jnp.asarray(spec.observation_mean), (LANDMARKS, 1))
    return GuardModels(constant_fitted_q(spec, costs, horizon), landmarks)


def untrained(dataset: Dataset, seed: int = 0, **settings: Any) -> LspcPolicy:
    """A small LSPC policy with weights drawn so that its variants act in plainly different ways."""
    config = algos.get("lspc").Config(**({"hidden": (16, 16), "latent_dim": 4} | settings))
    return _scaled_policy(Spec.of(dataset), config, seed)


@cache
def _scaled_policy(spec: Spec, config: Any, seed: int) -> LspcPolicy:
    method = algos.get("lspc")
    net = method.policy(method.init(jax.random.key(seed), spec, config))
    return jax.tree.map(lambda leaf: 2.0 * leaf if leaf.ndim == 2 else leaf, net)


def finished_run(dataset: Dataset, out: Path, **settings: Any) -> Path:
    """What training leaves, after ten updates."""
    config = algos.get("lspc").Config(
        **({"steps": 10, "batch_size": 32, "hidden": (8, 8), "latent_dim": 4} | settings)
    )
    return training.train(dataset, out, config, task=get_task("BallRun"))


def add_calibration(run: Path, dataset: Dataset, **changes: Any) -> Calibration:
    """Leave a calibration made by hand where `lspc calibrate` leaves its own."""
    found = made(**{"dataset": dataset.fingerprint, **changes})
    calibration.save(run / "policy" / "seed-0", found, guard_models(Spec.of(dataset)))
    return found


def observations(size: int, dataset: Dataset, seed: int = 0) -> np.ndarray:
    """Raw observations of the data's spread and beyond it."""
    rng = np.random.default_rng(seed)
    statistics = dataset.statistics
    drawn = rng.normal(size=(size, dataset.observation_dim)) * 2.0 * statistics.observation_std
    return (drawn + statistics.observation_mean).astype(np.float32)
