"""LSPC: latent safety-prioritised constraints (Koirala et al., ICLR 2025).

IQL critics judge the data's actions for reward and for cost. A CVAE is fitted to the data with weights that favour
careful actions, so that latents near zero decode to safe ones: sampling there is LSPC-S. A second encoder, the
latent safety encoder, searches the box (-restriction, restriction) for reward through the frozen decoder: LSPC-O.
It is told the restriction and trained over a range of them, so that one run serves every restriction.
The paper's converse swaps the roles: the CVAE is fitted to rewarding actions, the encoder searches for safe ones.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Batch, Metrics, Normaliser, Policy, Spec
from lspc.algos.parts import iql, qlearning
from lspc.algos.parts.cvae import Cvae, decode, evidence_loss
from lspc.algos.parts.cvae import init as init_cvae
from lspc.algos.parts.gaussian import moments
from lspc.algos.parts.weights import advantage_weight, affordable_weight, effective_share, sharpest_weight
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.nets import MLP, Learner
from lspc.tasks import Task

PROBE = 64
"""Transitions of a batch on which the diagnostic costs are predicted: enough for a mean over a chunk, nearly free."""


@dataclass(frozen=True)
class Config:
    steps: int = 30_000
    """Gradient updates."""
    batch_size: int = 256
    """Transitions per update."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of every network."""
    roles: Literal["safety-first", "converse"] = "safety-first"
    """The CVAE learns safe actions and the encoder seeks reward, or (an ablation) the other way round."""
    latent_dim: int = 32
    """Size of the latent safety space."""
    learning_rate: float = 1e-3
    """Adam's step size, for all parts."""
    discount: float = 0.99
    """Weight of the next step's value, for reward and cost alike."""
    target_rate: float = 0.02
    """Share of the fast Q networks mixed into their slow copies at every update."""
    expectile: float = 0.7
    """xi of the asymmetric loss: 0.5 values the data's average action; higher, its better (or safer) ones."""
    cost_temperature: float = 2.0
    """lambda, sharpness of the cost weights; used when cost_share is none."""
    reward_temperature: float = 2.0
    """zeta, sharpness of the reward weights; used when reward_share is none."""
    max_weight: float = 200.0
    """Largest weight of one transition in a regression with a fixed temperature."""
    cost_share: float | None = 0.2
    """Choose lambda per batch so that this share of it counts in the CVAE's regression; none: cost_temperature."""
    reward_share: float | None = 0.4
    """Choose zeta per batch so that this share of it counts as rewarding; none: reward_temperature."""
    reference_share: float | None = 0.2
    """LSPC-O imitates rewarding actions among this safest share of the batch; none (and the converse): among all."""
    safety_spend: float = 0.5
    """Share of the safety gained by reference_share that LSPC-O may give back for reward."""
    kl_weight: float = 0.5
    """Weight of the CVAE's divergence from the standard normal."""
    kl_form: Literal["mean", "sum"] = "mean"
    """Divergence averaged or summed over the latent's dimensions."""
    restriction: float = 1.0
    """eps of LSPC-O unless asked for another: its latents stay inside (-restriction, restriction)."""
    restriction_range: tuple[float, float] | None = (0.02, 2.0)
    """The encoder learns every eps in this range, beyond 1 with ever less care; none: that one restriction only."""
    safe_restriction: float = 0.25
    """eps of LSPC-S."""
    latent_form: Literal["clamp", "tanh", "truncated"] = "truncated"
    """How LSPC-S draws a latent inside its restriction: a clamped, squashed or truncated normal."""
    timeouts_end_episode: bool = True
    """Treat a time-out like a terminal state instead of looking past it, where there are no data."""
    clamp_value_in_loss: bool = False
    """Clamp V_c at zero inside its own loss, as the released code does; states below zero then stay stuck."""
    cost_mask: float | None = None
    """Give no weight to transitions unless both V_c and Q_c are below this (the paper's 0.02 on MetaDrive)."""
    renormalise_mask: bool = False
    """Divide the masked regression by the transitions that are left instead of the whole batch."""
    normalise_observations: bool = True
    """Give the networks observations of zero mean and unit spread."""
    scale_rewards: bool = True
    """Divide rewards by a hundredth of the spread of the data's returns: values of one size on every task."""


AS_PRINTED: dict[str, Any] = {
    "steps": 1_000_000,
    "batch_size": 1024,
    "latent_dim": 32,
    "learning_rate": 3e-4,
    "discount": 0.99,
    "target_rate": 0.005,
    "expectile": 0.7,
    "cost_temperature": 2.0,
    "reward_temperature": 2.0,
    "max_weight": 200.0,
    "cost_share": None,
    "reward_share": None,
    "reference_share": None,
    "kl_weight": 0.5,
    "restriction": 0.25,
    "restriction_range": None,
    "safe_restriction": 0.25,
    "latent_form": "clamp",
    "timeouts_end_episode": False,
    "normalise_observations": False,
    "scale_rewards": False,
}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {"steps": 8_000},
    "paper": AS_PRINTED,
    "official": {
        **AS_PRINTED,
        "restriction": 0.6,
        "safe_restriction": 0.6,
        "timeouts_end_episode": True,
        "clamp_value_in_loss": True,
    },
}


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    """The paper's two exceptions: a wider search on Bullet (but AntRun), the cost mask on MetaDrive."""
    settings: dict[str, Any] = {}
    if preset == "paper" and task.suite == "bullet" and task.name != "AntRun":
        settings["restriction"] = 0.6
    if preset in ("paper", "official") and task.suite == "metadrive":
        settings["cost_mask"] = 0.02
    return settings


class State(eqx.Module):
    reward: iql.Critic
    cost: iql.Critic
    cvae: Learner[Cvae]
    encoder: Learner[MLP]
    """delta, the latent safety encoder: state (and eps) -> mean and log-spread of a rewarding latent."""
    normaliser: Normaliser
    reward_scale: Float[Array, ""]
    largest_reward: Float[Array, ""]
    """Value of the data's best step repeated for ever, after scaling."""
    largest_cost: Float[Array, ""]
    config: Config = eqx.field(static=True)


def prepare(dataset: Dataset, config: Config) -> Dataset:
    return dataset


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    keys = jax.random.split(key, 5)
    o, a, z = spec.observation_dim, spec.action_dim, config.latent_dim
    return State(
        reward=iql.init(keys[3], o, a, config.hidden),
        cost=iql.init(keys[4], o, a, config.hidden),
        cvae=Learner.of(init_cvae((keys[0], keys[1]), o, a, z, config.hidden)),
        encoder=Learner.of(MLP(o + _takes_restriction(config), 2 * z, config.hidden, key=keys[2])),
        normaliser=Normaliser.of(spec, active=config.normalise_observations),
        reward_scale=jnp.asarray(_reward_scale(spec, config)),
        largest_reward=jnp.asarray(_largest_values(spec, config)[0]),
        largest_cost=jnp.asarray(_largest_values(spec, config)[1]),
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


def _reward_scale(spec: Spec, config: Config) -> float:
    spread = spec.return_max - spec.return_min
    return 100.0 / spread if config.scale_rewards and spread > 1e-6 else 1.0


def _largest_values(spec: Spec, config: Config) -> tuple[float, float]:
    return qlearning.largest_values(spec, config.discount, _reward_scale(spec, config))


def safe_latents(noise: Array, restriction: float, form: str) -> Array:
    """LSPC-S: standard normal noise brought inside [-restriction, restriction]; zero noise stays zero."""
    if form == "clamp":
        return jnp.clip(noise, -restriction, restriction)
    if form == "tanh":
        return restriction * jnp.tanh(noise)
    inside = jax.scipy.special.erf(restriction / jnp.sqrt(2.0))
    uniform = jax.scipy.special.erf(noise / jnp.sqrt(2.0))
    # Rounding may leave the box, and far from zero erfinv knows infinity only: hence the clip.
    return jnp.clip(jnp.sqrt(2.0) * jax.scipy.special.erfinv(inside * uniform), -restriction, restriction)


def rewarding_latents(
    encoder: MLP, observations: Array, noise: Array, restriction: Float[Array, "*#batch"], config: Config
) -> Array:
    """LSPC-O: the latent safety encoder's choice, squashed into (-restriction, restriction)."""
    bound = jnp.broadcast_to(restriction, observations.shape[:-1])[..., None]
    told = () if config.restriction_range is None else (2.0 * bound / config.restriction_range[1] - 1.0,)
    mean, log_std = moments(encoder(observations, *told), -10.0, 2.0)
    return bound * jnp.tanh(mean + jnp.exp(log_std) * noise)


def drawn_restrictions(key: PRNGKeyArray, size: int, config: Config) -> Float[Array, " batch"]:
    """An eps for each transition of a batch: spread evenly over the range, or all the same."""
    low, high = config.restriction_range or (config.restriction, config.restriction)
    return jax.random.uniform(key, (size,), minval=low, maxval=high)


def cvae_loss(
    cvae: Cvae, observations: Array, actions: Array, weights: Array, noise: Array, config: Config
) -> tuple[Array, Metrics]:
    """The cost-advantage-weighted evidence bound (the paper's L_{p,q}); reward-advantage-weighted in the converse."""
    return evidence_loss(cvae, observations, actions, weights, noise, config.kl_weight, config.kl_form)


def encoder_loss(
    encoder: MLP,
    decoder: MLP,
    observations: Array,
    actions: Array,
    weights: Array,
    noise: Array,
    restrictions: Array,
    config: Config,
) -> tuple[Array, Metrics]:
    """Advantage-weighted regression in latent space (the paper's L_mu); only the encoder learns from it."""
    latents = rewarding_latents(encoder, observations, noise, restrictions, config)
    error = jnp.sum((decode(decoder, observations, latents) - actions) ** 2, axis=-1)
    loss = jnp.mean(weights * error)
    at_edge = jnp.mean(jnp.abs(latents) > 0.95 * restrictions[:, None])
    distance = jnp.mean(jnp.sqrt(error))
    return loss, {"loss": loss, "distance_to_data": distance, "latents_at_edge": at_edge}


def cost_weights(report: iql.CriticReport, config: Config) -> tuple[Array, Metrics]:
    """w_c: large where the data's action costs less than the state leads one to expect."""
    weights, metrics = _sharpened(-report.advantage, config.cost_temperature, config.cost_share, config)
    weights = _masked(weights, report, config)
    return weights, {**metrics, "effective_share": effective_share(weights)}


def reward_weights(
    reward: iql.CriticReport, cost: iql.CriticReport, restrictions: Float[Array, " batch"], config: Config
) -> tuple[Array, Metrics]:
    """exp(zeta A_r), times a cost weight when LSPC-O looks for reward among safe actions only.

    For eps from 1 to 2 the second gives way to the first: who allows more cost shall get more reward.
    """
    weights, metrics = _sharpened(reward.advantage, config.reward_temperature, config.reward_share, config)
    if config.reference_share is not None and config.roles == "safety-first":
        safe = _masked(sharpest_weight(-cost.advantage, config.reference_share)[0], cost, config)
        careful, metrics["temperature"] = affordable_weight(
            safe, cost.advantage, reward.advantage, metrics["temperature"], config.safety_spend
        )
        weights = careful + jnp.clip(restrictions - 1.0, 0.0, 1.0) * (weights - careful)
    return weights, {**metrics, "effective_share": effective_share(weights)}


def _sharpened(advantage: Array, temperature: float, share: float | None, config: Config) -> tuple[Array, Metrics]:
    """Weights with the temperature that leaves `share` of the batch, or with the fixed one."""
    if share is not None:
        weights, found = sharpest_weight(advantage, share)
        return weights, {"temperature": found, "clipped": jnp.zeros(())}
    weights = advantage_weight(advantage, temperature, config.max_weight)
    return weights, {"temperature": jnp.asarray(temperature), "clipped": jnp.mean(weights >= config.max_weight)}


def _masked(weights: Array, report: iql.CriticReport, config: Config) -> Array:
    """Nothing for transitions that lead to cost, if a mask is set."""
    if config.cost_mask is None:
        return weights
    allowed = (report.value < config.cost_mask) & (report.q < config.cost_mask)
    kept = jnp.maximum(jnp.mean(allowed), 1.0 / weights.size) if config.renormalise_mask else 1.0
    return jnp.where(allowed, weights, 0.0) / kept


class Judged(NamedTuple):
    """A batch after the critics have learned from it and told what they think of it."""

    observations: Array
    """Normalised."""
    actions: Array
    reward: iql.Critic
    cost: iql.Critic
    reward_report: iql.CriticReport
    cost_report: iql.CriticReport


def judge(state: State, batch: Batch) -> Judged:
    """One step of V_r, Q_r, V_c, Q_c; nothing of it depends on the settings of the CVAE and the encoder."""
    config = state.config
    observations, following = state.normaliser(batch.observations), state.normaliser(batch.next_observations)
    ends = jnp.maximum(batch.terminated, batch.truncated) if config.timeouts_end_episode else batch.terminated

    def learn(
        critic: iql.Critic, signal: Array, largest: Array, *, is_cost: bool
    ) -> tuple[iql.Critic, iql.CriticReport]:
        settings = iql.CriticConfig(
            is_cost,
            config.expectile,
            config.discount,
            config.target_rate,
            config.learning_rate,
            clamp_value_in_loss=is_cost and config.clamp_value_in_loss,
        )
        return iql.update(critic, observations, batch.actions, signal, following, ends, largest, settings)

    reward, reward_report = learn(
        state.reward, batch.rewards * state.reward_scale, state.largest_reward, is_cost=False
    )
    cost, cost_report = learn(state.cost, batch.costs, state.largest_cost, is_cost=True)
    return Judged(observations, batch.actions, reward, cost, reward_report, cost_report)


def step_cvae(
    cvae: Learner[Cvae], judged: Judged, weights: Array, key: PRNGKeyArray, config: Config
) -> tuple[Learner[Cvae], Metrics]:
    noise = jax.random.normal(key, (weights.size, config.latent_dim))
    gradient, metrics = eqx.filter_grad(cvae_loss, has_aux=True)(
        cvae.net, judged.observations, judged.actions, weights, noise, config
    )
    return cvae.step(gradient, config.learning_rate), metrics


def step_encoder(
    encoder: Learner[MLP], decoder: MLP, judged: Judged, weights: Array, key: PRNGKeyArray, restrictions: Array,
    config: Config,
) -> tuple[Learner[MLP], Metrics]:  # fmt: skip
    noise = jax.random.normal(key, (weights.size, config.latent_dim))
    # The decoder is an argument that is not differentiated: frozen, while gradients pass through it to the latent.
    gradient, metrics = eqx.filter_grad(encoder_loss, has_aux=True)(
        encoder.net, decoder, judged.observations, judged.actions, weights, noise, restrictions, config
    )
    return encoder.step(gradient, config.learning_rate), metrics


def update(state: State, batch: Batch, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of every part, in the paper's order: V_r, Q_r, V_c, Q_c, CVAE, latent safety encoder."""
    (state,), (metrics,) = update_sweep((state,), batch, key)
    return state, metrics


def update_sweep(
    states: tuple[State, ...], batch: Batch, key: PRNGKeyArray
) -> tuple[tuple[State, ...], tuple[Metrics, ...]]:
    """The same for several settings at once, each as if alone; what they have in common is computed once.

    That is the critics, and the CVAE of all whose settings differ in what the encoder is told only.
    """
    judged = judge(states[0], batch)
    cvae_key, encoder_key, restriction_key = jax.random.split(key, 3)
    models: dict[Config, tuple[Learner[Cvae], Metrics]] = {}
    after, metrics = [], []
    for state in states:
        config = state.config
        safe, safe_metrics = cost_weights(judged.cost_report, config)
        restrictions = drawn_restrictions(restriction_key, safe.size, config)
        rewarding, rewarding_metrics = reward_weights(judged.reward_report, judged.cost_report, restrictions, config)
        modelled, sought = (safe, rewarding) if config.roles == "safety-first" else (rewarding, safe)
        model = cvae_config(config)
        if model not in models:
            models[model] = step_cvae(state.cvae, judged, modelled, cvae_key, config)
        cvae, cvae_metrics = models[model]
        encoder, encoder_metrics = step_encoder(
            state.encoder, cvae.net.decoder, judged, sought, encoder_key, restrictions, config
        )
        state = State(
            judged.reward,
            judged.cost,
            cvae,
            encoder,
            state.normaliser,
            state.reward_scale,
            state.largest_reward,
            state.largest_cost,
            config,
        )
        parts = {
            "reward": {**judged.reward_report.metrics, **rewarding_metrics},
            "cost": {
                **judged.cost_report.metrics,
                **safe_metrics,
                **predicted_costs(state, judged.observations[:PROBE]),
            },
            "cvae": cvae_metrics,
            "encoder": encoder_metrics,
        }
        after.append(state)
        metrics.append({f"{part}/{name}": value for part, named in parts.items() for name, value in named.items()})
    return tuple(after), tuple(metrics)


OF_THE_ENCODER = (
    "reward_temperature", "reward_share", "reference_share", "safety_spend", "restriction", "restriction_range",
    "safe_restriction", "latent_form",
)  # fmt: skip
"""Settings that neither the critics nor, unless the roles are swapped, the CVAE know of."""
POLICY_SETTINGS = (
    *OF_THE_ENCODER, "roles", "latent_dim", "cost_temperature", "cost_share", "max_weight", "kl_weight", "kl_form",
    "cost_mask", "renormalise_mask",
)  # fmt: skip
"""Settings that the critics do not know of: runs that differ in these alone can be trained together."""


def cvae_config(config: Config) -> Config:
    """The same for all settings whose CVAEs are one and the same."""
    if config.roles == "converse":
        return config
    return replace(config, **{name: getattr(Config, name) for name in OF_THE_ENCODER})


def predicted_costs(state: State, observations: Array) -> Metrics:
    """What the cost critic expects of LSPC-S's and LSPC-O's own actions: why a policy is unsafe, or timid."""
    decoder, config = state.cvae.net.decoder, state.config
    zero_noise = jnp.zeros((observations.shape[0], config.latent_dim))
    safe = decode(decoder, observations, zero_noise)
    latents = rewarding_latents(state.encoder.net, observations, zero_noise, jnp.asarray(config.restriction), config)
    rewarding = decode(decoder, observations, latents)
    return {
        "predicted_of_lspc_s": jnp.mean(iql.twin(state.cost.q.net, observations, safe, is_cost=True)),
        "predicted_of_lspc_o": jnp.mean(iql.twin(state.cost.q.net, observations, rewarding, is_cost=True)),
    }


class LspcPolicy(Policy):
    """LSPC-O, LSPC-S and the CVAE policy share one decoder and differ in where their latent comes from."""

    variants: ClassVar[tuple[str, ...]] = ("LSPC-O", "LSPC-S", "CVAE")

    decoder: MLP
    encoder: MLP
    normaliser: Normaliser
    reward_q: iql.Twins
    cost_q: iql.Twins
    restriction: Float[Array, ""]
    """eps of LSPC-O; `at` gives the same policy with another one."""
    config: Config = eqx.field(static=True)

    @property
    def noise_dim(self) -> int:
        return self.config.latent_dim

    def at(self, restriction: float) -> "LspcPolicy":
        """The policy with this eps, if it was trained for it."""
        low, high = self.config.restriction_range or (self.config.restriction,) * 2
        if not low <= restriction <= high:
            trained = f"every eps from {low:g} to {high:g}" if low < high else f"eps {low:g} alone"
            raise UserError(f"the policy was trained for {trained}, not for {restriction:g}")
        return eqx.tree_at(lambda policy: policy.restriction, self, jnp.asarray(restriction, jnp.float32))

    def __call__(self, observations: Array, noise: Array, variant: str) -> Array:
        return self.act(observations, noise, variant, self.restriction)

    def act(self, observations: Array, noise: Array, variant: str, restriction: Float[Array, "*#batch"]) -> Array:
        """Actions of one of the policies, with an eps for all or one for each observation."""
        observations, config = self.normaliser(observations), self.config
        if variant.endswith("LSPC-O"):
            latents = rewarding_latents(self.encoder, observations, noise, restriction, config)
        elif variant == "LSPC-S":
            latents = safe_latents(noise, config.safe_restriction, config.latent_form)
        else:
            latents = noise
        return decode(self.decoder, observations, latents)


class ConversePolicy(LspcPolicy):
    """With the roles swapped, latents near zero are rewarding instead of safe: there is no LSPC-S."""

    variants: ClassVar[tuple[str, ...]] = ("converse LSPC-O", "converse CVAE")


def policy(state: State) -> LspcPolicy:
    kind = LspcPolicy if state.config.roles == "safety-first" else ConversePolicy
    return kind(
        state.cvae.net.decoder,
        state.encoder.net,
        state.normaliser,
        state.reward.q.net,
        state.cost.q.net,
        jnp.asarray(state.config.restriction),
        state.config,
    )


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    """Ten times the value of the best (or worst) step repeated for ever: no data can mean more."""
    reward, cost = _largest_values(spec, config)
    return {"reward/value_max": 10 * max(reward, 0.1), "cost/value_max": 10 * max(cost, 0.1)}
