"""The wheel, as somebody else installs it: what is in it, and that all of the core works with nothing else around."""

import email
import json
import os
import re
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import pythons

import lspc
from lspc.tasks import SUITES

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[1]
WALK = ROOT / "tests" / "helpers" / "core_walk.py"
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
SMALL_JAX = {name: value for name, value in os.environ.items() if name.startswith(("JAX_", "XLA_", "OMP_"))}
"""Settings of helpers/environment.py, with the cache of what was compiled before."""

LATER = os.environ.get("LSPC_PYTHONS", "3.13").split()
"""Other Pythons to walk on. Filling an environment takes a minute, so the ones between are left to `make wheels`."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pythons.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and what it requires: no extra, no simulator."""
    return pythons.copy_environment(tmp_path_factory.mktemp("alone") / "venv", wheel)


def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.startswith(f"lspc-{lspc.__version__}.dist-info/")}
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "lspc").rglob("*")}
    assert inside == {name for name in source if "__pycache__" not in name and "." in Path(name).name}
    assert {"lspc/py.typed", "lspc/tasks/dsrl_tasks.csv", "lspc/report/web/page.html"} <= inside


def test_its_metadata_say_what_a_package_index_shows(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        said = email.message_from_bytes(archive.read(f"lspc-{lspc.__version__}.dist-info/METADATA"))
        points = archive.read(f"lspc-{lspc.__version__}.dist-info/entry_points.txt").decode()
    assert (said["Name"], said["Version"], said["License-Expression"]) == ("lspc", lspc.__version__, "Apache-2.0")
    assert said["Requires-Python"] == ">=3.11"
    assert said["Summary"]
    assert said["Keywords"]
    assert str(said.get_payload()).startswith("# lspc")
    versions = [name for name in said.get_all("Classifier", []) if re.search(r"3\.\d+$", name)]
    assert [name.rpartition(" ")[2] for name in versions] == ["3.11", "3.12", "3.13"]
    assert set(said.get_all("Provides-Extra", [])) == EXTRAS
    assert "lspc = lspc.__main__:main" in points


def test_all_of_the_core_works_without_extras_and_simulators(alone: Path, tmp_path: Path) -> None:
    done = pythons.run(alone, WALK, ROOT / "examples", cwd=tmp_path, **SMALL_JAX)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "walked"
    for arguments, told in [
        (("fit", "tank.hdf5", "--budget", "5"), "onnx is not installed: pip install 'lspc[deploy]'"),
        (("export", "run"), "onnx is not installed: pip install 'lspc[deploy]'"),
        (("convert", "tank.hdf5", "tank.csv"), 'tables need pyarrow: pip install "lspc[data]"'),
        (("collect", "--task", "BallRun", "--out", "ball.hdf5"), "(not installed): `lspc doctor` says what to do"),
        (("evaluate", "run", "--on", "gym:Nothing-v0"), "gym:Nothing-v0: gymnasium cannot make it"),
    ]:
        refused = pythons.run(alone, "-m", "lspc", *arguments, cwd=tmp_path, **SMALL_JAX)
        assert refused.returncode == 1
        assert told in refused.stderr.splitlines()[-1]


def test_the_doctor_there_lists_every_extra_with_a_command_that_works_there(alone: Path, tmp_path: Path) -> None:
    done = pythons.run(alone, "-m", "lspc", "doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {check["name"]: check for check in json.loads(done.stdout)}
    extras = EXTRAS - {"dev"} - {suite.extra for suite in SUITES.values()}
    assert {f"extra: {name}" for name in extras} <= set(found)
    for name in extras:
        check = found[f"extra: {name}"]
        assert (check["ok"], check["optional"]) == (False, True)
        assert check["fix"] == f"{alone} -m pip install 'lspc[{name}]'"
    assert found["lspc"]["detail"] == lspc.__version__
    bullet, metadrive = found["simulator: bullet"], found["simulator: metadrive"]
    assert bullet["fix"] == f"{alone} -m pip install 'lspc[bullet]'"
    assert metadrive["fix"].endswith("install --no-deps metadrive-simulator==0.2.6.0")


@pytest.mark.parametrize("version", LATER)
def test_the_core_works_on_later_pythons(
    version: str, wheel: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """With current gymnasium, as a user of a later Python has it; the other packages at the versions tested here."""
    python = pythons.find_python(version)
    if python is None:
        record_property("not covered", f"the wheel on Python {version}: there is none on this machine")
        return
    fixed = tmp_path / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    fixed.write_text("\n".join(["gymnasium>=1", *(line for line in lines if not line.startswith("gymnasium"))]))
    inside = pythons.fill_environment(python, version, wheel, "data,deploy", fixed)
    done = pythons.run(inside, WALK, ROOT / "examples", "extras", cwd=tmp_path, **SMALL_JAX)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "walked"
    told = json.loads(pythons.run(inside, "-m", "lspc", "doctor", "--json", cwd=tmp_path).stdout)
    found = {check["name"]: check for check in told}
    assert found["extra: deploy"]["ok"]
    assert "no wheels for later versions" in found["simulator: bullet"]["fix"]
