"""Which eps for which cost budget, from logged data alone, and how sure that is.

LSPC-O is tried at every eps in models of the world that were learned from the data (`dynamics.py`). How far they can
be trusted is measured on held-out episodes: their recorded actions are replayed in the models, and what comes out is
compared with what they really cost. The largest error, relative to the size of the estimate, becomes the margin, and
the spread between the models is added. The largest eps whose upper bound fits a budget is chosen. Fitted Q evaluation
(`fitted_q.py`), which needs no model and tends to see too much cost, is reported beside it and serves the guard.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lspc import checkpoints, files
from lspc.algos.base import Spec
from lspc.algos.lspc import LspcPolicy
from lspc.calibration import dynamics, fitted_q
from lspc.data import Dataset
from lspc.errors import UserError

if TYPE_CHECKING:
    from lspc.policy import TrainedPolicy

FILE, JUDGES = "calibration.json", "judges.safetensors"
HELD_OUT = 0.2
"""Share of the episodes that only serve to check the predictions."""
GROUPS = 10
"""Into which replayed stretches are sorted by the cost that is predicted of them. The next error after n of its kind
is the largest with a chance of 1 in n + 1: ten make a 90 % interval."""
STRETCH = 25
"""Steps that recorded actions are replayed for."""
FEWEST_NEAR = 10
"""Episodes near a budget below which the data cannot say what it takes to keep it."""
POINTS = 21
"""Values of eps on the curve."""
LANDMARKS = 2_000
"""States of the data that stand for all of them when a state is judged familiar or not."""


class Evidence(eqx.Module):
    """What predictions are made with; it travels with the policy, for the guard."""

    judges: fitted_q.Judge
    landmarks: Float[Array, "landmarks observation"]


@dataclass(frozen=True)
class Estimate:
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Point:
    """What is predicted of LSPC-O at one eps, for whole episodes and undiscounted."""

    restriction: float
    cost: Estimate
    reward: Estimate
    fitted_cost: float
    """By fitted Q evaluation: a second opinion."""
    fitted_reward: float


@dataclass(frozen=True)
class Replay:
    """A group of held-out stretches: what was predicted and what was true, scaled to a whole episode."""

    stretches: int
    cost: float
    predicted_cost: float
    reward: float
    predicted_reward: float


@dataclass(frozen=True)
class Margin:
    """An estimate m may be off by `share` of (m's size + unit), and by twice the spread between the models."""

    share: float
    unit: float

    def around(self, mean: float, spread: float) -> Estimate:
        off = self.share * (abs(mean) + self.unit) + 2.0 * spread
        return Estimate(mean, mean - off, mean + off)


@dataclass(frozen=True)
class Choice:
    """The answer for one budget; `restriction` is none when there is none, and `why` says so in words."""

    budget: float
    restriction: float | None
    cost: Estimate | None
    reward: Estimate | None
    why: str


@dataclass(frozen=True)
class Calibration:
    training_seed: int
    dataset: str
    """Fingerprint of the data it was made from."""
    confidence: float
    horizon: int
    seed: int
    settings: dict[str, Any]
    """Of the fitted Q evaluation."""
    curve: tuple[Point, ...]
    replays: tuple[Replay, ...]
    cost_margin: Margin
    reward_margin: Margin
    episode_costs: tuple[float, ...]
    """Of the data, in order: they tell which budgets can be spoken of."""
    familiar_within: float
    """Distance to the nearest landmark beyond which a state is not like the data's."""

    def choose(self, budget: float) -> Choice:
        """The largest eps whose upper bound fits the budget."""
        if not math.isfinite(budget) or budget < 0:
            raise UserError(f"a budget must be a number of 0 or more, not {budget}")
        near = int(np.sum(np.asarray(self.episode_costs) <= max(2.0 * budget, budget + self.cost_margin.unit)))
        if near < FEWEST_NEAR:
            return Choice(
                budget, None, None, None,
                f"the data cannot tell: only {near} of {len(self.episode_costs)} episodes cost about {budget:g} or "
                f"less ({FEWEST_NEAR} are needed); add safer episodes or raise the budget",
            )  # fmt: skip
        fitting = [point for point in self.curve if point.cost.high <= budget]
        if not fitting:
            safest = min(self.curve, key=lambda point: point.cost.high)
            return Choice(
                budget, None, None, None,
                f"no eps fits: even eps {safest.restriction:g} may cost {safest.cost.high:.3g} "
                f"(predicted {safest.cost.mean:.3g}); LSPC-S, the guard or a larger budget are what is left",
            )  # fmt: skip
        best = max(fitting, key=lambda point: point.restriction)
        why = (
            f"eps {best.restriction:.3g}: predicted cost {best.cost.mean:.3g} "
            f"({self.confidence:.0%}: {best.cost.low:.3g} to {best.cost.high:.3g}), "
            f"reward {best.reward.mean:.4g} ({best.reward.low:.4g} to {best.reward.high:.4g})"
        )
        if best.restriction == self.curve[-1].restriction:
            why += "; the largest eps there is"
        return Choice(budget, best.restriction, best.cost, best.reward, why)


def calibrate(
    policy: LspcPolicy,
    dataset: Dataset,
    *,
    training_seed: int = 0,
    horizon: int | None = None,
    worlds: dynamics.Config | None = None,
    fitted: fitted_q.Config | None = None,
    seed: int = 0,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Calibration, Evidence]:
    """Predict cost and reward over the range of eps, with margins from held-out episodes."""
    worlds, fitted = worlds or dynamics.Config(), fitted or fitted_q.Config()
    horizon = horizon or int(dataset.lengths.max())
    learned, held_out = split(dataset, seed)
    report = on_progress or (lambda *_: None)
    family = fitted_q.Restricted(policy)
    low, high = family.range
    grid = np.linspace(low, high, POINTS if low < high else 1)

    models = dynamics.fit(
        learned, worlds, seed=seed, on_progress=lambda done: report("models of the world", done, worlds.updates)
    )
    replays, cost_margin, reward_margin = replay_margins(models, held_out, horizon)
    values = dynamics.rolled_out(models, family, dataset.initial_observations, grid, horizon)
    judges = fitted_q.fit(
        learned, family, fitted, seed=seed, horizon=horizon,
        on_progress=lambda done: report("fitted Q evaluation", done, fitted.updates),
    )  # fmt: skip
    opinions = fitted_q.judged(
        judges, family, jnp.asarray(dataset.initial_observations), jnp.asarray(grid, jnp.float32)
    )
    opinion = np.asarray(opinions, np.float64).mean(axis=(0, 2))
    curve = []
    for i, eps in enumerate(grid):
        (reward, cost), (reward_spread, cost_spread) = values[:, i].mean(0).tolist(), values[:, i].std(0).tolist()
        cost_estimate = cost_margin.around(cost, cost_spread)
        curve.append(
            Point(round(float(eps), 6), replace(cost_estimate, low=max(0.0, cost_estimate.low)),
                  reward_margin.around(reward, reward_spread), float(opinion[i, 1]), float(opinion[i, 0]))
        )  # fmt: skip
    landmarks, limit = familiar_states(learned, held_out, seed)
    calibration = Calibration(
        training_seed, dataset.fingerprint, 0.9, horizon, seed, asdict(fitted), tuple(curve),
        replays, cost_margin, reward_margin, tuple(np.sort(dataset.cost_returns).tolist()), limit,
    )  # fmt: skip
    return calibration, Evidence(judges, jnp.asarray(landmarks))


def save(folder: str | Path, calibration: Calibration, evidence: Evidence) -> None:
    """Put both beside the policy they speak of."""
    checkpoints.write(Path(folder) / JUDGES, evidence, {"dataset": calibration.dataset})
    files.write_json(Path(folder) / FILE, asdict(calibration))


def load(folder: str | Path) -> Calibration:
    path = Path(folder) / FILE
    if not path.exists():
        raise UserError(f"{folder} has no calibration: run `lspc calibrate` on its run first")
    values = files.read_json(path)
    try:
        points = [
            Point(**{**p, "cost": Estimate(**p["cost"]), "reward": Estimate(**p["reward"])}) for p in values["curve"]
        ]
        return Calibration(**{
            **values,
            "curve": tuple(points),
            "replays": tuple(Replay(**replay) for replay in values["replays"]),
            "cost_margin": Margin(**values["cost_margin"]),
            "reward_margin": Margin(**values["reward_margin"]),
            "episode_costs": tuple(values["episode_costs"]),
        })  # fmt: skip
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: not a calibration that this version of lspc can read ({error})") from error


def load_evidence(folder: str | Path, calibration: Calibration, spec: Spec) -> Evidence:
    config = fitted_q.Config(**{**calibration.settings, "hidden": tuple(calibration.settings["hidden"])})
    eps = [point.restriction for point in calibration.curve]

    def blank() -> Evidence:
        judge = fitted_q.blank(spec, config, eps[0], eps[-1], calibration.horizon)
        judges = jax.tree.map(lambda leaf: jnp.zeros((config.members, *leaf.shape)), judge)
        return Evidence(judges, jnp.zeros((LANDMARKS, spec.observation_dim)))

    return checkpoints.read(Path(folder) / JUDGES, eqx.filter_eval_shape(blank))


def calibrate_policy(
    policy: "TrainedPolicy",
    dataset: Dataset,
    *,
    worlds: dynamics.Config | None = None,
    fitted: fitted_q.Config | None = None,
    seed: int = 0,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Calibration:
    """Calibrate a loaded policy and leave the result in its folder, where `policy.act(budget=...)` finds it."""
    net = policy.net
    if not isinstance(net, LspcPolicy) or "LSPC-S" not in net.variants:
        raise UserError(f"only LSPC has an eps to choose, and this is a policy of {policy.card['method']}")
    if policy.folder is None:
        raise UserError("a policy that was not loaded from a folder cannot keep a calibration")
    if dataset.fingerprint != policy.card["dataset"]["fingerprint"]:
        raise UserError(f"{dataset.source} is not the data that the policy learned from: their fingerprints differ")
    found, evidence = calibrate(
        net, dataset, training_seed=policy.card["training_seed"], worlds=worlds, fitted=fitted, seed=seed,
        on_progress=on_progress,
    )  # fmt: skip
    save(policy.folder, found, evidence)
    return found


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


def replay_margins(
    models: dynamics.World, held_out: Dataset, horizon: int
) -> tuple[tuple[Replay, ...], Margin, Margin]:
    """Held-out stretches sorted by predicted cost and grouped, and the margins that their errors ask for."""
    stretch = min(STRETCH, int(held_out.lengths.max()))
    predicted, true = dynamics.replayed(models, held_out, stretch)
    scale, groups = horizon / stretch, np.array_split(np.argsort(predicted.mean(0)[:, 1], kind="stable"), GROUPS)
    groups = [group for group in groups if len(group)]
    spreads = [scale * predicted[:, group].mean(axis=1).std(axis=0) for group in groups]
    found = []
    for group in groups:
        (reward, cost), (known_reward, known_cost) = predicted[:, group].mean((0, 1)), true[group].mean(0)
        found.append(Replay(len(group), *(float(scale * x) for x in (known_cost, cost, known_reward, reward))))
    # A cost near zero must be told to within a step's; a reward, to within a share of what episodes usually earn.
    units = float(held_out.costs.max()), float(np.mean([abs(replay.reward) for replay in found]))
    return (
        tuple(found),
        margin([(r.cost, r.predicted_cost) for r in found], [s[1] for s in spreads], max(units[0], 1e-6)),
        margin([(r.reward, r.predicted_reward) for r in found], [s[0] for s in spreads], max(units[1], 1e-6)),
    )


def margin(pairs: Sequence[tuple[float, float]], spreads: Sequence[float], unit: float) -> Margin:
    """The largest relative error among (true, predicted) pairs, beyond what their spread explains."""
    errors = [
        max(0.0, abs(true - predicted) - 2.0 * spread) / (abs(predicted) + unit)
        for (true, predicted), spread in zip(pairs, spreads, strict=True)
    ]
    return Margin(float(max(errors)), unit)


def familiar_states(learned: Dataset, held_out: Dataset, seed: int) -> tuple[np.ndarray, float]:
    """Some states of the data, and the distance to the nearest that one in a thousand unseen states exceeds."""
    rng = np.random.default_rng(seed)
    landmarks = learned.observations[rng.integers(learned.transitions, size=LANDMARKS)]
    asked = held_out.observations[rng.integers(held_out.transitions, size=4 * LANDMARKS)]
    std = learned.statistics.observation_std
    distances = np.concatenate([nearest_distance(part / std, landmarks / std) for part in np.array_split(asked, 16)])
    return landmarks, float(np.quantile(distances, 0.999))


def nearest_distance(asked: Array | np.ndarray, landmarks: Array | np.ndarray) -> Array:
    squares = (asked**2).sum(-1)[..., None] - 2 * asked @ landmarks.T + (landmarks**2).sum(-1)
    return jnp.sqrt(jnp.maximum(squares.min(-1), 0.0))
