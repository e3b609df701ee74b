"""A fleet of electric stores, for docs/own-fleet.md: batteries that buy and sell by the price and must not overheat.

Each unit keeps a Parquet file of its own in physical units, with a data logger's habits: rows as they arrived, lost
samples, a status text, a constant, and a cost that is not the one to learn from.
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

LIMIT = 38.0
"""Degrees Celsius of a cell: above it a step costs 1."""
POWER = 50.0
"""Most kilowatts that are bought (positive) or sold (negative)."""
CAPACITY = 400.0
"""Kilowatt hours."""
STEPS = 48
"""Half-hours of an episode: a day."""
LOSS = 0.05
"""Share of the power that becomes heat."""


def price_at(step: int, level: float) -> float:
    """Euros per kilowatt hour: dear in the evening, cheap at night."""
    return level * (0.2 + 0.12 * np.sin(2 * np.pi * (step / STEPS - 0.45)))


class ElectricStore(gymnasium.Env):
    """Observed: charge in kWh, temperatures of the cells and of the air, price in euros, hour of the day."""

    def __init__(self) -> None:
        low, high = np.array([0, -20, -20, 0, 0]), np.array([CAPACITY, 90, 50, 1, 24])
        self.observation_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))
        self.action_space = gymnasium.spaces.Box(-POWER, POWER, (1,), np.float32)
        self.charge, self.cells, self.air, self.level, self.steps = 200.0, 25.0, 20.0, 1.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.charge, self.air = self.np_random.uniform(150, 250), self.np_random.uniform(15, 28)
        self.cells, self.level, self.steps = self.air + 2, self.np_random.uniform(0.8, 1.2), 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, float]]:
        wanted = float(np.clip(action, -POWER, POWER)[0])
        power = float(np.clip(wanted, -2 * self.charge, 2 * (CAPACITY - self.charge)))  # for half an hour
        reward = -0.5 * power * price_at(self.steps, self.level)
        self.charge = float(np.clip(self.charge + 0.5 * power, 0.0, CAPACITY))
        heat = LOSS * abs(power) * (1 + abs(power) / POWER)
        self.cells += heat - 0.2 * (self.cells - self.air) + self.np_random.normal(0, 0.2)
        self.steps += 1
        return self._observe(), reward, False, self.steps >= STEPS, {"cost": float(self.cells > LIMIT)}

    def _observe(self) -> np.ndarray:
        price = price_at(self.steps, self.level)
        return np.array([self.charge, self.cells, self.air, price, 24 * self.steps / STEPS], np.float32)


def trade(observation: np.ndarray, greed: float, rng: np.random.Generator) -> float:
    """How operators trade: buy cheap, sell dear, some of them with more power than the cells can bear."""
    price, charge = observation[3], observation[0]
    wanted = 400 * greed * (0.2 - price) + rng.normal(0, 6)
    return float(np.clip(wanted, -min(POWER, 2 * charge), min(POWER, 2 * (CAPACITY - charge))))


def log_fleet(folder: str | Path, units: int = 8, days: int = 10, seed: int = 0) -> None:
    """One Parquet file for each unit: a row each half-hour, one row more after the last action of a day."""
    import pyarrow as pa
    import pyarrow.parquet

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for unit in range(units):
        rng = np.random.default_rng([seed, unit])
        rows: list[dict[str, Any]] = []
        for day in range(days):
            rows += log_day(unit, day, rng)
        kept = [row for row in rows if rng.random() > 0.002]  # lost on the way
        order = rng.permutation(len(kept))  # written as they arrive
        table = pa.Table.from_pylist([kept[i] for i in order])
        pyarrow.parquet.write_table(table, folder / f"unit-{unit:02d}.parquet")


def log_day(unit: int, day: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    store, greed = ElectricStore(), rng.uniform(0.3, 1.6)
    observation, _ = store.reset(seed=int(rng.integers(2**31)))
    midnight = np.datetime64("2026-01-01T00:00") + np.timedelta64(day, "D")
    rows = []
    for step in range(STEPS + 1):
        power = trade(observation, greed, rng)
        charge, cells, air, price, hour = (float(value) for value in observation)
        row: dict[str, Any] = {
            "unit": f"U{unit:02d}", "day": f"U{unit:02d}-{day:03d}",
            "time": (midnight + np.timedelta64(30 * step, "m")).astype("datetime64[us]").item(),
            "charge_kwh": charge, "cell_temp_c": cells, "air_temp_c": air, "price_eur_kwh": price, "hour": hour,
            "power_kw": power, "status": "charging" if power > 0 else "discharging",
            "firmware": 3, "wear_cost_eur": 0.01 * abs(power),
        }  # fmt: skip
        observation, reward, _, _, info = store.step(np.array([power], np.float32))
        rows.append({**row, "earned_eur": float(reward), "over_limit": bool(info["cost"])})
    return rows
