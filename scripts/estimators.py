"""Who predicts a policy's cost best? Standard off-policy estimators beside ours, on plants whose truth is known.

python scripts/estimators.py measure --number 156     # the design plants of scripts/coverage.py
python scripts/estimators.py table                    # the table of docs/calibration.md

What SCOPE-RL and d3rlpy offer, written here in a few lines each: the direct method (fitted Q evaluation), importance
sampling by trajectory and by decision, doubly robust, and the self-normalised forms. The probabilities of recorded
actions are not in a log, so a Gaussian is fitted to them; a deterministic policy's action counts with a kernel around
it, as in SCOPE-RL. Marginal importance sampling with such features is the direct method (Duan, Jia and Wang, 2020).
"""

import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import jax.numpy as jnp
import numpy as np
import plants
import tyro

from lspc import files
from lspc.calibration import fitted_q
from lspc.calibration.pipeline import fit_evaluator
from lspc.data import Dataset
from lspc.version import __version__

RECORDS = Path(__file__).parents[1] / "results" / "calibration" / "estimators.json"
SHARES = np.linspace(0, 1, 6)
"""The policies: mixtures of the careful controller and the greedy one."""
KERNEL = 0.3
"""Width of the kernel around a policy's action, of a range from -1 to 1."""
FEATURES = 60
"""Random ones, of a state or of a state and an action."""
SMALL_Q = fitted_q.Config(updates=2000, members=2, batch_size=128, hidden=(32, 32), learning_rate=5e-3)
NAMES = {
    "lspc": "models of the plant (`lspc calibrate`)",
    "fitted_q": "fitted Q evaluation by networks (`lspc calibrate`'s second opinion)",
    "direct": "direct method: fitted Q evaluation by least squares",
    "trajectory": "importance sampling by trajectory",
    "trajectory_sn": "the same, self-normalised",
    "decision": "importance sampling by decision",
    "decision_sn": "the same, self-normalised",
    "robust": "doubly robust",
    "robust_sn": "the same, self-normalised",
    "log": "mean cost of the log, whatever the policy",
}


class Rows(NamedTuple):
    """A log as (episodes, steps, ...); `alive` is 0 after an end."""

    states: np.ndarray
    actions: np.ndarray
    costs: np.ndarray
    following: np.ndarray
    goes_on: np.ndarray
    alive: np.ndarray


def spread_out(log: Dataset) -> Rows:
    shape = (len(log.episodes), plants.HORIZON)
    place = np.repeat(np.arange(shape[0]), log.lengths), np.concatenate([np.arange(n) for n in log.lengths])

    def fill(values: np.ndarray) -> np.ndarray:
        out = np.zeros((*shape, *values.shape[1:]))
        out[place] = values
        return out

    columns = log.observations, log.actions, log.costs, log.next_observations, ~log.terminated
    return Rows(*(fill(column) for column in (*columns, np.ones(log.transitions))))


class Features:
    """A constant, the inputs, and random hyperbolic tangents of them."""

    def __init__(self, inputs: np.ndarray, rng: np.random.Generator) -> None:
        self.mean, self.std = inputs.mean(0), inputs.std(0) + 1e-6
        self.directions = rng.normal(size=(inputs.shape[1], FEATURES)) * 1.5 / np.sqrt(inputs.shape[1])
        self.offsets = rng.normal(size=FEATURES)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        scaled = np.clip((inputs - self.mean) / self.std, -5, 5)
        return np.concatenate(
            [np.ones((*scaled.shape[:-1], 1)), scaled, np.tanh(scaled @ self.directions + self.offsets)], -1
        )


def make_solver(features: np.ndarray) -> np.ndarray:
    """What least squares multiplies the targets by."""
    ridge = 1e-4 * len(features) * np.eye(features.shape[1])
    return np.linalg.solve(features.T @ features + ridge, features.T)


def density(actions: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Logarithm of a Gaussian's, over all features of the action."""
    return (-0.5 * ((actions - mean) / std) ** 2 - np.log(std)).sum(-1)


def estimate(log: Dataset, plant: plants.Plant, seed: int) -> dict[str, list[float]]:
    """The mean cost of an episode of each policy, by each estimator."""
    rng, rows, policy = np.random.default_rng(seed), spread_out(log), plants.Mixtures(plant)
    inside = rows.alive > 0
    behaviour = Features(rows.states[inside], rng)
    seen = behaviour(rows.states[inside])
    weights = make_solver(seen) @ rows.actions[inside]
    std = (rows.actions[inside] - seen @ weights).std(0) + 1e-3
    recorded = density(rows.actions, behaviour(rows.states) @ weights, std)
    values = Features(np.concatenate([rows.states, rows.actions], -1)[inside], rng)
    solver = make_solver(values(np.concatenate([rows.states, rows.actions], -1)[inside]))
    found: dict[str, list[float]] = {}
    for share in SHARES:
        meant, then = (
            np.asarray(policy(jnp.asarray(each), jnp.asarray(share)), float) for each in (rows.states, rows.following)
        )
        ratio = np.where(inside, density(rows.actions, meant, np.full(2, KERNEL)) - recorded, 0.0)
        for name, told in weigh(rows, ratio, *fit_values(rows, meant, then, values, solver)).items():
            found.setdefault(name, []).append(told)
    return found


def fit_values(
    rows: Rows, meant: np.ndarray, then: np.ndarray, features: Features, solver: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cost to come of recorded actions and of the policy's own, (episodes, steps): step by step from the last."""
    inside, largest = rows.alive > 0, rows.costs.max()
    taken, own, following = (
        features(np.concatenate(pair, -1))
        for pair in ((rows.states, rows.actions), (rows.states, meant), (rows.following[inside], then[inside]))
    )
    q, v = np.zeros(inside.shape), np.zeros((inside.shape[0], inside.shape[1] + 1))
    to_come = np.zeros(int(inside.sum()))
    for step in reversed(range(plants.HORIZON)):
        most = largest * (plants.HORIZON - step)
        learned = solver @ (rows.costs[inside] + rows.goes_on[inside] * to_come)
        q[:, step], v[:, step] = (np.clip(each[:, step] @ learned, 0, most) for each in (taken, own))
        to_come = np.clip(following @ learned, 0, most)
    return q * inside, v[:, :-1] * inside


def weigh(rows: Rows, ratio: np.ndarray, q: np.ndarray, v: np.ndarray) -> dict[str, float]:
    """The estimators, from the logarithm of each step's importance and the values of the direct method."""
    so_far = np.cumsum(ratio, axis=1)
    plain = np.exp(np.minimum(so_far, 300.0))
    normalised = np.exp(so_far - so_far.max(axis=0))
    normalised *= len(plain) / normalised.sum(axis=0)
    following = np.concatenate([v[:, 1:], np.zeros_like(v[:, :1])], axis=1)
    surprise = rows.alive * (rows.costs + following - q)
    total, start = rows.costs.sum(1), float(v[:, 0].mean())
    return {
        "direct": start,
        "trajectory": float((plain[:, -1] * total).mean()),
        "trajectory_sn": float((normalised[:, -1] * total).mean()),
        "decision": float((plain * rows.costs).sum(1).mean()),
        "decision_sn": float((normalised * rows.costs).sum(1).mean()),
        "robust": start + float((plain * surprise).sum(1).mean()),
        "robust_sn": start + float((normalised * surprise).sum(1).mean()),
        "log": float(total.mean()),
    }


def measure(number: int = 156) -> None:
    """Every estimator on so many plants; goes on where it stopped."""
    known: list[dict[str, Any]] = files.read_json(RECORDS)["plants"] if RECORDS.exists() else []
    for place in range(len(known), number):
        made = plants.make_plant(place, coverage.SEEDS["design"])
        truth = plants.play(made.plant, SHARES, coverage.EPISODES, place)[..., 1].mean(1)
        family = plants.Mixtures(made.plant)
        told = estimate(made.log, made.plant, place)
        told["lspc"] = [
            each.cost.mean for each in fit_evaluator(made.log, config=coverage.SMALL).estimate(family, SHARES)
        ]
        told["fitted_q"] = predict_by_networks(made.log, family)
        # Nobody believes a cost that no episode can have.
        rounded = {name: np.clip(values, 0, plants.HORIZON).round(2).tolist() for name, values in told.items()}
        known.append({"labels": made.labels, "true": truth.round(2).tolist(), "estimates": rounded})
        if place % 6 == 5 or place == number - 1:
            command = shlex.join(["python", "scripts/estimators.py", *sys.argv[1:]])
            files.write_json(
                RECORDS, files.as_json({"lspc_version": __version__, "command": command, "plants": known})
            )
            print(f"{place + 1} of {number}", flush=True)


def predict_by_networks(log: Dataset, family: plants.Mixtures) -> list[float]:
    learned = fitted_q.fit(log, family, SMALL_Q, horizon=plants.HORIZON)
    starts, shares = jnp.asarray(log.initial_observations), jnp.asarray(SHARES, jnp.float32)
    returns = fitted_q.predict_returns(learned, family, starts, shares)
    return np.asarray(returns, float)[..., 1].mean(axis=(0, 2)).tolist()


def table() -> None:
    """Distance to the true mean cost of an episode: its mean and median, and by what the log holds."""
    known = files.read_json(RECORDS)["plants"]
    logs = {name: np.array([plant["labels"]["log"] == name for plant in known]) for name in plants.LOGS}
    noisy = np.array([plant["labels"]["noise"] in ("medium", "heavy") for plant in known])
    true = np.array([plant["true"] for plant in known])
    print(
        f"{len(known)} plants, {len(SHARES)} policies; true cost {true.mean():.1f} of {plants.HORIZON} on average\n"
    )
    print(
        "| estimator | mean error | median | bias | "
        + " | ".join(f"log: {name}" for name in logs)
        + " | much noise |"
    )
    print("|---|---|---|---|" + "---|" * (len(logs) + 1))
    for name, words in NAMES.items():
        off = np.array([plant["estimates"][name] for plant in known]) - true
        error = np.abs(off)
        parts = [error.mean(), np.median(error), off.mean(), *(error[own].mean() for own in logs.values())]
        print(f"| {words} | " + " | ".join(f"{part:.3g}" for part in [*parts, error[noisy].mean()]) + " |")


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"measure": measure, "table": table})
