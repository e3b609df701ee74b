"""The doctor: finds this machine healthy, and tells the cure where something is missing or broken."""

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


def test_a_missing_simulator_is_a_failure_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    without_packages(monkeypatch, "bullet")
    bullet = by_name()["simulator: bullet"]
    assert not bullet.ok
    assert not bullet.optional
    assert bullet.fix == "pip install bullet-safety-gym==1.4.0 pybullet==3.2.7"


@pytest.mark.parametrize("suite", ["safety_gymnasium", "metadrive"])
def test_the_other_simulators_are_optional(monkeypatch: pytest.MonkeyPatch, suite: str) -> None:
    without_packages(monkeypatch, suite)
    check = by_name()[f"simulator: {suite}"]
    assert (check.ok, check.optional, check.fix) == (False, True, "make simulators")
    assert "no_such_package, which is missing" in check.detail


def test_missing_packages_are_told_with_the_version_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_is_installed(name: str) -> str:
        raise doctor.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", nothing_is_installed)
    found = by_name()
    assert not found["h5py"].ok
    assert found["h5py"].fix == "pip install 'h5py>=3.11'"
    for tracker in ("tensorboard", "wandb"):
        assert found[tracker].optional
        assert not found[tracker].ok
    assert not found["simulator: bullet"].ok
