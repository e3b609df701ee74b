"""COptiDICE: constrained policy optimisation by stationary distribution correction (Lee et al., 2022).

It learns by how much a transition should occur more often (w) in the data of the best policy whose cost stays within
the budget, and clones the data with those weights. There is no Bellman backup of a policy's own actions anywhere.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos import base
from lspc.algos.base import Batch, Metrics, Normaliser, Spec
from lspc.algos.parts import gaussian, lagrangian
from lspc.algos.parts.weights import effective_share
from lspc.data import Dataset
from lspc.nets import MLP, Learner


@dataclass(frozen=True)
class Config(lagrangian.Config):
    batch_size: int = 512
    """Transitions, and first observations of episodes, per update."""
    learning_rate: float = 1e-4
    """Adam's step size, for networks, multiplier and temperature."""
    alpha: float = 0.5
    """How much it counts to stay close to the data: larger makes the weights more equal."""
    cost_divergence: float = 0.01
    """epsilon: the cost is estimated on the worst data distribution within this KL divergence."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {"steps": 10_000, "batch_size": 256, "learning_rate": 1e-3},
}


class State(eqx.Module):
    nu: Learner[MLP]
    """State -> its value once costs are priced in."""
    chi: Learner[MLP]
    """State -> its cost to come, for the upper bound."""
    actor: Learner[MLP]
    """pi: state -> mean and log-spread of the action before tanh."""
    multiplier: Learner[Array]
    """lambda, before softplus."""
    temperature: Learner[Array]
    """tau, before softplus."""
    normaliser: Normaliser
    budget: Float[Array, ""]
    """c-hat: cost of a step."""
    config: Config = eqx.field(static=True)


class Draw(NamedTuple):
    transitions: Batch
    starts: Float[Array, "batch observation"]
    """First observations of episodes."""


task_settings, prepare = lagrangian.task_settings, lagrangian.prepare


def table(dataset: Dataset, config: Config) -> tuple[Any, np.ndarray]:
    return base.table(dataset, config), dataset.initial_observations


def draw(table: tuple[Any, Array], key: PRNGKeyArray, spec: Spec, config: Config) -> Draw:
    rows, starts = table
    rows_key, starts_key = jax.random.split(key)
    drawn = jax.random.randint(starts_key, (config.batch_size,), 0, starts.shape[0])
    return Draw(base.draw(rows, rows_key, spec, config), starts[drawn])


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    nu_key, chi_key, actor_key = jax.random.split(key, 3)
    o, a = spec.observation_dim, spec.action_dim
    # The weights describe a distribution over steps, so the budget must be one step's: (1 - discount) of the sum.
    budget = (1 - config.discount) * lagrangian.discounted_budget(
        config.budget, config.discount, spec.longest_episode
    )
    return State(
        nu=Learner.of(MLP(o, 1, config.hidden, key=nu_key)),
        chi=Learner.of(MLP(o, 1, config.hidden, key=chi_key)),
        actor=Learner.of(MLP(o, 2 * a, config.hidden, key=actor_key)),
        multiplier=Learner.of(jnp.ones(())),
        temperature=Learner.of(jnp.ones(())),
        normaliser=Normaliser.of(spec, active=config.normalise_observations),
        budget=jnp.float32(budget),
        config=config,
    )


def conjugate(y: Array) -> Array:
    """f*, the convex conjugate of the soft chi-square divergence: max over x of x y - f(x)."""
    return jnp.where(y < 0, jnp.exp(jnp.minimum(y, 0.0)) - 1.0, y + 0.5 * y**2)


def best_ratio(y: Array) -> Array:
    """(f')^-1, where that maximum is: exp(y) below zero, y + 1 above."""
    return jnp.where(y < 0, jnp.exp(jnp.minimum(y, 0.0)), y + 1.0)


class Steps(NamedTuple):
    """A draw as the losses see it: observations normalised, rewards scaled."""

    starts: Array
    observations: Array
    following: Array
    rewards: Array
    costs: Array
    ends: Array

    def difference(self, net: MLP, signal: Array, discount: float) -> Array:
        """signal + discount * net(s') - net(s), with nothing after the end."""
        following = (1.0 - self.ends) * net(self.following)[..., 0]
        return signal + discount * following - net(self.observations)[..., 0]


def advantage(nu: MLP, steps: Steps, multiplier: Array, discount: float) -> Array:
    """e(s, a, s') = r - lambda c + gamma nu(s') - nu(s)."""
    return steps.difference(nu, steps.rewards - multiplier * steps.costs, discount)


def nu_loss(nu: MLP, steps: Steps, multiplier: Array, config: Config) -> Array:
    """(1 - gamma) E[nu(s_0)] + alpha E[f*(e / alpha)], the dual with the best w put in."""
    first = (1.0 - config.discount) * jnp.mean(nu(steps.starts))
    error = advantage(nu, steps, multiplier, config.discount)
    return first + config.alpha * jnp.mean(conjugate(error / config.alpha))


def cost_bound_loss(learned: tuple[MLP, Array], steps: Steps, ratios: Array, config: Config) -> tuple[Array, Array]:
    """tau log E[exp(l / tau)] + tau epsilon with l = (1 - gamma) chi(s_0) + w (c + gamma chi(s') - chi(s)).

    Beside it the upper bound on the cost of a step: E[w c] under the worst distribution, weights exp(l / tau).
    """
    chi, temperature = learned
    tau = jax.nn.softplus(temperature)
    ell = (1.0 - config.discount) * chi(steps.starts)[..., 0]
    ell = ell + ratios * steps.difference(chi, steps.costs, config.discount)
    loss = tau * (jax.nn.logsumexp(ell / tau) - jnp.log(ell.size) + config.cost_divergence)
    return loss, jnp.sum(jax.nn.softmax(ell / tau) * ratios * steps.costs)


def multiplier_loss(multiplier: Array, cost: Array, budget: Array) -> Array:
    """lambda (c-hat - E[w c]): lambda rises while the cost is above the budget."""
    return jax.nn.softplus(multiplier) * (budget - cost)


def actor_loss(actor: MLP, observations: Array, actions: Array, ratios: Array) -> Array:
    """-E[w log pi(a | s)]."""
    return -jnp.mean(ratios * gaussian.log_likelihood(actor, observations, actions))


def update(state: State, batch: Draw, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of chi and tau, of nu, of lambda, then of the actor; nothing is drawn here."""
    config, transitions = state.config, batch.transitions
    steps = Steps(
        starts=state.normaliser(batch.starts),
        observations=state.normaliser(transitions.observations),
        following=state.normaliser(transitions.next_observations),
        rewards=config.reward_scale * transitions.rewards,
        costs=transitions.costs,
        ends=transitions.ends,
    )
    multiplier = jax.nn.softplus(state.multiplier.net)
    ratios = best_ratio(advantage(state.nu.net, steps, multiplier, config.discount) / config.alpha)

    (bound_loss, cost), gradients = eqx.filter_value_and_grad(cost_bound_loss, has_aux=True)(
        (state.chi.net, state.temperature.net), steps, ratios, config
    )
    chi = state.chi.step(gradients[0], config.learning_rate)
    temperature = state.temperature.step(gradients[1], config.learning_rate)

    loss, gradient = eqx.filter_value_and_grad(nu_loss)(state.nu.net, steps, multiplier, config)
    nu = state.nu.step(gradient, config.learning_rate)
    gradient = jax.grad(multiplier_loss)(state.multiplier.net, cost, state.budget)
    priced = state.multiplier.step(gradient, config.learning_rate)

    ratios = best_ratio(advantage(nu.net, steps, multiplier, config.discount) / config.alpha)
    policy_loss, gradient = eqx.filter_value_and_grad(actor_loss)(
        state.actor.net, steps.observations, transitions.actions, ratios
    )
    actor = state.actor.step(gradient, config.learning_rate)

    metrics = {
        "reward/nu_loss": loss,
        "reward/nu_mean": jnp.mean(state.nu.net(steps.observations)),
        "cost/bound_loss": bound_loss,
        "cost/of_a_step": jnp.mean(ratios * steps.costs),
        "cost/of_a_step_bound": cost,
        "lagrangian/multiplier": multiplier,
        "lagrangian/excess": cost - state.budget,
        "lagrangian/temperature": jax.nn.softplus(state.temperature.net),
        "policy/loss": policy_loss,
        "policy/ratio_mean": jnp.mean(ratios),
        "policy/effective_share": effective_share(ratios),
    }
    state = replace(state, nu=nu, chi=chi, actor=actor, multiplier=priced, temperature=temperature)
    return state, metrics


class CoptidicePolicy(gaussian.GaussianPolicy):
    variants: ClassVar[tuple[str, ...]] = ("COptiDICE",)


def policy(state: State) -> CoptidicePolicy:
    return CoptidicePolicy(state.actor.net, state.normaliser)


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    return {}
