"""Habits of the tests themselves, read from their source: each can fail, draws from a seed, stands alone
and says what it needs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lspc import sims

HERE = Path(__file__).parent
HOMES = {"", "pytest", "self", *(path.stem for path in HERE.glob("helpers/*.py"))}
"""Whose functions are looked into; others may have the same names."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(HERE.rglob("*.py"))}


def name_of(path: Path) -> str:
    return path.relative_to(HERE).as_posix()


@cache
def called(node: ast.AST) -> list[str]:
    """The dotted name of everything that is called below."""
    calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
    return [ast.unparse(each) for each in calls if isinstance(each, ast.Name | ast.Attribute)]


@cache
def asserts(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Assert) for each in ast.walk(node))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def can_fail(function: Function, checkers: set[str]) -> bool:
    if asserts(function):
        return True
    for owner, _, name in (name.rpartition(".") for name in called(function)):
        if name.startswith("assert_") or (owner in HOMES and name in checkers):
            return True
    return False


def find_checkers(found: list[Function]) -> set[str]:
    """Functions that fail by themselves, or call one that does."""
    checkers = {"raises", "warns", "fail"}
    while more := {each.name for each in found if can_fail(each, checkers)} - checkers:
        checkers |= more
    return checkers


def test_no_test_passes_by_not_raising() -> None:
    shared = [each for path, tree in trees().items() if path.parent.name == "helpers" for each in functions(tree)]
    idle = []
    for path, tree in trees().items():
        ours = list(functions(tree))
        checkers = find_checkers([each for each in (*ours, *shared) if not each.name.startswith("test_")])
        tests = [each for each in ours if each.name.startswith("test_")]
        idle += [f"{name_of(path)}: {each.name}" for each in tests if not can_fail(each, checkers)]
    assert idle == []


@pytest.mark.parametrize(
    ("source", "fails"),
    [
        ("def test_a(): run()", False),
        ("def check(): assert run()\ndef test_a(): other.check()", False),
        ("def test_a(): assert run()", True),
        ("def test_a():\n with pytest.raises(ValueError): run()", True),
        ("def test_a(): np.testing.assert_allclose(1, 1)", True),
        ("def check(): inner()\ndef inner(): assert run()\ndef test_a(): check()", True),
    ],
)
def test_what_counts_as_a_check(source: str, fails: bool) -> None:
    found = list(functions(ast.parse(source)))
    assert can_fail(found[-1], find_checkers(found[:-1])) is fails


def unseeded(tree: ast.AST) -> list[str]:
    """Generators without a seed, and draws from the one that the whole process shares."""
    wrong = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
            continue
        name = ast.unparse(call.func)
        owner, _, last = name.rpartition(".")
        if last in ("default_rng", "RandomState", "SeedSequence", "Random"):
            if not call.args and not call.keywords:
                wrong.append(name)
        elif owner in ("random", "np.random", "numpy.random") and last not in ("get_state", "getstate"):
            wrong.append(name)
    return wrong


def test_every_random_draw_has_a_seed() -> None:
    assert {name_of(path): found for path, tree in trees().items() if (found := unseeded(tree))} == {}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("np.random.default_rng()", ["np.random.default_rng"]),
        ("default_rng(3).normal()", []),
        ("random.Random().random()", ["random.Random"]),
        ("random.random()", ["random.random"]),
        ("np.random.seed(3)", ["np.random.seed"]),
        ("jax.random.normal(key)", []),
        ("rng.random()", []),
    ],
)
def test_what_counts_as_unseeded(source: str, wrong: list[str]) -> None:
    assert unseeded(ast.parse(source)) == wrong


def is_test(module: str) -> bool:
    parts = module.split(".")
    return parts[0] in ("", "tests", "conftest") or any(part.startswith("test_") for part in parts)


def test_tests_import_helpers_never_tests() -> None:
    assert [(name_of(path), name) for path, tree in trees().items() for name in imported(tree) if is_test(name)] == []
    assert all(map(is_test, ("test_cli", "tests.helpers", ".helpers", "sims.test_pool", "conftest")))
    assert not any(map(is_test, ("helpers.cli", "pytest", "lspc.training")))


def test_an_unmarked_test_starts_no_program() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"it starts .* but is not marked: add @pytest\.mark\.process"):
        subprocess.run([sys.executable, "-c", ""], check=True)


@pytest.mark.parametrize("task", ["BallRun", "CarGoal1", "easysparse"])
def test_an_unmarked_test_makes_no_world(task: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"it makes a world of .*: add @pytest\.mark\.simulator"):
        sims.make(task)


def test_the_files_to_begin_with_are_there(request: pytest.FixtureRequest) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(HERE / "conftest.py"))
    assert conftest is not None
    assert set(conftest.LONG) <= {path.name for path in trees()}


@pytest.mark.process
def test_a_marked_one_may() -> None:
    assert subprocess.run([sys.executable, "-c", "exit(3)"], check=False).returncode == 3
