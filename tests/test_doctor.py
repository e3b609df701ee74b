"""The doctor: finds this machine healthy, and gives the command where something is missing or broken."""

from dataclasses import replace

import pytest

from lspc import doctor
from lspc.tasks import SUITES

pytestmark = pytest.mark.simulator


def by_name() -> dict[str, doctor.Check]:
    return {check.name: check for check in doctor.run_checks()}


def without_packages(monkeypatch: pytest.MonkeyPatch, suite: str) -> None:
    monkeypatch.setitem(SUITES, suite, replace(SUITES[suite], packages=("no_such_package",)))


def test_a_healthy_machine_passes() -> None:
    found = by_name()
    assert all(check.ok or check.optional for check in found.values())
    assert {"python", "jax", "numpy", "h5py", "simulator: bullet", "simulator: metadrive", "machine"} <= set(found)
    assert "cpu" in found["jax"].detail or "gpu" in found["jax"].detail
    for suite in SUITES.values():
        assert f"{suite.trial_task} runs" in found[f"simulator: {suite.name}"].detail
    assert all("\n" not in check.detail + check.fix for check in found.values())
    assert all(check.fix for check in found.values() if not check.ok)


@pytest.mark.parametrize(
    ("suite", "then"),
    [
        ("bullet", ""),
        ("safety_gymnasium", " install --no-deps safety-gymnasium==0.4.1"),
        ("metadrive", " install --no-deps metadrive-simulator==0.2.6.0"),
    ],
)
def test_a_missing_simulator_is_optional_and_comes_with_its_command(
    monkeypatch: pytest.MonkeyPatch, suite: str, then: str
) -> None:
    without_packages(monkeypatch, suite)
    check = by_name()[f"simulator: {suite}"]
    assert (check.ok, check.optional) == (False, True)
    assert check.fix.startswith(f"{doctor.pip()} install 'lspc[{SUITES[suite].extra}]'")
    assert check.fix.endswith(then)
    assert check.detail == "not installed: no_such_package"


def test_the_simulators_of_a_later_python_are_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys, "version_info", (3, 13, 0, "final", 0))
    assert doctor.install_command(SUITES["bullet"]).startswith("needs Python 3.11: ")


def test_missing_packages_are_told_with_the_version_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_is_installed(name: str) -> str:
        raise doctor.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", nothing_is_installed)
    found = by_name()
    assert not found["h5py"].ok
    assert found["h5py"].detail == "h5py is not installed"
    assert found["h5py"].fix == f"{doctor.pip()} install 'h5py>=3.11'"
    for extra in ("track", "deploy", "data"):
        check = found[f"extra: {extra}"]
        assert (check.ok, check.optional) == (False, True)
        assert check.fix == f"{doctor.pip()} install 'lspc[{extra}]'"
    assert not found["simulator: bullet"].ok


def test_a_checkout_that_was_never_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise doctor.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", unknown)
    monkeypatch.setattr(doctor, "version", unknown)
    check = by_name()["lspc"]
    assert (check.ok, check.optional) == (False, True)
    assert "without being installed" in check.detail
    assert " install " in check.fix


def test_pip_is_named_so_that_the_shell_finds_this_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys, "executable", "/some/venv/bin/python")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/some/venv/bin/pip")
    assert doctor.pip() == "pip"
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/pip")
    assert doctor.pip() == "/some/venv/bin/python -m pip"
