"""Random plants whose truth is known: bodies in the plane that are pushed towards a limit which costs something.

A plant is a pytree of numbers, so that hundreds are simulated in one program: linear or not, with a wall or without,
without noise or with much, sparse or dense cost, with early ends or none. Policies are mixtures of a careful
controller and a greedy one; logs come from a spread of clumsier ones.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lspc.calibration.families import PolicyFamily
from lspc.data import Dataset

HORIZON = 80
DT = 0.15
NOISES = {"none": 0.0, "light": 0.15, "medium": 0.5, "heavy": 1.2}
KINDS = ("linear", "nonlinear", "contact")
COSTS = ("sparse", "dense")
LOGS = ("wide", "careful", "greedy")
"""What behaviours the logs are of: all, or from one side only."""
SIZES = (40, 100, 300)
"""Episodes of a log."""


class Plant(NamedTuple):
    """The numbers of one plant; a batch of plants has them along a first axis."""

    coupling: Array
    """(2, 4): acceleration by state."""
    push: Array
    """(2, 2): acceleration by action."""
    bumps: Array
    """Strength of the nonlinear force; 0 is linear."""
    waves: Array
    """(2, 2): where the nonlinear force points."""
    wall: Array
    """How far along the direction of the limit the body can go."""
    noise: Array
    tails: Array
    """1: noise with heavy tails (Student's t with 3 degrees); 0: Gaussian."""
    uneven: Array
    """1: noise grows with speed and distance; 0: the same everywhere."""
    direction: Array
    """(2,): of the limit."""
    limit: Array
    width: Array
    """Over which the cost rises from 0 to 1; near 0 is a sparse cost."""
    crash: Array
    """How far beyond the limit an episode ends."""
    start: Array
    """(2,): where episodes begin on average."""
    careful: Array
    """(2,): where the careful controller wants to be."""
    greedy: Array
    gains: Array
    """(2,): how hard controllers pull and damp."""


class Mixtures(PolicyFamily):
    """From the careful controller (0) to the greedy one (1)."""

    plant: Plant

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def __call__(self, observations: Array, parameters: Array) -> Array:
        share = jnp.broadcast_to(parameters, observations.shape[:-1])[..., None]
        return control(self.plant, observations, share, jnp.ones(2), jnp.zeros(2))


def control(plant: Plant, state: Array, share: Array, stiffer: Array, bias: Array) -> Array:
    """Both controllers pull the body to their target and damp it; their actions are mixed."""
    place, speed = state[..., :2], state[..., 2:]
    pull, damp = plant.gains * stiffer
    matched = [jnp.expand_dims(each, tuple(range(place.ndim - 1))) for each in (plant.careful, plant.greedy, bias)]
    careful, greedy = (jnp.clip(pull * (target - place) - damp * speed, -1.0, 1.0) for target in matched[:2])
    return jnp.clip((1.0 - share) * careful + share * greedy + matched[2], -1.0, 1.0)


def draw_plant(rng: np.random.Generator, kind: str, noise: str, cost: str, ends: bool) -> Plant:
    angle = rng.uniform(0, 2 * np.pi)
    direction = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-direction[1], direction[0]])
    limit = rng.uniform(0.5, 1.5)
    coupling = np.concatenate([-rng.uniform(0.0, 0.6) * np.eye(2), -rng.uniform(0.1, 0.8) * np.eye(2)], axis=1)
    numbers: dict[str, np.ndarray] = {
        "coupling": coupling + rng.normal(0, 0.2, (2, 4)),
        "push": rng.uniform(3.0, 6.0) * (np.eye(2) + rng.normal(0, 0.15, (2, 2))),
        "bumps": np.array(rng.uniform(0.5, 2.0) if kind == "nonlinear" else 0.0),
        "waves": rng.normal(0, 1.5, (2, 2)),
        "wall": np.array(limit + rng.uniform(-0.05, 0.4) if kind == "contact" else 1e3),
        "noise": np.array(NOISES[noise]),
        "tails": np.array(rng.random() < 0.35, float),
        "uneven": np.array(rng.random() < 0.35, float),
        "direction": direction,
        "limit": np.array(limit),
        "width": np.array(1e-3 if cost == "sparse" else rng.uniform(0.2, 0.8)),
        "crash": np.array(rng.uniform(0.15, 0.5) if ends else 1e3),
        "start": -rng.uniform(0.0, 1.0) * direction + rng.normal(0, 0.3) * across,
        "careful": (limit - rng.uniform(0.5, 1.2)) * direction + rng.normal(0, 0.3) * across,
        "greedy": (limit + rng.uniform(0.05, 0.6)) * direction + rng.normal(0, 0.3) * across,
        "gains": np.array([rng.uniform(0.8, 2.5), rng.uniform(0.4, 1.2)]),
    }
    return Plant(*(jnp.asarray(number, jnp.float32) for number in numbers.values()))


def apply(matrix: Array, vector: Array) -> Array:
    """A product of tiny matrices by hand: XLA's own is slow when thousands of them are stacked."""
    return (matrix * vector[None]).sum(-1)


def step(plant: Plant, state: Array, action: Array, shocks: Array) -> tuple[Array, Array, Array, Array]:
    """One body: next state, reward, cost, whether the episode ends."""
    place, speed = state[:2], state[2:]
    shock = plant.noise * jnp.where(plant.tails > 0, shocks[2:4], shocks[:2])
    agitation = jnp.minimum(0.3 + jnp.abs(speed).sum() + 0.5 * jnp.abs(place).sum(), 2.0)
    shock = shock * jnp.where(plant.uneven > 0, agitation, 1.0)
    force = apply(plant.coupling, state) + apply(plant.push, action)
    force = force + plant.bumps * jnp.sin(apply(plant.waves, place))
    speed = speed + DT * force + shock * jnp.sqrt(DT)
    moved = place + DT * speed
    beyond = (plant.direction * moved).sum() - plant.wall
    hits = beyond > 0
    moved = moved - jnp.where(hits, beyond, 0.0) * plant.direction
    speed = speed - jnp.where(hits, 1.4 * jnp.maximum((plant.direction * speed).sum(), 0.0), 0.0) * plant.direction
    along = (plant.direction * moved).sum()
    across = moved - along * plant.direction
    reward = jnp.clip(along, -2.0, 2.0) - 0.3 * jnp.minimum(jnp.sum(across**2), 4.0) - 0.02 * jnp.sum(action**2)
    cost = jnp.clip((along - plant.limit) / plant.width, 0.0, 1.0)
    return jnp.concatenate([moved, speed]), reward, cost, along > plant.limit + plant.crash


class Behaviour(NamedTuple):
    """Who drives an episode of a log."""

    share: Array
    stiffer: Array
    bias: Array
    clumsiness: Array
    """Of its actions, white and slowly wandering alike."""


def draw_behaviours(rng: np.random.Generator, size: int, low: float, high: float) -> Behaviour:
    """`low` and `high` bound the shares."""
    drawn = (
        rng.uniform(low, high, size), rng.uniform(0.6, 1.5, (size, 2)), rng.normal(0, 0.15, (size, 2)),
        rng.uniform(0, 0.4, size),
    )  # fmt: skip
    return Behaviour(*(jnp.asarray(each, jnp.float32) for each in drawn))


def drive(plant: Plant, behaviour: Behaviour, start: Array, shocks: Array) -> dict[str, Array]:
    """One episode, a row for each step; rows after the end are marked by `alive` 0."""

    def advance(
        carry: tuple[Array, Array, Array], shocks: Array
    ) -> tuple[tuple[Array, Array, Array], dict[str, Array]]:
        state, wander, alive = carry
        wander = 0.9 * wander + 0.44 * shocks[4:6]
        meant = control(plant, state, behaviour.share, behaviour.stiffer, behaviour.bias)
        action = jnp.clip(meant + 0.5 * behaviour.clumsiness * (shocks[6:8] + wander), -1.0, 1.0)
        following, reward, cost, ends = step(plant, state, action, shocks)
        row = {
            "observations": state, "actions": action, "rewards": reward, "costs": cost,
            "next_observations": following, "terminated": ends, "alive": alive,
        }  # fmt: skip
        return (following, wander, alive & ~ends), row

    return jax.lax.scan(advance, (start, jnp.zeros(2), jnp.asarray(True)), shocks)[1]


def draw_episodes(rng: np.random.Generator, plant: Plant, episodes: int) -> tuple[Array, Array]:
    """Starts (episodes, 4), and shocks for every step: Gaussian ones, some with heavy tails, the actions'."""
    place = np.concatenate([plant.start, np.zeros(2)])
    starts = place + rng.normal(0, [0.25, 0.25, 0.15, 0.15], (episodes, 4))
    shocks = rng.standard_normal((episodes, HORIZON, 8), np.float32)
    shocks[..., 2:4] = rng.standard_t(3, (episodes, HORIZON, 2)) / np.sqrt(3)
    return jnp.asarray(starts, jnp.float32), jnp.asarray(shocks)


@jax.jit
def _drive_log(plant: Plant, behaviours: Behaviour, starts: Array, shocks: Array) -> dict[str, Array]:
    return jax.vmap(drive, (None, 0, 0, 0))(plant, behaviours, starts, shocks)


@jax.jit
def _drive_policies(plant: Plant, shares: Array, starts: Array, shocks: Array) -> Array:
    """(shares, episodes, 2): reward and cost of whole episodes; the same noise for every policy."""

    def one(share: Array, start: Array, shocks: Array) -> Array:
        still = Behaviour(share, jnp.ones(2), jnp.zeros(2), jnp.zeros(()))
        rows = drive(plant, still, start, shocks)
        alive = rows["alive"].astype(jnp.float32)
        return jnp.stack([(alive * rows["rewards"]).sum(), (alive * rows["costs"]).sum()])

    return jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None))(shares, starts, shocks)


BEHAVIOURS = {"wide": (-0.3, 1.3), "careful": (-0.3, 0.45), "greedy": (0.55, 1.4)}


class Made(NamedTuple):
    """A plant, what it is called by, and the log made on it."""

    plant: Plant
    labels: dict[str, str]
    log: Dataset


def make_plant(number: int, half: int) -> Made:
    """The plant of this number in one half of all, with its log; kinds and noises take turns."""
    rng = np.random.default_rng([half, number])
    labels = {
        "noise": list(NOISES)[number % 4],
        "kind": KINDS[(number // 4) % 3],
        "cost": COSTS[int(rng.integers(2))],
        "ends": ("never", "early")[int(rng.random() < 0.3)],
        "log": LOGS[rng.choice(3, p=[0.6, 0.2, 0.2])],
        "size": str(SIZES[int(rng.integers(3))]),
    }
    plant = draw_plant(rng, labels["kind"], labels["noise"], labels["cost"], labels["ends"] == "early")
    behaviours = draw_behaviours(rng, max(SIZES), *BEHAVIOURS[labels["log"]])
    driven = _drive_log(plant, behaviours, *draw_episodes(rng, plant, max(SIZES)))
    rows: dict[str, np.ndarray] = {name: np.asarray(value) for name, value in driven.items()}
    return Made(plant, labels, _as_dataset(rows, int(labels["size"])))


def _as_dataset(rows: dict[str, np.ndarray], episodes: int) -> Dataset:
    own: dict[str, Any] = {name: value[:episodes] for name, value in rows.items()}
    alive = own.pop("alive")
    truncated = np.zeros_like(alive)
    truncated[:, -1] = True
    own["truncated"] = truncated & ~own["terminated"]
    columns: dict[str, Any] = {name: value[alive] for name, value in own.items()}
    return Dataset(**columns)


def play(plant: Plant, shares: np.ndarray, episodes: int, seed: int) -> np.ndarray:
    """The truth: (shares, episodes, 2), reward and cost of each."""
    starts, shocks = draw_episodes(np.random.default_rng(seed), plant, episodes)
    return np.asarray(_drive_policies(plant, jnp.asarray(shares, jnp.float32), starts, shocks))
