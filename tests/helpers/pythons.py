"""Environments with nothing in them but what pip is told to put there, for this Python and for others."""

import re
import shutil
import subprocess
import sys
import tomllib
from hashlib import sha256
from importlib.metadata import Distribution, distribution
from pathlib import Path

HERE = Path(__file__).parents[2]
KEPT = HERE / ".pytest_cache" / "d" / "pythons"
"""Environments of other Pythons: filling one takes a minute, so that it stays until what it should hold changes."""


def run(*command: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program that sees nothing of this test run's own paths."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=800, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), **environment},
    )  # fmt: skip
    return done


def find_python(version: str) -> Path | None:
    """A Python of this version, such as "3.13", that starts."""
    found = [shutil.which(f"python{version}"), *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for candidate in filter(None, found):
        if run(candidate, "-c", "import venv").returncode == 0:
            return Path(candidate)
    return None


def build_wheel(out: Path) -> Path:
    """The package as it would be published, built from a copy: building leaves files beside the source."""
    copy = out / "source"
    copy.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(HERE / name, copy)
    shutil.copytree(HERE / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(copy)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("lspc-*.whl")
    return wheel


def copy_environment(folder: Path, wheel: Path) -> Path:
    """An environment of this Python with the wheel and what it requires, linked from where that is installed here.

    It holds what `pip install WHEEL` would leave, without the minute that takes; returns its Python.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    install = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--target",
        site,
        wheel,
    )
    subprocess.run([str(word) for word in install], check=True)
    (about,) = site.glob("lspc-*.dist-info")
    done, waiting = set[str](), requirements(Distribution.at(about))
    while waiting:
        name = waiting.pop()
        if name not in done:
            done.add(name)
            found = distribution(name)
            waiting |= requirements(found)
            link_files(found, site)
    return folder / "bin" / "python"


def requirements(of: Distribution) -> set[str]:
    """The names of what a distribution needs on this Python, without its extras."""
    here = [line for line in of.requires or [] if "extra ==" not in line and applies(line)]
    return {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line)[0]).lower() for line in here}


def applies(requirement: str) -> bool:
    from packaging.requirements import Requirement

    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate()


def link_files(found: Distribution, site: Path) -> None:
    tops = {Path(str(file)).parts[0] for file in found.files or [] if Path(str(file)).parts[0] != ".."}
    for top in tops - {"__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(found.locate_file(top))))


def fill_environment(python: Path, version: str, wheel: Path, extras: str, fixed: Path) -> Path:
    """An environment of another Python, filled by pip with the wheel and its extras; returns its Python."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    asked = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras.split(","))]
    folder = KEPT / f"{version}-{sha256(f'{asked}{fixed.read_text()}'.encode()).hexdigest()[:12]}"
    inside = folder / "bin" / "python"
    if not (folder / "filled").exists():
        for old in KEPT.glob(f"{version}-*"):
            shutil.rmtree(old)
        done = run(python, "-m", "venv", folder)
        assert done.returncode == 0, done.stderr
        install = (
            inside,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
            "-c",
            fixed,
        )
        done = run(*install, f"{wheel}[{extras}]")
        assert done.returncode == 0, done.stderr
        (folder / "filled").touch()
    else:
        again = (inside, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--force-reinstall", wheel)
        done = run(*again)
        assert done.returncode == 0, done.stderr
    return inside
