"""LSPC: latent safety-prioritised constraints (Koirala et al., ICLR 2025).

IQL critics say what the data's actions bring and cost. A CVAE is fitted to the data with weights that favour
careful actions, so that latents near zero decode to safe ones: sampling there is LSPC-S. A second encoder, the
latent safety encoder, searches the box (-restriction, restriction) for reward through the frozen decoder: LSPC-O.
It is told the restriction and trained over a range of them, so that one run serves every restriction.
The paper's converse swaps the roles: the CVAE is fitted to rewarding actions, the encoder searches for safe ones.
`update` is the whole method, in the paper's order; `update_sweep` takes several settings through the same steps.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos import base
from lspc.algos.base import Batch, Metrics, Normaliser, Spec, flatten_metrics
from lspc.algos.parts import admission, iql
from lspc.algos.parts.admission import RecordedBatch
from lspc.algos.parts.cvae import Cvae, decode, update_weighted
from lspc.algos.parts.cvae import init as init_cvae
from lspc.algos.parts.latent_policy import ConversePolicy, LspcPolicy, largest_restriction, rewarding_latents
from lspc.algos.parts.lspc_settings import ADDED as ADDED
from lspc.algos.parts.lspc_settings import PRESETS as PRESETS
from lspc.algos.parts.lspc_settings import RENAMED as RENAMED
from lspc.algos.parts.lspc_settings import Config as Config
from lspc.algos.parts.lspc_settings import task_settings as task_settings
from lspc.algos.parts.signal import measure_signals
from lspc.algos.parts.units import Units, as_they_are, scaled_costs, scaled_rewards
from lspc.algos.parts.weights import (
    affordable_weight,
    effective_share,
    flatten_weights,
    mask_costly,
    sharpest_weight,
    temper_weights,
)
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.nets import MLP, Learner, average_recent


class State(eqx.Module):
    reward: iql.Critic
    cost: iql.Critic
    cvae: Learner[Cvae]
    encoder: Learner[MLP]
    """delta, the latent safety encoder: state (and eps) -> mean and log-spread of a rewarding latent."""
    acting: tuple[MLP, MLP]
    """The decoder and the encoder of the policies: averages of those that learn."""
    normaliser: Normaliser
    reward_units: Units
    cost_units: Units
    config: Config = eqx.field(static=True)


def prepare(dataset: Dataset, config: Config) -> Dataset:
    return dataset


def table(dataset: Dataset, config: Config) -> Any:
    share = config.record_share
    return base.table(dataset, config) if share is None else admission.table(dataset, share)


def draw(rows: Any, key: PRNGKeyArray, spec: Spec, config: Config) -> Batch | RecordedBatch:
    return (base if config.record_share is None else admission).draw(rows, key, spec, config)


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    if not 0 <= config.zero_share < 1:
        raise UserError(f"zero_share {config.zero_share:g} must be at least 0 and less than 1")
    keys = jax.random.split(key, 5)
    rewards, costs = _units(spec, config)
    o, a, z = spec.observation_dim, spec.action_dim, config.latent_dim
    cvae = init_cvae((keys[0], keys[1]), o, a, z, config.hidden)
    encoder = MLP(o + _takes_restriction(config), 2 * z, config.hidden, key=keys[2])
    return State(
        reward=iql.init(keys[3], o, a, config.hidden),
        cost=iql.init(keys[4], o, a, config.hidden),
        cvae=Learner.of(cvae),
        encoder=Learner.of(encoder),
        acting=jax.tree.map(jnp.copy, (cvae.decoder, encoder)),
        normaliser=Normaliser.of(spec, active=config.normalise_observations),
        reward_units=rewards,
        cost_units=costs,
        config=config,
    )


def _takes_restriction(config: Config) -> bool:
    if config.restriction_range is None:
        return False
    low, high = config.restriction_range
    if not 0 < low < high or not low <= config.restriction <= high:
        raise UserError(
            f"restriction_range {low:g} {high:g} must begin above 0, rise, and hold the restriction "
            f"{config.restriction:g}"
        )
    return True


def _units(spec: Spec, config: Config) -> tuple[Units, Units]:
    """Of rewards and of costs."""
    if config.scale_signals:
        return scaled_rewards(spec, config.discount), scaled_costs(spec, config.discount)
    return as_they_are(spec.largest_reward, config.discount), as_they_are(spec.largest_cost, config.discount)


def update(state: State, batch: Batch | RecordedBatch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of every part, in the paper's order: V_r, Q_r, V_c, Q_c, CVAE, latent safety encoder."""
    config = state.config
    cvae_key, encoder_key, restriction_key = jax.random.split(key, 3)

    # The critics learn from the data's own actions; nothing of the policies reaches them.
    critics = update_critics(state, batch)

    # LSPC-O learns from the same transitions or, where the record chooses, from episodes that its eps admits.
    shown = show_transitions(state, critics, batch, restriction_key)

    # Advantages become weights. To the losses below these are constants: no gradient returns to a critic.
    weights = weigh_actions(critics, shown, config)

    # The CVAE imitates the careful actions (in the converse, the rewarding ones), at latent zero careful episodes.
    taught = teach_careful(state, batch, critics, weights.cvae)
    cvae, cvae_metrics = update_cvae(state.cvae, *taught, cvae_key, config)

    # The encoder seeks the rewarding ones through this step's decoder, which passes gradients on but does not learn.
    encoder, encoder_metrics = update_encoder(
        state.encoder, cvae.net.decoder, shown, weights.encoder, encoder_key, config
    )
    state = advance(state, critics, cvae, encoder)
    return state, collect_metrics(critics, weights, cvae_metrics, encoder_metrics)


class CriticOutputs(NamedTuple):
    """A batch after the critics have learned from it, and what they say of it."""

    observations: Float[Array, "batch observation"]
    """Normalised."""
    actions: Float[Array, "batch action"]
    reward: iql.Critic
    cost: iql.Critic
    reward_report: iql.CriticReport
    """Advantages in the critic's units, values and metrics in the user's."""
    cost_report: iql.CriticReport


def update_critics(state: State, drawn: Batch | RecordedBatch) -> CriticOutputs:
    """One step of V_r, Q_r, V_c, Q_c; nothing of it depends on POLICY_SETTINGS."""
    transitions = drawn.transitions if isinstance(drawn, RecordedBatch) else drawn
    config, batch = state.config, state.normaliser.apply_to(transitions)
    ends = batch.ends if config.timeouts_end_episode else batch.terminated
    if config.released_critics:
        ends = batch.terminated + batch.truncated  # 2 where both are set

    def learn(
        critic: iql.Critic, steps: Array, units: Units, *, is_cost: bool
    ) -> tuple[iql.Critic, iql.CriticReport]:
        settings = iql.CriticConfig(
            is_cost,
            config.expectile,
            config.discount,
            config.target_rate,
            config.learning_rate,
            config.released_critics,
        )
        # Nothing follows a terminal state; behind a time-out the mean step goes on, which a critic knows as 0.
        after_end = -units.scale * units.mean_value * batch.terminated
        critic, report = iql.update(
            critic, batch.observations, batch.actions, units.to_critic(steps, config.discount),
            batch.next_observations, ends, units.largest, settings, after_end,
        )  # fmt: skip
        report = units.report_to_user(report)
        return critic, report._replace(metrics={**report.metrics, **iql.describe_values(report.value, report.q)})

    reward, reward_report = learn(state.reward, batch.rewards, state.reward_units, is_cost=False)
    cost, cost_report = learn(state.cost, batch.costs, state.cost_units, is_cost=True)
    return CriticOutputs(batch.observations, batch.actions, reward, cost, reward_report, cost_report)


def draw_restrictions(key: PRNGKeyArray, size: int, config: Config) -> Float[Array, " batch"]:
    """An eps for each transition of a batch: spread evenly over the range, or all the same."""
    low, high = config.restriction_range or (config.restriction, config.restriction)
    return jax.random.uniform(key, (size,), minval=low, maxval=high)


class Shown(NamedTuple):
    """What LSPC-O learns from."""

    critics: CriticOutputs
    """The transitions, and what the critics say of them."""
    restrictions: Float[Array, " batch"]
    """The eps at which LSPC-O imitates each."""
    flatness: Float[Array, " batch"] | None = None
    """Where the record has chosen: from 0 to 1, how little the critics' word about each action counts beside it."""


def show_transitions(state: State, critics: CriticOutputs, batch: Batch | RecordedBatch, key: PRNGKeyArray) -> Shown:
    config = state.config
    if not isinstance(batch, RecordedBatch) or not config.uses_record:
        return Shown(critics, draw_restrictions(key, len(critics.actions), config))
    observations, actions = state.normaliser(batch.admitted.observations), batch.admitted.actions
    reward = iql.evaluate(state.reward, observations, actions, is_cost=False)
    cost = iql.evaluate(state.cost, observations, actions, is_cost=True)
    admitted = critics._replace(
        observations=observations,
        actions=actions,
        reward_report=state.reward_units.report_to_user(reward),
        cost_report=state.cost_units.report_to_user(cost),
    )
    low, high = config.restriction_range or (config.restriction,) * 2
    return Shown(admitted, low + (high - low) * batch.places, admission.flatness(batch))


class PolicyWeights(NamedTuple):
    """How much each transition counts in the regressions of the two policies."""

    cvae: Float[Array, " batch"]
    encoder: Float[Array, " batch"]
    metrics: dict[str, Metrics]


def weigh_actions(critics: CriticOutputs, shown: Shown, config: Config) -> PolicyWeights:
    careful, cost_metrics = cost_weights(critics.cost_report, config)
    rewarding, reward_metrics = reward_weights(
        shown.critics.reward_report, shown.critics.cost_report, shown.restrictions, config
    )
    if shown.flatness is not None:
        rewarding = flatten_weights(rewarding, shown.flatness)
    for_cvae, for_encoder = (careful, rewarding) if config.roles == "safety-first" else (rewarding, careful)
    return PolicyWeights(for_cvae, for_encoder, {"reward": reward_metrics, "cost": cost_metrics})


def cost_weights(cost: iql.CriticReport, config: Config) -> tuple[Float[Array, " batch"], Metrics]:
    """w_c: large where the data's action costs less than the state leads one to expect."""
    weights, metrics = temper_weights(-cost.advantage, config.cost_temperature, config.cost_share, config.max_weight)
    weights = mask_costly(weights, cost.value, cost.q, config.cost_mask, renormalise=config.renormalise_mask)
    return weights, {**metrics, "effective_share": effective_share(weights)}


def reward_weights(
    reward: iql.CriticReport, cost: iql.CriticReport, restrictions: Float[Array, " batch"], config: Config
) -> tuple[Float[Array, " batch"], Metrics]:
    """exp(zeta A_r), times a cost weight when LSPC-O looks for reward among safe actions only.

    For eps from 1 to 2 the second gives way to the first: who allows more cost shall get more reward.
    """
    weights, metrics = temper_weights(
        reward.advantage, config.reward_temperature, config.reward_share, config.max_weight
    )
    if config.reference_share is not None and config.roles == "safety-first":
        safe, _ = sharpest_weight(-cost.advantage, config.reference_share)
        safe = mask_costly(safe, cost.value, cost.q, config.cost_mask, renormalise=config.renormalise_mask)
        careful, metrics["temperature"] = affordable_weight(
            safe, cost.advantage, reward.advantage, metrics["temperature"], config.safety_spend
        )
        weights = careful + jnp.clip(restrictions - 1.0, 0.0, 1.0) * (weights - careful)
    return weights, {**metrics, "effective_share": effective_share(weights)}


def teach_careful(
    state: State, batch: Batch | RecordedBatch, critics: CriticOutputs, weights: Float[Array, " batch"]
) -> tuple[Float[Array, "batch observation"], Float[Array, "batch action"], Float[Array, " batch"]]:
    """States, actions and weights for the CVAE; those it fits at latent zero, the first, are of careful episodes."""
    observations, actions = critics.observations, critics.actions
    if not isinstance(batch, RecordedBatch) or not state.config.uses_record:
        return observations, actions, weights
    careful, count = batch.careful, len(batch.careful.actions)
    return (
        jnp.concatenate([state.normaliser(careful.observations), observations[count:]]),
        jnp.concatenate([careful.actions, actions[count:]]),
        jnp.concatenate([jnp.ones(count), weights[count:]]),
    )


def update_cvae(
    cvae: Learner[Cvae],
    observations: Float[Array, "batch observation"],
    actions: Float[Array, "batch action"],
    weights: Float[Array, " batch"],
    key: PRNGKeyArray,
    config: Config,
) -> tuple[Learner[Cvae], Metrics]:
    """One step of the advantage-weighted evidence bound (the paper's L_{p,q})."""
    return update_weighted(
        cvae, observations, actions, weights, key, config.kl_weight, config.kl_form, config.learning_rate,
        config.zero_share,
    )  # fmt: skip


def encoder_loss(
    encoder: MLP,
    decoder: MLP,
    critics: CriticOutputs,
    weights: Float[Array, " batch"],
    noise: Float[Array, "batch latent"],
    restrictions: Float[Array, " batch"],
    config: Config,
) -> tuple[Float[Array, ""], Metrics]:
    """Advantage-weighted regression in latent space (the paper's L_mu), and what the critics say of the outcome.

    Only the encoder learns from it.
    """
    latents = rewarding_latents(encoder, critics.observations, noise, restrictions, config)
    decoded = decode(decoder, critics.observations, latents)
    error = jnp.sum((decoded - critics.actions) ** 2, axis=-1)
    loss = jnp.mean(weights * error)
    if config.search and config.roles == "safety-first":
        loss = loss + config.search * jnp.mean(search_loss(critics, decoded, restrictions, config))
    box = jnp.maximum(restrictions, config.smallest_box)
    at_edge = jnp.mean(jnp.abs(latents) > 0.95 * box[:, None])
    distance = jnp.mean(jnp.sqrt(error))
    return loss, {"loss": loss, "distance_to_data": distance, "latents_at_edge": at_edge}


def search_loss(
    critics: CriticOutputs,
    actions: Float[Array, "batch action"],
    restrictions: Float[Array, " batch"],
    config: Config,
) -> Float[Array, " batch"]:
    """- Q_r / sd(A_r) + c max(0, Q_c - V_c) / sd(A_c), with c falling from `caution` to 0 as eps grows.

    So an action may cost what its state promises, and more of it the larger eps is. Of each pair of twins the worse
    counts; measured in advantages of the data's own actions, both terms are free of units.
    """
    observations = critics.observations
    reward = iql.twin(critics.reward.q.net, observations, actions, is_cost=False)
    cost = iql.twin(critics.cost.q.net, observations, actions, is_cost=True)
    promised = jnp.maximum(critics.cost.value.net(observations)[:, 0], 0.0)
    largest = largest_restriction(config) or 2.0 * config.restriction
    caution = config.caution * (1.0 - restrictions / largest)
    reward_sd, cost_sd = (jnp.std(each.advantage) + 1e-6 for each in (critics.reward_report, critics.cost_report))
    return caution * jnp.maximum(cost - promised, 0.0) / cost_sd - reward / reward_sd


def update_encoder(
    encoder: Learner[MLP],
    decoder: MLP,
    shown: Shown,
    weights: Float[Array, " batch"],
    key: PRNGKeyArray,
    config: Config,
) -> tuple[Learner[MLP], Metrics]:
    noise = jax.random.normal(key, (weights.size, config.latent_dim))
    # The gradient is taken in the loss's first argument alone: the decoder, its second, stays as it is.
    gradient, metrics = eqx.filter_grad(encoder_loss, has_aux=True)(
        encoder.net, decoder, shown.critics, weights, noise, shown.restrictions, config
    )
    return encoder.step(gradient, config.learning_rate), metrics


def advance(state: State, critics: CriticOutputs, cvae: Learner[Cvae], encoder: Learner[MLP]) -> State:
    """The parts after their steps, and the averages that act."""
    nets, averaging = (cvae.net.decoder, encoder.net), state.config.averaging
    acting = nets if averaging is None else average_recent(state.acting, nets, encoder.updates, averaging)
    return replace(state, reward=critics.reward, cost=critics.cost, cvae=cvae, encoder=encoder, acting=acting)


def collect_metrics(
    critics: CriticOutputs, weights: PolicyWeights, cvae_metrics: Metrics, encoder_metrics: Metrics
) -> Metrics:
    parts = {
        "reward": {**critics.reward_report.metrics, **weights.metrics["reward"]},
        "cost": {**critics.cost_report.metrics, **weights.metrics["cost"]},
        "cvae": cvae_metrics,
        "encoder": encoder_metrics,
    }
    return flatten_metrics(parts)


def probe(state: State, batch: Batch | RecordedBatch) -> Metrics:
    """Metrics of the policies' own actions, which no loss needs."""
    transitions = batch.transitions if isinstance(batch, RecordedBatch) else batch
    observations = state.normaliser(transitions.observations)
    reward_signal, cost_signal = measure_signals(
        state.cvae.net.decoder, (state.reward.q.net, state.cost.q.net), observations, state.config.latent_dim
    )
    predicted = predict_costs(state, observations)
    return flatten_metrics({"reward": {"signal": reward_signal}, "cost": {**predicted, "signal": cost_signal}})


def predict_costs(state: State, observations: Float[Array, "batch observation"]) -> Metrics:
    """What the cost critic expects of LSPC-S's and LSPC-O's own actions: why a policy is unsafe, or timid."""
    (decoder, encoder), config = state.acting, state.config
    zero_noise = jnp.zeros((observations.shape[0], config.latent_dim))
    safe = decode(decoder, observations, zero_noise)
    restriction = jnp.asarray(config.restriction)
    latents = rewarding_latents(encoder, observations, zero_noise, restriction, config)
    rewarding = decode(decoder, observations, latents)

    def predict(actions: Array) -> Array:
        return jnp.mean(state.cost_units.to_user(iql.twin(state.cost.q.net, observations, actions, is_cost=True)))

    return {"predicted_of_lspc_s": predict(safe), "predicted_of_lspc_o": predict(rewarding)}


# Several settings at once.

ENCODER_SETTINGS = (
    "reward_temperature", "reward_share", "reference_share", "safety_spend", "search", "caution", "restriction",
    "restriction_range", "safe_restriction", "latent_form",
)  # fmt: skip
"""Settings that neither the critics nor, unless the roles are swapped, the CVAE know of."""
POLICY_SETTINGS = (
    *ENCODER_SETTINGS, "roles", "latent_dim", "cost_temperature", "cost_share", "max_weight", "kl_weight", "kl_form",
    "cost_mask", "renormalise_mask",
)  # fmt: skip
"""Settings that the critics do not know of: a sweep over these alone shares them."""


def cvae_config(config: Config) -> Config:
    """The same for all settings whose CVAEs are one and the same."""
    if config.roles == "converse":
        return config
    return replace(config, **{name: getattr(Config, name) for name in ENCODER_SETTINGS})


def update_sweep(
    states: tuple[State, ...], batch: Batch | RecordedBatch, key: PRNGKeyArray
) -> tuple[tuple[State, ...], tuple[Metrics, ...]]:
    """`update` for several settings, each as if alone; critics and CVAEs that settings share learn once."""
    cvae_key, encoder_key, restriction_key = jax.random.split(key, 3)
    critics = update_critics(states[0], batch)
    cvaes: dict[Config, tuple[Learner[Cvae], Metrics]] = {}
    updated: list[tuple[State, Metrics]] = []
    for state in states:
        config, shared = state.config, cvae_config(state.config)
        shown = show_transitions(state, critics, batch, restriction_key)
        weights = weigh_actions(critics, shown, config)
        if shared not in cvaes:
            taught = teach_careful(state, batch, critics, weights.cvae)
            cvaes[shared] = update_cvae(state.cvae, *taught, cvae_key, config)
        cvae, cvae_metrics = cvaes[shared]
        encoder, encoder_metrics = update_encoder(
            state.encoder, cvae.net.decoder, shown, weights.encoder, encoder_key, config
        )
        state = advance(state, critics, cvae, encoder)
        updated.append((state, collect_metrics(critics, weights, cvae_metrics, encoder_metrics)))
    states, metrics = zip(*updated, strict=True)
    return states, metrics


def policy(state: State) -> LspcPolicy:
    kind = LspcPolicy if state.config.roles == "safety-first" else ConversePolicy
    return kind(
        *state.acting,
        state.normaliser,
        state.reward_units.convert_twins(state.reward.q.net),
        state.cost_units.convert_twins(state.cost.q.net),
        jnp.asarray(state.config.restriction),
        state.config,
    )


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    """Ten times the value of the best (or worst) step repeated for ever: no data can mean more."""
    rewards, costs = _units(spec, config)
    return {"reward/value_max": 10 * rewards.largest_of_user(), "cost/value_max": 10 * costs.largest_of_user()}
