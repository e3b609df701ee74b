"""A suite is described once: the tasks belong to it by DSRL's families, and its adapter is where it says."""

import ast
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from lspc import sims
from lspc.tasks import DEFAULT_BUDGETS, SUITES, all_tasks, get_task


def test_every_family_belongs_to_one_suite() -> None:
    families = [family for suite in SUITES.values() for family in suite.families]
    assert len(families) == len(set(families))
    assert {task.family for task in all_tasks()} == set(families)


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_a_suite_names_what_there_is(suite: object) -> None:
    suite = next(known for known in SUITES.values() if known is suite)
    assert SUITES[suite.name] is suite
    assert get_task(suite.trial_task).suite == suite.name
    module, _, name = suite.adapter.partition(":")
    spec = find_spec(module)  # without importing it: the simulator may not be installed
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text())
    assert name in [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    for task in all_tasks():
        assert (task.thresholds == suite.thresholds) or task.suite != suite.name


def test_only_metadrive_has_one_world_per_process() -> None:
    assert [suite.name for suite in SUITES.values() if suite.one_world_per_process] == ["metadrive"]


def test_without_a_task_the_budgets_are_dsrls_smaller_ones() -> None:
    assert DEFAULT_BUDGETS == SUITES["bullet"].thresholds == SUITES["metadrive"].thresholds


class Nowhere:
    """An adapter of another package."""

    def __init__(self, task: object, pictures: bool = True) -> None:
        self.task, self.pictures = task, pictures


def test_an_entry_is_all_that_a_new_adapter_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(SUITES["bullet"], adapter=f"{__name__}:Nowhere", packages=("json",))
    monkeypatch.setitem(SUITES, "bullet", entry)
    task = get_task("BallRun")
    made = sims.make(task, pictures=False)
    assert isinstance(made, Nowhere)
    assert (made.task, made.pictures) == (task, False)
    assert sims.is_installed(task)
