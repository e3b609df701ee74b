"""Which device trains which seed: the seeds of a run are shared out among all that the machine has."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from lspc.system import usable_cores


def one_core_per_seed(seeds: int) -> None:
    """On a machine without accelerators, let its cores share out the seeds: small networks cannot keep two busy."""
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with suppress(RuntimeError):  # in a program that has computed something already it is too late
            jax.config.update("jax_num_cpu_devices", min(seeds, usable_cores()))


def everywhere(seeds: int) -> NamedSharding:
    """A copy for each device that has a seed to work on."""
    return NamedSharding(_mesh(seeds), PartitionSpec())


def _mesh(seeds: int) -> Mesh:
    """The devices that have a seed to work on."""
    return Mesh(np.array(jax.devices()[:seeds]), ("seeds",))


def shared_out(work: Callable[..., Any], seeds: int) -> Callable[..., Any]:
    """`work` on every device at once, each with its part of the seeds; a device too many repeats the last seed."""
    mesh = _mesh(seeds)
    if mesh.size == 1:
        return work
    one_each = PartitionSpec("seeds")
    on_each = jax.shard_map(
        work, mesh=mesh, in_specs=(one_each, one_each, PartitionSpec(), PartitionSpec()), out_specs=one_each,
        check_vma=False,
    )  # fmt: skip
    places = jnp.minimum(jnp.arange(seeds + -seeds % mesh.size), seeds - 1)

    def padded(states: Any, numbers: Array, table: Any, start: Array) -> Any:
        states, numbers = jax.tree.map(lambda leaf: leaf[places], (states, numbers))
        return jax.tree.map(lambda leaf: leaf[:seeds], on_each(states, numbers, table, start))

    return padded
