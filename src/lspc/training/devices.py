"""Which device trains which seed, and with how many threads.

The data are replicated, the seeds sharded over all that the machine has.
"""

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from lspc import files
from lspc.errors import UserError
from lspc.runs import layout
from lspc.system import ONE_THREAD, busy_cores, usable_cores

SMALL = 256 * 256
"""Batch size times the widest layer up to which a second thread gains little."""


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


def choose_threads(asked: int | None, seeds: int, config: Any) -> int:
    """How many threads each seed gets: as many as asked for, else all cores, shared by the seeds that run at a time.

    Small networks get one where other programs keep half of the cores busy: threads that wait for each other on a
    busy machine are slower than one alone.
    """
    cores = usable_cores()
    if asked is not None:
        if asked < 1:
            raise UserError(f"threads is {asked}; choose 1 or more, preferably at most {cores}, the number of cores")
        return asked
    small = hasattr(config, "hidden") and config.batch_size * max(config.hidden, default=1) <= SMALL
    if small and busy_cores() > cores / 2:
        return 1
    return max(1, cores // min(seeds, cores))


def use_threads(threads: int, seeds: int) -> None:
    """Before JAX computes anything; where XLA's threads have been set from outside, that stands."""
    flags = os.environ.get("XLA_FLAGS", "")
    if threads == 1 and "multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD['XLA_FLAGS']}".strip()
    elif threads > 1:  # the size of the one pool of threads that all devices share, by XLA's name for it
        os.environ.setdefault("NPROC", str(threads * min(seeds, usable_cores())))


def describe_threads(seeds: int) -> int:
    """How many threads each seed has by now, as XLA was told; they decide in which order sums are rounded."""
    if "multi_thread_eigen=false" in os.environ.get("XLA_FLAGS", ""):
        return 1
    return max(1, int(os.environ.get("NPROC") or usable_cores()) // min(seeds, usable_cores()))


def recall_threads(out: Path) -> int | None:
    """With how many threads the run in `out` (or those of a sweep below it) began: it goes on with them."""
    for path in sorted([*out.glob(layout.THREADS), *out.glob(f"*/{layout.THREADS}")]):
        found = files.read_json(path)
        if isinstance(found, dict) and isinstance(found.get("threads"), int):
            return found["threads"]
    return None


def remember_threads(out: Path, seeds: int) -> None:
    """For whoever goes on with the run; one that goes on with others is told."""
    kept, now = recall_threads(out), describe_threads(seeds)
    if kept is None:
        files.write_json(out / layout.THREADS, {"threads": now})
    elif kept != now:
        warnings.warn(
            f"{out}: began with {kept} thread(s) for each seed, continues with {now}: it will not end bit for bit "
            "where an uninterrupted run ends",
            stacklevel=2,
        )


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
