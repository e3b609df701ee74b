"""Lanes: training seeds, or members of an ensemble, that take the same steps side by side, on every device a part.

What they share is replicated, the lanes are sharded over the devices.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from lspc.system import usable_cores


def use_one_device_per_lane(lanes: int) -> None:
    """On a machine without accelerators, make a device of each core, up to one per lane.

    One lane's networks are too small to keep two cores busy.
    """
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with suppress(RuntimeError):  # in a program that has computed something already it is too late
            jax.config.update("jax_num_cpu_devices", min(lanes, usable_cores()))


def replicate(tree: Any, lanes: int) -> Any:
    """A copy of the arrays of `tree` on each device that has a lane to work on."""
    arrays, rest = eqx.partition(tree, eqx.is_array_like)
    return eqx.combine(jax.device_put(arrays, NamedSharding(_make_mesh(lanes), PartitionSpec())), rest)


def bring_home(tree: Any) -> Any:
    """On the first device, where what knows of no lanes goes on."""
    return jax.device_put(tree, jax.devices()[0])


def shard(work: Callable[..., Any], lanes: int) -> Callable[..., Any]:
    """`work(states, numbers, *shared)` on every device at once, each with its part of the lanes.

    Where the lanes do not divide evenly, the last one is computed again to fill the gap.
    """
    mesh = _make_mesh(lanes)
    if mesh.size == 1:
        return work
    per_lane, replicated = PartitionSpec("lanes"), PartitionSpec()
    sharded = jax.shard_map(
        lambda states, numbers, shared: work(states, numbers, *shared), mesh=mesh,
        in_specs=(per_lane, per_lane, replicated), out_specs=per_lane, check_vma=False,
    )  # fmt: skip
    padding = jnp.minimum(jnp.arange(lanes + -lanes % mesh.size), lanes - 1)

    def pad_and_work(states: Any, numbers: Array, *shared: Any) -> Any:
        states, numbers = jax.tree.map(lambda leaf: leaf[padding], (states, numbers))
        return jax.tree.map(lambda leaf: leaf[:lanes], sharded(states, numbers, shared))

    return pad_and_work


def _make_mesh(lanes: int) -> Mesh:
    """The devices that have a lane to work on."""
    return Mesh(np.array(jax.devices()[:lanes]), ("lanes",))
