"""CDT: constrained decision transformer (Liu et al., ICML 2023).

A causal transformer reads (reward still wanted, cost still allowed, state, action) step by step and predicts the next
action; asked for much reward at little cost it should deliver. Pareto augmentation teaches it what to do when asked
for more than the data hold: the best episode within the cost.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from lspc.algos.base import Metrics, Normaliser, SequencePolicy, Spec
from lspc.algos.parts.transformer import Dropout, Transformer
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.nets import MLP, Linear, match_rank
from lspc.tasks import Task


@dataclass(frozen=True)
class Config:
    steps: int = 100_000
    """Gradient updates."""
    batch_size: int = 2048
    """Windows of experience per update."""
    context: int = 10
    """Steps the transformer looks back."""
    width: int = 128
    """Width of its tokens."""
    layers: int = 3
    """Blocks of attention."""
    heads: int = 8
    """Attention heads; they divide the width."""
    dropout: float = 0.1
    """Share of activations dropped while training."""
    learning_rate: float = 1e-4
    """Step size of Adam with weight decay."""
    warmup: int = 500
    """Updates over which the step size rises to its value."""
    weight_decay: float = 1e-4
    """Pull of all weights towards zero."""
    max_gradient: float = 0.25
    """Gradients are scaled down to this norm."""
    entropy_weight: float = 0.1
    """Reward for uncertainty of the action: keeps the policy from collapsing onto single data points."""
    cost_weight: float = 0.02
    """Weight of predicting whether a step costs something."""
    augment_share: float = 0.2
    """Relabelled episodes added, as a share of the data's."""
    budget: float = 10.0
    """Cost allowed in an episode: the cost it is asked for."""
    target_return: float | None = None
    """Reward it is asked for; none: the best return among the data's episodes within the budget."""
    normalise_observations: bool = True
    """Give the network observations of zero mean and unit spread."""


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "cpu": {"steps": 4_000, "batch_size": 64, "width": 64, "layers": 2, "heads": 4, "learning_rate": 5e-4},
}
SMALLEST_SPREAD, LARGEST_SPREAD = -5.0, 1.0
"""Bounds of the action's log-spread."""


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    return {"budget": float(task.thresholds[0])}


def prepare(dataset: Dataset, config: Config) -> Dataset:
    if dataset.is_mapped:
        raise UserError(
            f"{dataset.source}: cdt learns from whole episodes, which must fit into memory: these need "
            f"{dataset.memory_needed / 1e9:.3g} GB free; take some of them (--filter subsample=0.1) or another method"
        )
    best_target(dataset, config)  # told now, before any training
    return dataset


def best_target(dataset: Dataset, config: Config) -> float:
    if config.target_return is not None:
        return config.target_return
    inside = dataset.cost_returns <= config.budget
    if not inside.any():
        raise UserError(
            f"no episode costs at most {config.budget:g}: add --target-return, or allow a larger --budget"
        )
    return float(dataset.returns[inside].max())


Column = Any
"""An array, of NumPy while it is made and of JAX once it lies on the device."""


class Table(NamedTuple):
    """Every step of every episode, relabelled ones included, and where its episode begins."""

    observations: Column
    actions: Column
    costs: Column
    wanted: Column
    """Reward from here to the episode's end (as labelled), as a share of `return_scale`."""
    allowed: Column
    """Cost from here to the end, as a share of `cost_scale`."""
    times: Column
    starts: Column
    target: Column
    """What the policy asks for: reward and cost, scaled."""


class Windows(NamedTuple):
    """Drawn steps, each with the `context` steps that end at it; `real` is 0 before the episode's begin."""

    observations: Float[Array, "batch context observation"]
    actions: Float[Array, "batch context action"]
    costs: Float[Array, "batch context"]
    wanted: Float[Array, "batch context"]
    allowed: Float[Array, "batch context"]
    times: Array
    real: Float[Array, "batch context"]
    target: Array


def scales(spec: Spec) -> tuple[float, float]:
    """Sizes of returns and costs, so that what the network sees is of order one."""
    return max(abs(spec.return_max), abs(spec.return_min), 1e-6), max(spec.largest_cost * spec.longest_episode, 1e-6)


def pareto_relabels(dataset: Dataset, share: float, rng: np.random.Generator) -> list[tuple[int, float, float]]:
    """(episode, wanted return, allowed cost) where more is wanted than any episode within that cost returned.

    The episode is the best one within the cost, so that an impossible wish is answered by the best possible.
    """
    returns, costs = dataset.returns, dataset.cost_returns
    relabels = []
    for _ in range(round(share * len(returns))):
        allowed = rng.uniform(costs.min(), costs.max())
        within = np.flatnonzero(costs <= allowed)
        best = int(within[np.argmax(returns[within])])
        relabels.append((best, float(rng.uniform(returns[best], returns.max())), float(allowed)))
    return relabels


def table(dataset: Dataset, config: Config) -> Table:
    spec = Spec.of(dataset)
    return_scale, cost_scale = scales(spec)
    plain = [
        (i, float(r), float(c)) for i, (r, c) in enumerate(zip(dataset.returns, dataset.cost_returns, strict=True))
    ]
    added = pareto_relabels(dataset, config.augment_share, np.random.default_rng(0))
    columns: dict[str, list[np.ndarray]] = {name: [] for name in Table._fields[:-1]}
    row = 0
    for episode, wanted, allowed in plain + added:
        rows = dataset.episodes[episode]
        length = rows.stop - rows.start
        earned, paid = (np.cumsum(x[rows]) - x[rows] for x in (dataset.rewards, dataset.costs))
        columns["observations"].append(dataset.observations[rows])
        columns["actions"].append(dataset.actions[rows])
        columns["costs"].append(dataset.costs[rows])
        columns["wanted"].append((wanted - earned) / return_scale)
        columns["allowed"].append((allowed - paid) / cost_scale)
        columns["times"].append(np.arange(length))
        columns["starts"].append(np.full(length, row))
        row += length
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    whole = {name: joined.pop(name).astype(np.int32) for name in ("times", "starts")}
    target = np.array([best_target(dataset, config) / return_scale, config.budget / cost_scale], np.float32)
    return Table(**{name: part.astype(np.float32) for name, part in joined.items()}, **whole, target=target)


def draw(table: Table, key: PRNGKeyArray, spec: Spec, config: Config) -> Windows:
    last = jax.random.randint(key, (config.batch_size, 1), 0, table.times.shape[0])
    places = last + match_rank(jnp.arange(1 - config.context, 1), last)
    real = places >= table.starts[last]
    places = jnp.maximum(places, 0)
    columns = {name: getattr(table, name)[places] for name in Windows._fields[:6]}
    return Windows(**columns, real=real.astype(jnp.float32), target=table.target)


class Net(eqx.Module):
    read_return: Linear
    read_cost: Linear
    read_state: Linear
    read_action: Linear
    times: Float[Array, "time width"]
    """What is added to the tokens of each time in an episode."""
    transformer: Transformer
    action: MLP
    """Mean and log-spread of the action, from the state's token."""
    cost: Linear
    """Log-odds that the step costs something, from the action's token."""

    def __init__(self, spec: Spec, config: Config, *, key: PRNGKeyArray):
        k = jax.random.split(key, 8)
        o, a, width = spec.observation_dim, spec.action_dim, config.width
        self.read_return, self.read_cost = Linear(1, width, key=k[0]), Linear(1, width, key=k[1])
        self.read_state, self.read_action = Linear(o, width, key=k[2]), Linear(a, width, key=k[3])
        self.times = 0.02 * jax.random.normal(k[4], (spec.longest_episode, width))
        self.transformer = Transformer(width, config.layers, config.heads, key=k[5])
        self.action = MLP(width, 2 * a, (), key=k[6])
        self.cost = Linear(width, 1, key=k[7])

    def __call__(self, w: Windows, drop: Dropout) -> tuple[Array, Array, Array]:
        """Mean and log-spread of each step's action, and the log-odds of its cost."""
        time = self.times[jnp.minimum(w.times, self.times.shape[0] - 1)]
        tokens = jnp.stack(
            [
                self.read_return(w.wanted[..., None]) + time,
                self.read_cost(w.allowed[..., None]) + time,
                self.read_state(w.observations) + time,
                self.read_action(w.actions) + time,
            ],
            axis=2,
        )
        batch, context = w.real.shape
        flat, real = tokens.reshape(batch, 4 * context, -1), jnp.repeat(w.real, 4, axis=1)
        out = self.transformer(drop(flat), real, drop).reshape(batch, context, 4, -1)
        mean, log_std = jnp.split(self.action(out[:, :, 2]), 2, axis=-1)
        return jnp.tanh(mean), jnp.clip(log_std, SMALLEST_SPREAD, LARGEST_SPREAD), self.cost(out[:, :, 3])[..., 0]


class State(eqx.Module):
    net: Net
    optimiser: Any
    normaliser: Normaliser
    target: Float[Array, "2"]
    spec: Spec = eqx.field(static=True)
    config: Config = eqx.field(static=True)


def _optimiser(config: Config) -> optax.GradientTransformation:
    rate = optax.linear_schedule(config.learning_rate / max(config.warmup, 1), config.learning_rate, config.warmup)
    return optax.chain(
        optax.clip_by_global_norm(config.max_gradient), optax.adamw(rate, weight_decay=config.weight_decay)
    )


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    if config.width % config.heads:
        raise UserError(f"heads is {config.heads}; it must divide the width {config.width}")
    net = Net(spec, config, key=key)
    normaliser = Normaliser.of(spec, active=config.normalise_observations)
    return State(net, _optimiser(config).init(eqx.filter(net, eqx.is_array)), normaliser, jnp.zeros(2), spec, config)


def action_loss(mean: Array, log_std: Array, actions: Array, entropy_weight: float) -> Array:
    """-log N(action; mean, std) minus the entropy's reward, summed over the action's dimensions, up to a constant."""
    error = 0.5 * ((actions - mean) * jnp.exp(-log_std)) ** 2 + log_std
    return jnp.sum(error - entropy_weight * log_std, axis=-1)


def cost_loss(log_odds: Array, costs: Array) -> Array:
    """Cross-entropy of "this step costs something"."""
    return optax.sigmoid_binary_cross_entropy(log_odds, (costs > 0).astype(jnp.float32))


def total_loss(net: Net, windows: Windows, key: PRNGKeyArray, config: Config) -> tuple[Array, Metrics]:
    mean, log_std, log_odds = net(windows, Dropout(config.dropout, key))

    def average(losses: Array) -> Array:
        return jnp.sum(windows.real * losses) / jnp.sum(windows.real)

    action = average(action_loss(mean, log_std, windows.actions, config.entropy_weight))
    cost = average(cost_loss(log_odds, windows.costs))
    error = average(jnp.sum((mean - windows.actions) ** 2, axis=-1))
    metrics = {"policy/loss": action, "policy/squared_error": error, "cost/loss": cost}
    return action + config.cost_weight * cost, metrics


def update(state: State, batch: Windows, key: PRNGKeyArray) -> tuple[State, Metrics]:
    batch = batch._replace(observations=state.normaliser(batch.observations))
    gradient, metrics = eqx.filter_grad(total_loss, has_aux=True)(state.net, batch, key, state.config)
    with jax.numpy_dtype_promotion("standard"):  # optax multiplies its whole step count with fractions
        step, optimiser = _optimiser(state.config).update(
            gradient, state.optimiser, eqx.filter(state.net, eqx.is_array)
        )
    net = eqx.apply_updates(state.net, step)
    return State(net, optimiser, state.normaliser, batch.target, state.spec, state.config), metrics


class Memory(NamedTuple):
    """The last `context` steps of each episode, the newest at the end."""

    observations: Array
    actions: Array
    wanted: Array
    allowed: Array
    times: Array
    real: Array


class CdtPolicy(SequencePolicy):
    variants: ClassVar[tuple[str, ...]] = ("CDT",)

    net: Net
    normaliser: Normaliser
    target: Array
    spec: Spec = eqx.field(static=True)
    config: Config = eqx.field(static=True)

    @property
    def noise_dim(self) -> int:
        return self.spec.action_dim

    def start(self, size: int) -> Memory:
        context = self.config.context
        blank = jnp.zeros((size, context))
        observations = jnp.zeros((size, context, self.spec.observation_dim))
        actions = jnp.zeros((size, context, self.spec.action_dim))
        return Memory(observations, actions, blank, blank, blank.astype(jnp.int32), blank)

    def step(
        self, memory: Memory, observations: Array, rewards: Array, costs: Array, noise: Array, variant: str
    ) -> tuple[Array, Memory]:
        return_scale, cost_scale = scales(self.spec)
        begun = memory.real[:, -1] > 0
        wanted = jnp.where(begun, memory.wanted[:, -1] - rewards / return_scale, self.target[0])
        # What is spent is spent: below zero the data never asked for anything.
        allowed = jnp.where(begun, jnp.maximum(memory.allowed[:, -1] - costs / cost_scale, 0.0), self.target[1])
        time = jnp.where(begun, memory.times[:, -1] + 1, 0)
        newest = (
            self.normaliser(observations), jnp.zeros_like(memory.actions[:, -1]), wanted, allowed, time,
            jnp.ones_like(wanted),
        )  # fmt: skip
        memory = Memory(
            *(jnp.concatenate([old[:, 1:], new[:, None]], axis=1) for old, new in zip(memory, newest, strict=True))
        )
        windows = Windows(
            memory.observations, memory.actions, jnp.zeros_like(memory.wanted), memory.wanted, memory.allowed,
            memory.times, memory.real, self.target,
        )  # fmt: skip
        mean, log_std, _ = self.net(windows, Dropout(0.0, None))
        actions = jnp.clip(mean[:, -1] + jnp.exp(log_std[:, -1]) * noise, -1.0, 1.0)
        return actions, memory._replace(actions=memory.actions.at[:, -1].set(actions))


def policy(state: State) -> CdtPolicy:
    return CdtPolicy(state.net, state.normaliser, state.target, state.spec, state.config)


def metric_bounds(spec: Spec, config: Config) -> dict[str, float]:
    return {}
