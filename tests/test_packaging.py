"""What pyproject.toml declares is what the package imports: nothing comes along by luck, nothing for nothing."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

import lspc

ROOT = Path(__file__).parents[1]
PACKAGE = Path(lspc.__file__).parent
INSTALLED = packages_distributions()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NO_DEPS = {"safety-gymnasium", "metadrive-simulator"}
"""Installed by the Makefile alone: what they declare cannot be installed."""
BEHIND = {"pybullet", "xmltodict", "pyyaml", "imageio", "glfw", "panda3d-gltf", "tqdm", "onnxruntime"}
"""Declared for other packages' imports, or for the program that an exported policy runs in."""
BY_NAME = {"mujoco", "mkdocs-material", "mkdocstrings"}
"""Imported by a string; the last two are named in mkdocs.yml."""
OPTIONAL = {"bench/cluster.py": "cluster", "deploy/onnx_graph.py": "deploy", "deploy/onnx_policies.py": "deploy"}
"""Files that are imported only where their extra is installed."""


def plain(name: str) -> str:
    """A distribution's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    return {plain(re.split(r"[^\w.-]", line)[0]) for line in requirements}


CORE = declared(PROJECT["dependencies"])
EXTRAS = {extra: declared(lines) for extra, lines in PROJECT["optional-dependencies"].items()}


def packages(tree: ast.AST) -> Iterator[str]:
    """The top-level packages that are imported, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def at_once(tree: ast.Module) -> ast.Module:
    """The part of a file that runs when it is imported."""

    class Outside(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None: ...

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    return Outside().visit(tree)


def distributions(names: Iterator[str]) -> set[str]:
    """What pip must install for these packages: nothing for our own and the standard library's."""
    third = {name for name in names if name not in sys.stdlib_module_names and name != "lspc"}
    return {plain(distribution) for name in third for distribution in INSTALLED.get(name, [name])[:1]}


def imports(only_at_once: bool = False) -> dict[str, set[str]]:
    """For each file of the package the distributions it imports."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = distributions(packages(at_once(tree) if only_at_once else tree))
        found[path.relative_to(PACKAGE).as_posix()] = names
    return found


def test_everything_imported_is_declared() -> None:
    allowed = CORE | NO_DEPS | set().union(*(names for extra, names in EXTRAS.items() if extra != "dev"))
    assert {path: missing for path, names in imports().items() if (missing := names - allowed)} == {}


def test_what_a_file_imports_at_once_comes_with_the_package_itself() -> None:
    wrong = {}
    for path, names in imports(only_at_once=True).items():
        extra = EXTRAS[OPTIONAL[path]] if path in OPTIONAL else set()
        if missing := names - CORE - extra:
            wrong[path] = missing
    assert wrong == {}


@pytest.mark.parametrize("extra", [None, *(extra for extra in EXTRAS if extra != "dev")])
def test_everything_declared_is_imported(extra: str | None) -> None:
    used = set().union(*imports().values())
    assert (EXTRAS[extra] if extra else CORE) - used - BEHIND - BY_NAME == set()


def test_every_dev_package_has_its_version_fixed() -> None:
    fixed = (ROOT / "constraints.txt").read_text().split()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in fixed)
    names = {plain(line.partition("==")[0]) for line in fixed}
    assert CORE | set().union(*EXTRAS.values()) | NO_DEPS <= names
    assert len(names) == len(fixed)


def test_type_checkers_of_other_projects_see_our_types() -> None:
    assert (PACKAGE / "py.typed").exists()
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["lspc"]
    assert "py.typed" in data


def test_the_project_names_no_place_on_the_network() -> None:
    assert "urls" not in PROJECT
