"""The whole calibration in order: learn models of the plant, check them on episodes they have not seen, try policies.

Fitted Q evaluation, which needs no model and tends to see too much cost, is reported beside it and serves the guard.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from lspc.algos.lspc import LspcPolicy
from lspc.calibration import closed_loop, dynamics, fitted_q, storage
from lspc.calibration.choosing import FEWEST_NEAR, RISKS, RULES, Calibration, Estimate, Point
from lspc.calibration.familiarity import choose_landmarks
from lspc.calibration.families import LspcFamily, PolicyFamily
from lspc.calibration.margins import (
    Frontier,
    Margin,
    Replay,
    find_doubt,
    measure_margins,
    measure_reach,
    measure_shown,
    measure_spread,
)
from lspc.calibration.storage import GuardModels
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.version import __version__

if TYPE_CHECKING:
    from lspc.policy import TrainedPolicy

POINTS = 21
"""Values of eps on the curve."""
FOLDS = 5
"""One in so many episodes sets the distance within which a state is familiar to the guard."""

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
        net, dataset, training_seed=policy.card["training_seed"],
        held_out=policy.card["dataset"].get("held_out", 0.0), dynamics_config=dynamics_config,
        fitted_q_config=fitted_q_config, seed=seed, on_progress=on_progress,
    )  # fmt: skip
    storage.save(policy.folder, calibration, models)
    return calibration


class OffPolicyEvaluator(NamedTuple):
    """Models of a plant, and how far to trust them: what policies are evaluated with, from data alone."""

    models: dynamics.DynamicsModel
    replays: tuple[Replay, ...]
    cost_margin: Margin
    reward_margin: Margin
    reach: float
    """How far steps may lead beyond the range of the data, on average, before nothing can be said of a policy."""
    shown: float
    """The largest predicted cost that the data know enough of."""
    frontier: Frontier
    """Of recorded episodes: who is predicted to earn as much for less cost than any of them is not believed."""
    starts: np.ndarray
    """First observations of episodes."""
    horizon: int
    largest: float
    """The cost of an episode whose every step costs as much as any in the data."""
    seed: int
    doubt: str = ""
    """Why its estimates cannot be relied on, whatever the policy."""

    def estimate(self, family: PolicyFamily, parameters: np.ndarray) -> list[Estimate]:
        """What each policy of the family costs and earns, closed loop over the whole horizon."""
        rolled = dynamics.roll_out(self.models, family, self.starts, parameters, self.horizon, seed=self.seed)
        return [self._summarise(rolled.values[:, i], rolled.strayed[i]) for i in range(len(parameters))]

    def _summarise(self, values: Float[np.ndarray, "members starts 2"], strayed: float) -> Estimate:
        """A policy that leaves the data may cost anything."""
        reward, cost = values.mean(axis=(0, 1)).tolist()
        beyond = not (strayed <= self.reach and min(cost, self.largest) <= self.shown)
        reward_spread, cost_spread = (measure_spread(values[..., signal]) for signal in (0, 1))
        around = self.cost_margin.around(cost, cost_spread)
        least = self.largest if beyond else self.frontier.cheapest(reward)
        high = min(self.largest, max(least, around.high))
        tails: dict[str, float] = {}
        for risk in sorted(RISKS, reverse=True):  # what is exceeded more rarely costs no less, whatever the margins
            least = max(least, self._bound_tail(values[..., 1], risk))
            tails = {f"{risk:g}": min(self.largest, least)} | tails
        interval = replace(around, low=0.0, high=high)  # only what it costs at most is asked, and checked
        return Estimate(interval, self.reward_margin.around(reward, reward_spread), tails, beyond)

    def _bound_tail(self, costs: Float[np.ndarray, "members starts"], risk: float) -> float:
        """Of the cost that an episode exceeds with this chance."""
        each = np.quantile(costs, 1 - risk, axis=1, method="higher")
        return self.cost_margin.around(float(each.mean()), float(each.std(ddof=1))).high


def fit_evaluator(
    dataset: Dataset,
    *,
    held_out: float = 0.0,
    horizon: int | None = None,
    config: dynamics.Config | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> OffPolicyEvaluator:
    """Models of the plant the data come from, checked on episodes they have not seen.

    `held_out` is the share of episodes that the policies have not seen: no model learns from them either.
    """
    config, horizon = config or dynamics.Config(), horizon or int(dataset.lengths.max())
    report = on_progress or (lambda *_: None)
    unseen = share_out(dataset, config.members, held_out, seed)
    models = dynamics.fit(
        dataset, config, unseen, seed=seed, on_progress=lambda done: report("dynamics models", done, config.updates)
    )
    driven = closed_loop.drive_again(models, dataset, unseen, horizon, seed=seed)
    largest = float(dataset.costs.max())
    replays, cost_margin, reward_margin = measure_margins(driven, largest, config.members)
    reach, shown = measure_reach(driven), measure_shown(dataset.cost_returns, largest)
    starts = gather_starts(dataset, horizon)
    return OffPolicyEvaluator(
        models, replays, cost_margin, reward_margin, reach, shown, find_frontier(dataset, horizon), starts, horizon,
        horizon * largest, seed, find_doubt(driven),
    )  # fmt: skip


def calibrate(
    policy: LspcPolicy,
    dataset: Dataset,
    *,
    training_seed: int = 0,
    held_out: float = 0.0,
    horizon: int | None = None,
    dynamics_config: dynamics.Config | None = None,
    fitted_q_config: fitted_q.Config | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> tuple[Calibration, GuardModels]:
    """Predict cost and reward over the range of eps, with margins from episodes that the models have not seen."""
    q_config, scaled = fitted_q_config or fitted_q.Config(), dataset.scale_actions()
    horizon = horizon or int(dataset.lengths.max())
    report = on_progress or (lambda *_: None)
    family = LspcFamily(policy)
    low, high = family.range
    grid = np.linspace(low, high, POINTS if low < high else 1)
    evaluator = fit_evaluator(
        scaled, held_out=held_out, horizon=horizon, config=dynamics_config, seed=seed, on_progress=on_progress
    )
    estimates = evaluator.estimate(family, grid)
    unseen = share_out(scaled, FOLDS, held_out, seed)[0]
    learned, checked = scaled.select(np.flatnonzero(~unseen)), scaled.select(np.flatnonzero(unseen))
    q_ensemble = fitted_q.fit(
        learned, family, q_config, seed=seed, horizon=horizon,
        on_progress=lambda done: report("fitted Q evaluation", done, q_config.updates),
    )  # fmt: skip
    returns = fitted_q.predict_returns(
        q_ensemble, family, jnp.asarray(evaluator.starts), jnp.asarray(grid, jnp.float32)
    )
    curve = tuple(
        Point(round(float(eps), 6), estimate.cost, estimate.reward, fitted_cost, fitted_reward, *estimate[2:])
        for eps, estimate, (fitted_reward, fitted_cost) in zip(
            grid, estimates, np.asarray(returns, np.float64).mean(axis=(0, 2)).tolist(), strict=True
        )
    )
    landmarks, limit = choose_landmarks(learned, checked, seed)
    calibration = Calibration(
        training_seed, dataset.fingerprint, 0.9, horizon, seed, asdict(q_config), curve, evaluator.replays,
        evaluator.cost_margin, evaluator.reward_margin, tuple(np.sort(dataset.cost_returns).tolist()), limit,
        __version__, evaluator.doubt, RULES,
    )  # fmt: skip
    return calibration, GuardModels(q_ensemble, jnp.asarray(landmarks))


def gather_starts(dataset: Dataset, horizon: int) -> np.ndarray:
    """First observations of whole episodes, if there are enough: a log that was cut where samples were lost goes on
    in the middle of an episode, from where no policy can be tried over all of its steps."""
    whole = are_whole(dataset, horizon)
    return dataset.initial_observations[whole] if whole.sum() >= FEWEST_NEAR else dataset.initial_observations


def find_frontier(dataset: Dataset, horizon: int) -> Frontier:
    """Of whole episodes, if there are enough; else of all, each as if it had gone on as it was."""
    whole = are_whole(dataset, horizon)
    if whole.sum() >= FEWEST_NEAR:
        return Frontier.of(dataset.returns[whole], dataset.cost_returns[whole])
    scale = horizon / dataset.lengths
    return Frontier.of(dataset.returns * scale, dataset.cost_returns * scale)


def are_whole(dataset: Dataset, horizon: int) -> Bool[np.ndarray, " episodes"]:
    last = np.array([episode.stop - 1 for episode in dataset.episodes])
    return (dataset.lengths >= horizon) | dataset.terminated[last]


def share_out(dataset: Dataset, members: int, held_out: float, seed: int) -> Bool[np.ndarray, "members episodes"]:
    """Which episodes each member does not see: one in so many, of all costs alike, and those held out from all."""
    if len(dataset.episodes) < 2 * FEWEST_NEAR:
        raise UserError(
            f"{dataset.source}: {len(dataset.episodes)} episodes cannot support a calibration; {2 * FEWEST_NEAR} can"
        )
    by_cost = np.lexsort([np.random.default_rng(seed).random(len(dataset.episodes)), dataset.cost_returns])
    turn = np.empty(len(by_cost), int)
    turn[by_cost] = np.arange(len(by_cost)) % members
    unseen = turn[None] == np.arange(members)[:, None]
    unseen[:, dataset.hold_out(held_out)] = True
    return unseen
