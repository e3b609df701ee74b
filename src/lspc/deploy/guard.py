"""The run-time guard: LSPC-O while the budget that is left can bear it, LSPC-S otherwise.

At each step fitted Q evaluation says what LSPC-O would cost from here to the end. If that exceeds what is left, or
the state is unlike those of the data, LSPC-S acts; where that gives no finite action, zeros do. Every such step is
counted.
"""

import warnings
from collections import Counter
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lspc.acting import Act, Seen
from lspc.algos.lspc import LspcPolicy
from lspc.calibration.choosing import Calibration
from lspc.calibration.familiarity import nearest_distance
from lspc.calibration.storage import GuardModels
from lspc.errors import UserError

TRUSTED, TOO_COSTLY, UNFAMILIAR, NOT_FINITE = range(4)
"""Why LSPC-O acts, or LSPC-S (or zeros) instead of it."""


class Decision(NamedTuple):
    actions: Array
    reasons: Array
    """TRUSTED, TOO_COSTLY, UNFAMILIAR or NOT_FINITE."""
    expected_cost: Array
    """Of LSPC-O from here to the end."""


def predict_cost(
    policy: LspcPolicy, models: GuardModels, observations: Array, actions: Array, steps_left: Array
) -> Array:
    """The cost to come if LSPC-O goes on, beginning with these actions: the ensemble's mean."""
    costs = jax.vmap(lambda q: q(observations, actions, steps_left, policy.restriction)[..., 1])(models.fitted_q)
    return costs.mean(0)


def distance_to_data(models: GuardModels, observations: Array) -> Array:
    """To the nearest state of the data, each feature measured by its spread."""
    std = models.fitted_q.normaliser.std[:1]
    return nearest_distance(observations / std, models.landmarks / std)


def decide(
    policy: LspcPolicy,
    models: GuardModels,
    calibration: Calibration,
    observations: Array,
    steps_left: Array,
    budget_left: Array,
) -> Decision:
    """Actions for a batch, given the steps and the budget that are left to each."""
    zero_noise = jnp.zeros((*observations.shape[:-1], policy.noise_dim))
    bold, careful = policy(observations, zero_noise, "LSPC-O"), policy(observations, zero_noise, "LSPC-S")
    cost = predict_cost(policy, models, observations, bold, steps_left)
    # Asked this way round because a comparison with NaN is false: what is no number is not trusted.
    reasons = jnp.where(cost <= budget_left, TRUSTED, TOO_COSTLY)
    familiar = distance_to_data(models, observations) <= calibration.familiar_within
    reasons = jnp.where(familiar, reasons, UNFAMILIAR)
    bold_sound, careful_sound = jnp.isfinite(bold).all(-1), jnp.isfinite(careful).all(-1)
    reasons = jnp.where(bold_sound & (careful_sound | (reasons == TRUSTED)), reasons, NOT_FINITE)
    careful = jnp.where(careful_sound[..., None], careful, 0.0)
    return Decision(jnp.where((reasons == TRUSTED)[..., None], bold, careful), reasons, cost)


class Guard:
    """Decides step by step and keeps count."""

    def __init__(self, policy: LspcPolicy, models: GuardModels, calibration: Calibration) -> None:
        self._policy, self._horizon = policy, calibration.horizon
        self._decide = jax.jit(partial(decide, policy, models, calibration))
        self._count = Counter[int]()

    def act(self, observation: np.ndarray, *, budget_left: float, steps_left: int) -> np.ndarray:
        """The action for one observation, or for a batch of them that share what is left."""
        if not np.isfinite(observation).all():
            raise UserError("the observation holds NaN or infinity: refusing to act on it")
        if not np.isfinite(budget_left):
            raise UserError(f"budget_left is {budget_left}: refusing to act without a budget")
        if not 1 <= steps_left <= self._horizon:
            raise UserError(
                f"steps_left is {steps_left}; it must be from 1 to {self._horizon}, the data's longest episode"
            )
        batch = observation.reshape(-1, observation.shape[-1])
        left, budget = (
            np.full(len(batch), float(steps_left), np.float32),
            np.full(len(batch), budget_left, np.float32),
        )
        decision = self._decide(jnp.asarray(batch), jnp.asarray(left), jnp.asarray(budget))
        self._note(np.asarray(decision.reasons))
        return np.asarray(decision.actions).reshape(*observation.shape[:-1], -1)

    def _note(self, reasons: np.ndarray) -> None:
        if not self._count[NOT_FINITE] and (reasons == NOT_FINITE).any():
            warnings.warn(
                "the policy's action was NaN or infinite; LSPC-S acted instead, or zeros where it has none: "
                "`interventions` of the guard counts how often",
                stacklevel=3,
            )
        self._count.update(reasons.tolist())

    @property
    def interventions(self) -> dict[str, int]:
        """Steps so far, and those on which LSPC-S (or zeros) acted: too costly, unfamiliar, no finite action."""
        return {
            "steps": self._count.total(),
            "too_costly": self._count[TOO_COSTLY],
            "unfamiliar": self._count[UNFAMILIAR],
            "not_finite": self._count[NOT_FINITE],
        }

    def for_episodes(self, budget: float) -> Act:
        """A function for the evaluation pool: each episode begins with the whole budget."""
        spent: dict[int, float] = {}

        def act(seen: Seen) -> np.ndarray:
            for lane, step, cost in zip(seen.lanes.tolist(), seen.steps.tolist(), seen.costs.tolist(), strict=True):
                spent[lane] = spent[lane] + cost if step else 0.0
            left = np.maximum(self._horizon - seen.steps, 1).astype(np.float32)
            remaining = np.array([budget - spent[lane] for lane in seen.lanes.tolist()], np.float32)
            decision = self._decide(jnp.asarray(seen.observations), jnp.asarray(left), jnp.asarray(remaining))
            self._note(np.asarray(decision.reasons)[seen.seeds > 0])
            return np.asarray(decision.actions)

        return act
