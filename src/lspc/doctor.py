"""Is this machine ready? Each check looks at one thing lspc needs and, where it fails, says how to fix it.

The extras and the simulators are optional; their absence is no failure.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import numpy as np

from lspc.system import usable_cores
from lspc.tasks import SUITES, Suite, get_task
from lspc.tasks.suites import NEWEST_PYTHON
from lspc.version import __version__

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
    needed = find_requirements()
    core, simulators = needed.pop("", {}), {suite.extra for suite in SUITES.values()}
    return [
        _python(),
        _lspc(),
        _look_into("jax", _jax, f"{pip()} install '{core.pop('jax', 'jax')}'"),
        *(_package(name, requirement) for name, requirement in core.items()),
        *(_extra(name, list(packages)) for name, packages in needed.items() if name not in simulators | {"dev"}),
        *map(_simulator, SUITES.values()),
        _machine(),
    ]


def pip() -> str:
    """How a user calls the pip of this environment: by its short name where the shell would find that one."""
    found = shutil.which("pip")
    ours = found is not None and Path(found).parent == Path(sys.executable).parent
    return "pip" if ours else f"{sys.executable} -m pip"


def _look_into(name: str, look: Callable[[], str], fix: str, optional: bool = False) -> Check:
    """Whatever goes wrong inside someone else's library is a finding here, not a crash."""
    try:
        return Check(name, True, look(), optional=optional)
    except Exception as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Check(name, False, first_line, fix, optional)


def _python() -> Check:
    return Check("python", True, f"{sys.version.split()[0]} ({sys.executable})")


def _lspc() -> Check:
    """Its version, and whether pip knows of it: without that nobody can say what it requires."""
    try:
        return Check("lspc", True, version("lspc"))
    except PackageNotFoundError:
        source = Path(__file__).parents[2]
        told = f"{__version__}, run from {source} without being installed: its requirements are not known"
        return Check("lspc", False, told, f"{pip()} install {source}", optional=True)


def _jax() -> str:
    import jax

    devices = ", ".join(f"{device.platform}:{device.id} ({device.device_kind})" for device in jax.devices())
    return f"{jax.__version__} on {devices}"


def find_requirements() -> dict[str, dict[str, str]]:
    """What lspc says it needs: for each extra ("" is lspc itself) package name to pip requirement."""
    try:
        lines = requires("lspc") or []
    except PackageNotFoundError:
        lines = []
    needed: dict[str, dict[str, str]] = {}
    for line in lines:
        extra = re.search(r"""extra == ['"]([\w-]+)""", line)
        requirement = line.partition(";")[0].strip()
        packages = needed.setdefault(extra[1] if extra else "", {})
        packages.setdefault(re.split(r"[^\w.-]", requirement, maxsplit=1)[0], requirement)
    return needed


def _package(name: str, requirement: str) -> Check:
    return _look_into(name, lambda: _version(name), f"{pip()} install '{requirement}'")


def _extra(name: str, packages: Sequence[str]) -> Check:
    def look() -> str:
        return ", ".join(f"{package} {_version(package)}" for package in packages)

    return _look_into(f"extra: {name}", look, f"{pip()} install 'lspc[{name}]'", optional=True)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError as error:
        raise RuntimeError(f"{name} is not installed") from error


def install_command(suite: Suite) -> str:
    """What installs the simulator of a suite, or the Python that could."""
    if sys.version_info[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        return f"needs Python {newest}: its packages have no wheels for later versions"
    first = f"{pip()} install 'lspc[{suite.extra}]'"
    return f"{first} && {pip()} install --no-deps {' '.join(suite.alone)}" if suite.alone else first


def _simulator(suite: Suite) -> Check:
    """Really build a world and move it: an installed package can still lack a library it needs."""

    def look() -> str:
        from lspc.sims import make, missing_packages

        if missing := missing_packages(suite):
            raise RuntimeError(f"not installed: {', '.join(missing)}")
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

    return _look_into(f"simulator: {suite.name}", look, install_command(suite), optional=True)


def _machine() -> Check:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ok = memory >= MIN_MEMORY_GB
    detail = f"{usable_cores()} usable cores, {memory:.1f} GB of memory"
    return Check("machine", ok, detail, "" if ok else f"use a machine with {MIN_MEMORY_GB:g} GB", optional=True)
