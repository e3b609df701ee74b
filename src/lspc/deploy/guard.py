"""The run-time guard: LSPC-O while the budget that is left can bear it, LSPC-S otherwise.

At each step fitted Q evaluation says what LSPC-O would cost from here to the end. If that exceeds what is left, or
the state is unlike those of the data, LSPC-S acts. Every such step is counted.
"""

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
from lspc.data.bounds import Bounds
from lspc.errors import UserError

TRUSTED, TOO_COSTLY, UNFAMILIAR = range(3)
"""Why LSPC-O acts, or LSPC-S instead of it."""


class Decision(NamedTuple):
    actions: Array
    reasons: Array
    """TRUSTED, TOO_COSTLY or UNFAMILIAR."""
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
    return Decision(jnp.where((reasons == TRUSTED)[..., None], bold, careful), reasons, cost)


class Guard:
    """Decides step by step and keeps count."""

    def __init__(
        self, policy: LspcPolicy, models: GuardModels, calibration: Calibration, bounds: Bounds | None = None
    ) -> None:
        """The policy and the models know actions in [-1, 1]; the guard answers within `bounds`, the plant's."""
        self._policy, self._horizon, self._bounds = policy, calibration.horizon, bounds or Bounds()
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
        self._count.update(np.asarray(decision.reasons).tolist())
        return self._bounds.to_plant(np.asarray(decision.actions)).reshape(*observation.shape[:-1], -1)

    @property
    def interventions(self) -> dict[str, int]:
        """Steps so far, and those on which LSPC-S acted: too costly, unfamiliar."""
        return {
            "steps": self._count.total(),
            "too_costly": self._count[TOO_COSTLY],
            "unfamiliar": self._count[UNFAMILIAR],
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
            self._count.update(np.asarray(decision.reasons)[seen.seeds > 0].tolist())
            return self._bounds.to_plant(np.asarray(decision.actions))

        return act
