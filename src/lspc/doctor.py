"""Is this machine ready? Each check looks at one thing lspc needs and, where it fails, names the cure.

Things that are only nice to have are marked optional; their absence is no failure.
"""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

import numpy as np

from lspc.system import usable_cores
from lspc.tasks import SUITES, Suite, get_task

MIN_MEMORY_GB = 4.0


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    detail: str
    fix: str = ""
    """The command that mends it; empty when all is well."""
    optional: bool = False


def run_checks() -> list[Check]:
    """Everything worth knowing about this machine; `all(check.ok or check.optional ...)` means ready."""
    needed = core_requirements()
    return [
        _python(),
        _look_into("jax", _jax, f"pip install '{needed.pop('jax', 'jax')}'"),
        *(_package(name, requirement) for name, requirement in needed.items()),
        # Training on a file needs no simulator, so a missing one is no failure.
        *map(_simulator, SUITES.values()),
        _package("tensorboard", "tensorboard", optional=True),
        _package("wandb", "wandb", optional=True),
        _machine(),
    ]


def _look_into(name: str, look: Callable[[], str], fix: str, optional: bool = False) -> Check:
    """Whatever goes wrong inside someone else's library is a finding here, not a crash."""
    try:
        return Check(name, True, look(), optional=optional)
    except Exception as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Check(name, False, first_line, fix, optional)


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check("python", ok, sys.version.split()[0], "" if ok else "install Python 3.11 and make a new .venv")


def _jax() -> str:
    import jax

    devices = ", ".join(f"{device.platform}:{device.id} ({device.device_kind})" for device in jax.devices())
    return f"{jax.__version__} on {devices}"


def core_requirements() -> dict[str, str]:
    """What lspc itself says it needs: package name to pip requirement, such as `h5py` to `h5py>=3.11`."""
    lines = [line for line in requires("lspc") or [] if "extra ==" not in line]
    return {re.split(r"[^\w.-]", line, maxsplit=1)[0]: line for line in lines}


def _package(name: str, requirement: str, optional: bool = False) -> Check:
    try:
        return Check(name, True, version(name), optional=optional)
    except PackageNotFoundError:
        return Check(name, False, "not installed", f"pip install '{requirement}'", optional)


def _simulator(suite: Suite) -> Check:
    """Really build a world and move it: an installed package can still lack a library it needs."""

    def look() -> str:
        from lspc.sims import make

        task = get_task(suite.trial_task)
        simulator = make(task, pictures=False)
        try:
            simulator.reset(seed=0)
            step = simulator.step(np.zeros(task.action_dim, np.float32))
        finally:
            simulator.close()
        if not np.isfinite(step.observation).all():
            raise RuntimeError(f"{task.name} runs, but its first observation is not finite")
        versions = ", ".join(f"{name} {version(name)}" for name in suite.distributions)
        return f"{versions}; {task.name} runs"

    return _look_into(f"simulator: {suite.name}", look, suite.install, suite.optional)


def _machine() -> Check:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ok = memory >= MIN_MEMORY_GB
    detail = f"{usable_cores()} usable cores, {memory:.1f} GB of memory"
    return Check("machine", ok, detail, "" if ok else f"use a machine with {MIN_MEMORY_GB:g} GB", optional=True)
