"""A user's own environment in the place of a task: any gymnasium environment, by its id or by what makes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lspc.tasks import Task

GYMNASIUM = "gym:"
"""How the name of an environment that is registered with gymnasium begins."""


@dataclass(frozen=True)
class OwnTask(Task):
    """What a run knows of its plant. Rewards are shown as they are: their least and most are not known."""

    cost_key: str = "cost"
    """Where `info` holds the cost of a step, unless the environment returns it beside the reward."""
    factory: Callable[..., Any] | None = None
    """What makes the environment if it cannot be imported by its name: episodes then run in this process alone."""


def is_own(name: str) -> bool:
    """Whether this names an environment, `module:callable` or `gym:Id`, and no task of ours."""
    return ":" in name


def make_own(
    name: str,
    *,
    observation_dim: int,
    action_dim: int,
    horizon: int,
    budgets: Sequence[float],
    cost_key: str = "cost",
    factory: Callable[..., Any] | None = None,
) -> OwnTask:
    return OwnTask(
        name=name, suite="own", family="own", gym_id=name, episode_length=horizon, observation_dim=observation_dim,
        action_dim=action_dim, reward_min=0.0, reward_max=1.0, cost_max=0, thresholds=tuple(budgets), dataset_file="",
        dataset_episodes=0, in_paper=False, cbins=0, rbins=0, max_npb=0, min_npb=0, cost_key=cost_key,
        factory=factory,
    )  # fmt: skip
