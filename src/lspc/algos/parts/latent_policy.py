"""Where a latent comes from: drawn near zero (LSPC-S), chosen by the latent safety encoder (LSPC-O), or plain noise.

The policies of an LSPC run share one decoder of actions and differ in nothing else.
"""

from typing import ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lspc.algos.base import Normaliser, Policy
from lspc.algos.parts.cvae import decode
from lspc.algos.parts.gaussian import moments
from lspc.algos.parts.iql import Twins
from lspc.errors import UserError
from lspc.nets import MLP


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


@runtime_checkable
class LatentConfig(Protocol):
    """The settings that the policies know of."""

    @property
    def latent_dim(self) -> int: ...
    @property
    def restriction(self) -> float: ...
    @property
    def restriction_range(self) -> tuple[float, float] | None: ...
    @property
    def safe_restriction(self) -> float: ...
    @property
    def latent_form(self) -> str: ...
    @property
    def smallest_box(self) -> float:
        """LSPC-O's latents may go this far at every eps."""
        ...


def largest_restriction(config: LatentConfig) -> float | None:
    """The end of the range that the encoder serves; none: it serves one restriction and is not told of it."""
    return None if config.restriction_range is None else config.restriction_range[1]


def rewarding_latents(
    encoder: MLP,
    observations: Float[Array, "*batch observation"],
    noise: Float[Array, "*batch latent"],
    restriction: Float[Array, "*#batch"],
    config: LatentConfig,
) -> Float[Array, "*batch latent"]:
    """LSPC-O: the latent safety encoder's choice, squashed into (-restriction, restriction) or the smallest box.

    An encoder that serves every restriction up to the largest is told which one, as a number from -1 to 1.
    """
    restriction = jnp.broadcast_to(restriction, observations.shape[:-1])[..., None]
    largest = largest_restriction(config)
    told = () if largest is None else (2.0 * restriction / largest - 1.0,)
    mean, log_std = moments(encoder(observations, *told), -10.0, 2.0)
    return jnp.maximum(restriction, config.smallest_box) * jnp.tanh(mean + jnp.exp(log_std) * noise)


class LspcPolicy(Policy):
    """LSPC-O, LSPC-S and the CVAE policy."""

    variants: ClassVar[tuple[str, ...]] = ("LSPC-O", "LSPC-S", "CVAE")

    decoder: MLP
    encoder: MLP
    normaliser: Normaliser
    reward_q: Twins
    cost_q: Twins
    restriction: Float[Array, ""]
    """eps of LSPC-O; `at` gives the same policy with another one."""
    config: LatentConfig = eqx.field(static=True)

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

    def act(
        self,
        observations: Float[Array, "*batch observation"],
        noise: Float[Array, "*batch latent"],
        variant: str,
        restriction: Float[Array, "*#batch"],
    ) -> Float[Array, "*batch action"]:
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
