"""The whole calibration in order: hold episodes out, learn dynamics models, check them, try LSPC-O at every eps.

Fitted Q evaluation, which needs no model and tends to see too much cost, is reported beside it and serves the guard.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from lspc.algos.lspc import LspcPolicy
from lspc.calibration import dynamics, fitted_q, storage
from lspc.calibration.choosing import FEWEST_NEAR, Calibration, Point
from lspc.calibration.familiarity import choose_landmarks
from lspc.calibration.families import LspcFamily
from lspc.calibration.margins import Margin, measure_margins, measure_spread
from lspc.calibration.storage import GuardModels
from lspc.data import Dataset
from lspc.errors import UserError

if TYPE_CHECKING:
    from lspc.policy import TrainedPolicy

HELD_OUT = 0.2
"""Share of the episodes that only serve to check the predictions."""
POINTS = 21
"""Values of eps on the curve."""

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, all of it."""


def calibrate_policy(
    policy: "TrainedPolicy",
    dataset: Dataset,
    *,
    dynamics_config: dynamics.Config | None = None,
    fitted_q_config: fitted_q.Config | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> Calibration:
    """Calibrate a loaded policy and leave the result in its folder, where `policy.act(budget=...)` finds it."""
    net = policy.net
    if not isinstance(net, LspcPolicy) or "LSPC-S" not in net.variants:
        raise UserError(f"only LSPC has an eps to choose, and this is a policy of {policy.card['method']}")
    if policy.folder is None:
        raise UserError("a policy that was not loaded from a folder cannot keep a calibration")
    if dataset.fingerprint != policy.card["dataset"]["fingerprint"]:
        raise UserError(f"{dataset.source} is not the data that the policy learned from: their fingerprints differ")
    calibration, models = calibrate(
        net, dataset, training_seed=policy.card["training_seed"], dynamics_config=dynamics_config,
        fitted_q_config=fitted_q_config, seed=seed, on_progress=on_progress,
    )  # fmt: skip
    storage.save(policy.folder, calibration, models)
    return calibration


def calibrate(
    policy: LspcPolicy,
    dataset: Dataset,
    *,
    training_seed: int = 0,
    horizon: int | None = None,
    dynamics_config: dynamics.Config | None = None,
    fitted_q_config: fitted_q.Config | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> tuple[Calibration, GuardModels]:
    """Predict cost and reward over the range of eps, with margins from held-out episodes."""
    model_config, q_config = dynamics_config or dynamics.Config(), fitted_q_config or fitted_q.Config()
    horizon = horizon or int(dataset.lengths.max())
    learned, held_out = split(dataset.scale_actions(), seed)
    report = on_progress or (lambda *_: None)
    family = LspcFamily(policy)
    low, high = family.range
    grid = np.linspace(low, high, POINTS if low < high else 1)

    models = dynamics.fit(
        learned,
        model_config,
        seed=seed,
        on_progress=lambda done: report("dynamics models", done, model_config.updates),
    )
    replays, cost_margin, reward_margin = measure_margins(models, held_out, horizon)
    values = dynamics.roll_out(models, family, dataset.initial_observations, grid, horizon)
    q_ensemble = fitted_q.fit(
        learned, family, q_config, seed=seed, horizon=horizon,
        on_progress=lambda done: report("fitted Q evaluation", done, q_config.updates),
    )  # fmt: skip
    returns = fitted_q.predict_returns(
        q_ensemble, family, jnp.asarray(dataset.initial_observations), jnp.asarray(grid, jnp.float32)
    )
    second_opinion = np.asarray(returns, np.float64).mean(axis=(0, 2))
    largest = horizon * float(dataset.costs.max())
    curve = _draw_curve(grid, values, second_opinion, cost_margin, reward_margin, largest)
    landmarks, limit = choose_landmarks(learned, held_out, seed)
    calibration = Calibration(
        training_seed, dataset.fingerprint, 0.9, horizon, seed, asdict(q_config), curve, replays, cost_margin,
        reward_margin, tuple(np.sort(dataset.cost_returns).tolist()), limit,
    )  # fmt: skip
    return calibration, GuardModels(q_ensemble, jnp.asarray(landmarks))


def _draw_curve(
    grid: np.ndarray,
    values: np.ndarray,
    second_opinion: np.ndarray,
    cost_margin: Margin,
    reward_margin: Margin,
    largest: float,
) -> tuple[Point, ...]:
    """`values` (members, eps, starts, 2) with margins around their means, beside fitted Q evaluation's (eps, 2).

    No cost is below 0 or above `largest`, that of an episode whose every step costs as much as any in the data.
    """
    curve = []
    for i, eps in enumerate(grid):
        reward, cost = values[:, i].mean(axis=(0, 1)).tolist()
        reward_spread, cost_spread = (measure_spread(values[:, i, :, signal]) for signal in (0, 1))
        estimate = cost_margin.around(cost, cost_spread)
        curve.append(
            Point(
                round(float(eps), 6),
                replace(estimate, low=max(0.0, estimate.low), high=min(largest, estimate.high)),
                reward_margin.around(reward, reward_spread),
                fitted_cost=float(second_opinion[i, 1]),
                fitted_reward=float(second_opinion[i, 0]),
            )
        )
    return tuple(curve)


def split(dataset: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Episodes to learn from and episodes to check with, of all costs alike."""
    if len(dataset.episodes) < 2 * FEWEST_NEAR:
        raise UserError(
            f"{dataset.source}: {len(dataset.episodes)} episodes cannot support a calibration; {2 * FEWEST_NEAR} can"
        )
    by_cost = np.lexsort([np.random.default_rng(seed).random(len(dataset.episodes)), dataset.cost_returns])
    every = round(1 / HELD_OUT)
    held_out = np.sort(by_cost[every // 2 :: every])
    learned = np.setdiff1d(np.arange(len(dataset.episodes)), held_out)
    return dataset.select(learned), dataset.select(held_out)
