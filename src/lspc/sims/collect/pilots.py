"""A hand-written pilot for DroneCircle, in many manners: learners of 60,000 steps earn less than all of DSRL's data.

It flies by the observation alone, as a policy does: a wanted velocity becomes a wanted tilt, and the tilt a
difference between opposite rotors.
"""

import math
from dataclasses import dataclass

import numpy as np

GRAVITY = 9.81
FULL_RADIUS = 7.0
"""Of the circle that pays most; beyond six metres to the left or right of its centre every step costs 1."""


@dataclass(frozen=True)
class CirclePilot:
    """Flies round the origin clockwise."""

    speed: float
    radius: float
    height: float
    noise: float
    # Found by a random search for what follows speed and radius best.
    radius_gain: float = 0.41
    velocity_gain: float = 0.94
    tilt_gain: float = 2.2
    tilt_rate_gain: float = 0.59
    height_gain: float = 1.5
    climb_gain: float = 0.21
    largest_tilt: float = 0.31

    def act(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        position, velocity, spin = observation[:3] * 10.0, observation[3:6] * 5.0, observation[10:13] * 10.0
        roll, pitch, yaw = find_angles(*observation[6:10].tolist())
        wanted_x, wanted_y = self._acceleration(position, velocity)
        ahead, left = (math.cos(yaw), math.sin(yaw)), (-math.sin(yaw), math.cos(yaw))
        forward = self._tilt(wanted_x * ahead[0] + wanted_y * ahead[1]) - pitch
        sideways = -self._tilt(wanted_x * left[0] + wanted_y * left[1]) - roll
        pitch_rate = float(spin[0] * left[0] + spin[1] * left[1])
        roll_rate = float(spin[0] * ahead[0] + spin[1] * ahead[1])
        nose_down = self.tilt_gain * forward - self.tilt_rate_gain * pitch_rate
        right_down = self.tilt_gain * sideways - self.tilt_rate_gain * roll_rate
        lift = self.height_gain * (self.height - position[2]) - self.climb_gain * velocity[2]
        lift += 5.0 * (1.0 / max(0.5, math.cos(roll) * math.cos(pitch)) - 1.0)  # a tilted rotor carries less
        rotors = np.array([lift - nose_down, lift - right_down, lift + nose_down, lift + right_down])
        return np.clip(rotors + self.noise * rng.normal(size=4), -1.0, 1.0).astype(np.float32)

    def _acceleration(self, position: np.ndarray, velocity: np.ndarray) -> tuple[float, float]:
        """Wanted along x and y: onto the path, at its speed, and round its bend."""
        distance = float(np.hypot(*position[:2])) + 1e-6
        out = position[:2] / distance
        along = np.array([out[1], -out[0]])
        outward = max(-1.5, min(1.5, self.radius_gain * (self.radius - distance)))
        bend = float(velocity[:2] @ along) ** 2 / distance
        wanted = self.velocity_gain * (self.speed * along + outward * out - velocity[:2]) - bend * out
        return float(wanted[0]), float(wanted[1])

    def _tilt(self, acceleration: float) -> float:
        return max(-self.largest_tilt, min(self.largest_tilt, acceleration / GRAVITY))


def find_angles(x: float, y: float, z: float, w: float) -> tuple[float, float, float]:
    """Roll, pitch and yaw of a quaternion."""
    return (
        math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x)))),
        math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )


def draw_pilot(rng: np.random.Generator) -> CirclePilot:
    """Most of them fly inside the lines that cost, from well inside to right at them; the others where it pays."""
    careful = rng.random() < 0.7
    return CirclePilot(
        speed=float(rng.uniform(3.0, 4.4) if careful else rng.uniform(2.0, 5.5)),
        radius=float(rng.uniform(5.0, 6.1) if careful else rng.uniform(6.0, FULL_RADIUS + 0.5)),
        height=float(rng.uniform(1.0, 2.0)),
        noise=float(rng.choice([0.02, 0.05, 0.1])),
    )
