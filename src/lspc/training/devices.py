"""Which device trains which seed: the data are replicated, the seeds sharded over all that the machine has."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from lspc.errors import UserError
from lspc.system import usable_cores


def use(device: str | None) -> None:
    """Compute on devices of this kind (cpu, gpu, tpu) from now on; none leaves the choice to JAX."""
    if device is None:
        return
    before = jax.config.jax_platforms  # pyrefly: ignore [missing-attribute]
    try:
        jax.config.update("jax_platforms", device)
        found = jax.default_backend()
    except RuntimeError:
        found = None
    if found != device:
        jax.config.update("jax_platforms", before)
        if found is None:
            raise UserError(f"--device {device}: JAX finds none on this machine; `lspc doctor` shows what it finds")
        raise UserError(
            f"--device {device}: this process computes on {found} already; choose the device before anything else"
        )


def use_one_device_per_seed(seeds: int) -> None:
    """On a machine without accelerators, make a device of each core, up to one per seed.

    One seed's networks are too small to keep two cores busy.
    """
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with suppress(RuntimeError):  # in a program that has computed something already it is too late
            jax.config.update("jax_num_cpu_devices", min(seeds, usable_cores()))


def replicate(tree: Any, seeds: int) -> Any:
    """A copy of `tree` on each device that has a seed to work on."""
    return jax.device_put(tree, NamedSharding(_make_mesh(seeds), PartitionSpec()))


def shard_over_seeds(work: Callable[..., Any], seeds: int) -> Callable[..., Any]:
    """`work(states, seeds, *shared)` on every device at once, each with its part of the seeds.

    Where the seeds do not divide evenly, the last one is computed again to fill the gap.
    """
    mesh = _make_mesh(seeds)
    if mesh.size == 1:
        return work
    per_seed, replicated = PartitionSpec("seeds"), PartitionSpec()
    sharded = jax.shard_map(
        lambda states, numbers, shared: work(states, numbers, *shared), mesh=mesh,
        in_specs=(per_seed, per_seed, replicated), out_specs=per_seed, check_vma=False,
    )  # fmt: skip
    padding = jnp.minimum(jnp.arange(seeds + -seeds % mesh.size), seeds - 1)

    def pad_and_work(states: Any, numbers: Array, *shared: Any) -> Any:
        states, numbers = jax.tree.map(lambda leaf: leaf[padding], (states, numbers))
        return jax.tree.map(lambda leaf: leaf[:seeds], sharded(states, numbers, shared))

    return pad_and_work


def _make_mesh(seeds: int) -> Mesh:
    """The devices that have a seed to work on."""
    return Mesh(np.array(jax.devices()[:seeds]), ("seeds",))
