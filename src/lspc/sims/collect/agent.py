"""One PPO-Lagrangian agent in its worlds: it learns while every transition it makes is recorded."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lspc import sims
from lspc.sims.collect import ppo
from lspc.sims.collect.episodes import Recorder
from lspc.sims.collect.population import AgentSpec, world_count
from lspc.tasks import Task, get_task

STEPS_PER_ITERATION = 2048
COST_SCALE = 0.1


def train_agent(spec: AgentSpec, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, np.ndarray]:
    """Train one PPO-Lagrangian agent and return every finished episode as DSRL's flat arrays."""
    task, config = get_task(spec.task), ppo.Config()
    rng = np.random.default_rng(spec.seed)
    key, init_key = jax.random.split(jax.random.key(spec.seed))
    state = ppo.init(init_key, task.observation_dim, task.action_dim, config, spec.start_multiplier)
    worlds, norm = Worlds(task, rng), RunningNorm(task.observation_dim)
    while worlds.steps < spec.steps:
        rollout, visited = roll_out(state.agent, worlds, norm, rng)
        finished = worlds.take_finished()
        if finished and spec.cost_limit is not None and worlds.steps > spec.warmup:
            cost = jnp.asarray(np.mean([episode_cost for _, episode_cost in finished]))
            multiplier = ppo.update_multiplier(state.multiplier, cost, spec.cost_limit, config.multiplier_rate)
            state = state._replace(multiplier=multiplier)
        key, update_key = jax.random.split(key)
        state = ppo.update(state, rollout, update_key, config)
        norm.update(visited)
        if finished:
            reward, cost = np.mean(finished, axis=0).tolist()
            now = {"steps": worlds.steps, "reward": reward, "cost": cost, "multiplier": float(state.multiplier)}
            on_progress(now)
    worlds.close()
    return worlds.recorder.arrays()


class Outcome(NamedTuple):
    """What one step brought, a row for each world."""

    rewards: np.ndarray
    """Scaled: see `Worlds`."""
    costs: np.ndarray
    next_observations: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray
    """Terminated, or out of time."""


class Worlds:
    """The simulators that one agent acts in at a time, with a record of all that happens in them."""

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        self.count, self.steps = world_count(task), 0
        # A good step is then worth about 0.1 and a return-to-go stays within the reach of a fresh value network.
        self._reward_scale = 0.1 * task.episode_length / task.reward_max
        self._simulators = [sims.make(task, pictures=False) for _ in range(self.count)]
        self.observations = np.stack([s.reset(int(rng.integers(2**31))) for s in self._simulators])
        self.recorder = Recorder(self.count)
        self._returns = [(0.0, 0.0)] * self.count
        self._finished: list[tuple[float, float]] = []

    def step(self, actions: np.ndarray) -> Outcome:
        """Move every world by its action, clipped to the legal range; where an episode ends the next one begins."""
        rewards, costs, terminated, ended = np.zeros((4, self.count), np.float32)
        following = self.observations.copy()
        for i, simulator in enumerate(self._simulators):
            applied = np.clip(actions[i], -1.0, 1.0)
            step = simulator.step(applied)
            ends = step.terminated or step.truncated
            before = self.observations[i].copy()
            transition = before, applied, step.reward, step.cost, step.observation, step.terminated, step.truncated
            self.recorder.add(i, transition, ends)
            rewards[i], costs[i] = step.reward * self._reward_scale, step.cost * COST_SCALE
            terminated[i], ended[i], following[i] = step.terminated, ends, step.observation
            self._returns[i] = self._returns[i][0] + step.reward, self._returns[i][1] + step.cost
            if ends:
                self._finished.append(self._returns[i])
                self._returns[i] = 0.0, 0.0
        for i, simulator in enumerate(self._simulators):
            self.observations[i] = simulator.reset() if ended[i] else following[i]
        self.steps += self.count
        return Outcome(rewards, costs, following, terminated, ended)

    def take_finished(self) -> list[tuple[float, float]]:
        """Return and cost of every episode that ended since this was asked last."""
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        for simulator in self._simulators:
            simulator.close()


def roll_out(
    agent: ppo.Agent, worlds: Worlds, norm: "RunningNorm", rng: np.random.Generator
) -> tuple[ppo.Rollout, np.ndarray]:
    """One iteration's steps with a fixed policy, and the raw observations on its way."""
    layers = [(np.asarray(layer.weight), np.asarray(layer.bias)) for layer in agent.policy.layers]
    std = np.exp(np.asarray(agent.log_std))
    rows, visited = [], []
    for _ in range(STEPS_PER_ITERATION // worlds.count):
        visited.append(worlds.observations.copy())
        x = normalised = norm(worlds.observations)
        for weight, bias in layers[:-1]:
            x = np.tanh(x @ weight + bias)
        mean = x @ layers[-1][0] + layers[-1][1]
        noise = rng.standard_normal(mean.shape).astype(np.float32)
        actions = mean + std * noise
        log_probability = (-0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(-1)
        now = worlds.step(actions)
        # In the order of Rollout's fields.
        rows.append(
            (normalised, actions, log_probability, now.rewards, now.costs, norm(now.next_observations),
             now.terminated, now.ended)
        )  # fmt: skip
    rollout = ppo.Rollout(*(jnp.asarray(np.stack(column)) for column in zip(*rows, strict=True)))
    return rollout, np.concatenate(visited)


class RunningNorm:
    """Mean and spread of the observations seen so far, changed between iterations only."""

    def __init__(self, size: int):
        self.count, self.mean, self.square = 1e-4, np.zeros(size), np.ones(size) * 1e-4

    def update(self, x: np.ndarray) -> None:
        total = self.count + len(x)
        delta = x.mean(0) - self.mean
        self.square += x.var(0) * len(x) + delta**2 * self.count * len(x) / total
        self.mean += delta * len(x) / total
        self.count = total

    def __call__(self, x: np.ndarray) -> np.ndarray:
        scale = np.sqrt(self.square / self.count) + 1e-4
        return np.clip((x - self.mean) / scale, -10, 10).astype(np.float32)
