"""Is this machine ready? Each check looks at one thing lspc needs and, where it fails, names the cure.

Things that are only nice to have are marked optional; their absence is no failure.
"""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

import numpy as np

from lspc.sims.pool import usable_cores

INSTALL_BULLET = "pip install bullet-safety-gym==1.4.0 pybullet==3.2.7"
NOT_USED = "nothing to do: this version of lspc runs the bullet suite and does not use it"
MIN_MEMORY_GB = 4.0


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    detail: str
    fix: str = ""
    """The command that mends it; empty when all is well."""
    optional: bool = False


def checks() -> list[Check]:
    """Everything worth knowing about this machine; `all(check.ok or check.optional ...)` means ready."""
    needed = core_requirements()
    return [
        _python(),
        _guarded("jax", _jax, f"pip install '{needed.pop('jax', 'jax')}'"),
        *(_package(name, requirement) for name, requirement in needed.items()),
        _guarded("simulator: bullet", _bullet, INSTALL_BULLET),
        _unused_simulator("safety_gymnasium"),
        _unused_simulator("metadrive"),
        _package("tensorboard", "tensorboard", optional=True),
        _machine(),
    ]


def _guarded(name: str, look: Callable[[], str], fix: str) -> Check:
    """Whatever goes wrong inside someone else's library is a finding here, not a crash."""
    try:
        return Check(name, True, look())
    except Exception as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Check(name, False, first_line, fix)


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


def _bullet() -> str:
    """Really build a world and move it: an installed package can still lack a library it needs."""
    from lspc.sims import make
    from lspc.tasks import get_task

    task = get_task("BallRun")
    simulator = make(task)
    try:
        simulator.reset(seed=0)
        step = simulator.step(np.zeros(task.action_dim, np.float32))
    finally:
        simulator.close()
    if not np.isfinite(step.observation).all():
        raise RuntimeError("BallRun runs, but its first observation is not finite")
    versions = f"bullet-safety-gym {version('bullet-safety-gym')}, pybullet {version('pybullet')}"
    return f"{versions}; BallRun runs"


def _unused_simulator(package: str) -> Check:
    found = find_spec(package) is not None
    detail = "installed, not used by this version" if found else "not installed, not used by this version"
    return Check(f"simulator: {package}", found, detail, "" if found else NOT_USED, optional=True)


def _machine() -> Check:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ok = memory >= MIN_MEMORY_GB
    detail = f"{usable_cores()} usable cores, {memory:.1f} GB of memory"
    return Check("machine", ok, detail, "" if ok else f"use a machine with {MIN_MEMORY_GB:g} GB", optional=True)
