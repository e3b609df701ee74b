"""A heated tank as a gymnasium environment: a plant in its own units, for docs/own-plant.md.

The valve of the heater opens from 0 to 100 %. A hotter product earns more; above the limit, a step costs 1.
"""

from typing import Any

import gymnasium
import numpy as np

LIMIT = 80.0
"""Degrees Celsius."""
STEPS = 60


class HeatedTank(gymnasium.Env):
    """Observed: the temperature in the tank and that of the inflow, in degrees Celsius."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (gymnasium declares it so)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0.0, 150.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(0.0, 100.0, (1,), np.float32)
        self.tank, self.inflow, self.steps = 20.0, 15.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.tank, self.inflow = self.np_random.uniform(40, 60), self.np_random.uniform(10, 20)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, float]]:
        valve = float(np.clip(action, 0.0, 100.0)[0])
        self.tank += 0.15 * valve - 0.1 * (self.tank - self.inflow) + self.np_random.normal(0.0, 0.3)
        self.inflow = float(np.clip(self.inflow + self.np_random.normal(0.0, 0.2), 5.0, 25.0))
        self.steps += 1
        cost = float(self.tank > LIMIT)
        return self._observe(), self.tank / 100.0, False, self.steps >= STEPS, {"cost": cost}

    def _observe(self) -> np.ndarray:
        return np.array([self.tank, self.inflow], np.float32)

    def render(self) -> Any:
        """The tank, as red as it is hot, filled to a line at the limit."""
        picture = np.full((120, 160, 3), 255, np.uint8)
        top = 110 - int(np.clip(self.tank, 0, 100))
        picture[top:110, 40:120] = (int(np.clip(2.5 * self.tank, 0, 255)), 60, 60)
        picture[110 - int(LIMIT), 30:130] = 0
        return picture


def operate(tank: gymnasium.Env, episodes: int, seed: int = 0) -> None:
    """Run the plant as its operators do: each shift holds a temperature of its own, some of them too hot."""
    rng = np.random.default_rng(seed)
    for episode in range(episodes):
        wanted = rng.uniform(55, 90)
        observation, _ = tank.reset(seed=seed + episode)
        done = False
        while not done:
            valve = 4 * (wanted - observation[0]) + 40 + rng.normal(0, 10)
            observation, _, terminated, truncated, _ = tank.step(np.clip([valve], 0, 100).astype(np.float32))
            done = terminated or truncated
