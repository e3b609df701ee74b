"""Between the user's units of reward and cost and those of a critic, who learns values of one size in any of them."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lspc.algos.base import Spec
from lspc.algos.parts.iql import CriticReport, Twins
from lspc.nets import MLP


class Units(eqx.Module):
    scale: Float[Array, ""]
    mean_value: Float[Array, ""]
    """In the user's units, value of the data's mean step repeated for ever: what the critic knows as 0."""
    largest: Float[Array, ""]
    """In the critic's units, value of the largest step repeated for ever."""

    def to_critic(self, steps: Float[Array, " batch"], discount: float) -> Float[Array, " batch"]:
        return self.scale * (steps - (1.0 - discount) * self.mean_value)

    def to_user(self, values: Float[Array, " *batch"]) -> Float[Array, " *batch"]:
        return values / self.scale + self.mean_value

    def report_to_user(self, report: CriticReport) -> CriticReport:
        """With its values in the user's units; advantages stay in the critic's."""
        return report._replace(value=self.to_user(report.value), q=self.to_user(report.q))

    def largest_of_user(self) -> float:
        """In the user's units, the largest value that the data allow; 1 where they hold none."""
        return float(self.largest / self.scale) + abs(float(self.mean_value)) or 1.0

    def convert_twins(self, q: Twins) -> Twins:
        """The same networks, answering in the user's units."""

        def convert(net: MLP) -> MLP:
            last = net.layers[-1]
            new = last.weight / self.scale, self.to_user(last.bias)
            return eqx.tree_at(lambda n: (n.layers[-1].weight, n.layers[-1].bias), net, new)

        return convert(q[0]), convert(q[1])


def scaled_rewards(spec: Spec, discount: float) -> Units:
    """Episodes, if all were as long as the longest, spread over 100; an offset of all rewards is nothing."""
    scale = 100.0 / spec.reward_spread if spec.reward_spread > 0.0 else 1.0
    return _make(scale, spec.reward_mean, spec.largest_reward + abs(spec.reward_mean), discount)


def scaled_costs(spec: Spec, discount: float) -> Units:
    """The costliest episode costs 100, and what costs nothing costs nothing."""
    return _make(
        100.0 / spec.cost_return_max if spec.cost_return_max > 0.0 else 1.0, 0.0, spec.largest_cost, discount
    )


def as_they_are(largest: float, discount: float) -> Units:
    return _make(1.0, 0.0, largest, discount)


def _make(scale: float, mean: float, largest: float, discount: float) -> Units:
    horizon = 1.0 / (1.0 - discount)
    return Units(jnp.float32(scale), jnp.float32(mean * horizon), jnp.float32(scale * largest * horizon))
