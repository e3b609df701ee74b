"""On what kind of device a run trains, and with how many threads for each seed."""

import os
import warnings
from pathlib import Path
from typing import Any

import jax

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
