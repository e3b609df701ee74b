"""The run-time guard: LSPC-O at the largest eps that the budget that is left can bear, LSPC-S otherwise.

At each step fitted Q evaluation says what LSPC-O would cost from here to the end, at its own eps and at smaller ones;
each estimate counts with its margin. If none fits, whatever is predicted to be cheapest acts, LSPC-S if in doubt. In
a state unlike those of the data, and once an alarm has gone off, LSPC-S acts; where nothing gives a finite action,
zeros do. Every such step is counted.
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
from lspc.calibration.margins import Margin
from lspc.calibration.storage import GuardModels
from lspc.data.bounds import Bounds
from lspc.deploy.alarm import Alarm, Verdict
from lspc.errors import UserError

TRUSTED, TOO_COSTLY, UNFAMILIAR, LOWERED, ALARMED, NOT_FINITE = range(6)
"""Why LSPC-O acts at its own eps, or something more careful instead."""
TRIED = 6
"""eps between the smallest and the policy's own, both included, among which the guard chooses."""


class Decision(NamedTuple):
    actions: Array
    reasons: Array
    """One of the six above."""
    cost_bound: Array
    """What is to come from here to the end costs at most this, as far as the logs tell."""


def bound_cost(
    models: GuardModels, margin: Margin, observations: Array, actions: Array, steps_left: Array, eps: Array
) -> Array:
    """Upper bound of the cost to come if LSPC-O goes on at eps, beginning with these actions.

    The ensemble's mean and the margin that held-out episodes asked for; never more than the dearest step, every time.
    """
    costs = jax.vmap(lambda q: q(observations, actions, steps_left, eps)[..., 1])(models.fitted_q)
    mean, spread = costs.mean(axis=0), costs.std(axis=0, ddof=1)
    return jnp.minimum(mean + margin.error(mean, spread), models.fitted_q.highest[0, 1] * steps_left)


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
    alarmed: Array | bool = False,
) -> Decision:
    """Actions for a batch, given the steps and the budget that are left to each."""
    zero_noise = jnp.zeros((*observations.shape[:-1], policy.noise_dim))
    smallest = jnp.asarray(calibration.curve[0].restriction)
    tried = jnp.linspace(smallest, policy.restriction, TRIED)
    careful = policy(observations, zero_noise, "LSPC-S")
    bold = jax.vmap(lambda eps: policy.act(observations, zero_noise, "LSPC-O", eps))(tried)
    bound = partial(bound_cost, models, calibration.cost_margin, observations, steps_left=steps_left)
    costs = jax.vmap(lambda actions, eps: bound(actions=actions, eps=eps))(bold, tried)
    # LSPC-S has no eps; the smallest is what comes nearest to going on like it.
    careful_cost = bound(actions=careful, eps=smallest)
    # Asked this way round because a comparison with NaN is false: what is no number is not trusted.
    fits = costs <= budget_left[None]
    largest_fitting = TRIED - 1 - jnp.argmax(fits[::-1], axis=0)
    chosen = jnp.where(fits.any(axis=0), largest_fitting, jnp.argmin(costs, axis=0))
    bold_cost = jnp.take_along_axis(costs, chosen[None], axis=0)[0]
    reasons = jnp.where(fits.any(axis=0), jnp.where(chosen == TRIED - 1, TRUSTED, LOWERED), TOO_COSTLY)
    familiar = distance_to_data(models, observations) <= calibration.familiar_within
    reasons = jnp.where(familiar, reasons, UNFAMILIAR)
    reasons = jnp.where(alarmed, ALARMED, reasons)
    predicted_cheaper = (reasons == TOO_COSTLY) & (bold_cost < careful_cost)
    go_bold = (reasons == TRUSTED) | (reasons == LOWERED) | predicted_cheaper
    picked = jnp.take_along_axis(bold, chosen[None, :, None], axis=0)[0]
    picked_sound, careful_sound = jnp.isfinite(picked).all(-1), jnp.isfinite(careful).all(-1)
    reasons = jnp.where(picked_sound & (careful_sound | go_bold), reasons, NOT_FINITE)
    go_bold = go_bold & picked_sound
    careful = jnp.where(careful_sound[..., None], careful, 0.0)
    return Decision(
        jnp.where(go_bold[..., None], picked, careful), reasons, jnp.where(go_bold, bold_cost, careful_cost)
    )


class Guard:
    """Decides step by step and keeps count."""

    def __init__(
        self, policy: LspcPolicy, models: GuardModels, calibration: Calibration, bounds: Bounds | None = None
    ) -> None:
        """The policy and the models know actions in [-1, 1]; the guard answers within `bounds`, the plant's."""
        self._policy, self._horizon, self._bounds = policy, calibration.horizon, bounds or Bounds()
        self._decide = jax.jit(partial(decide, policy, models, calibration))
        self._count = Counter[int]()
        self.alarm: Alarm | None = None

    def watch(self, alarm: Alarm) -> None:
        """Let this alarm decide, by the costs that `observe` is told, when LSPC-O has to go."""
        self.alarm = alarm

    def observe(self, cost: float) -> Verdict:
        """The cost of the episode that has just ended; after an alarm LSPC-S alone acts, and `alarm.why` says why."""
        if self.alarm is None:
            raise UserError("no alarm watches this guard: give it one with guard.watch(Alarm(...))")
        return self.alarm.observe(cost)

    def _alarmed(self) -> Array:
        return jnp.asarray(self.alarm is not None and self.alarm.verdict == "alarm")

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
        decision = self._decide(jnp.asarray(batch), jnp.asarray(left), jnp.asarray(budget), self._alarmed())
        self._note(np.asarray(decision.reasons))
        return self._bounds.to_plant(np.asarray(decision.actions)).reshape(*observation.shape[:-1], -1)

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
        """Steps so far, and those on which LSPC-O did not act at its own eps, by the reason why."""
        return {
            "steps": self._count.total(),
            "too_costly": self._count[TOO_COSTLY],
            "unfamiliar": self._count[UNFAMILIAR],
            "lowered": self._count[LOWERED],
            "alarmed": self._count[ALARMED],
            "not_finite": self._count[NOT_FINITE],
        }

    def for_episodes(self, budget: float) -> Act:
        """A function for the evaluation pool: each episode begins with the whole budget.

        An episode is known by its seed. Where it begins again its worker was lost: what was counted is taken back.
        """
        spent: dict[int, float] = {}
        counted: dict[int, Counter[int]] = {}

        def act(seen: Seen) -> np.ndarray:
            for lane, step, cost in zip(seen.lanes.tolist(), seen.steps.tolist(), seen.costs.tolist(), strict=True):
                spent[lane] = spent[lane] + cost if step else 0.0
            left = np.maximum(self._horizon - seen.steps, 1).astype(np.float32)
            remaining = np.array([budget - spent[lane] for lane in seen.lanes.tolist()], np.float32)
            asked = jnp.asarray(seen.observations), jnp.asarray(left), jnp.asarray(remaining)
            decision = self._decide(*asked, self._alarmed())
            busy, reasons = seen.seeds > 0, np.asarray(decision.reasons)
            for seed, step, reason in zip(seen.seeds[busy], seen.steps[busy], reasons[busy], strict=True):
                if step == 0:
                    self._count.subtract(counted.pop(int(seed), None))
                counted.setdefault(int(seed), Counter())[int(reason)] += 1
            self._note(reasons[busy])
            return self._bounds.to_plant(np.asarray(decision.actions))

        return act
