"""Which records are of one policy: runs that differ in the seed alone are, and eps and guards tell them apart."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.made_runs import episodes, make_record, make_run

from lspc.data import Dataset
from lspc.runs import Run
from lspc.runs.grouping import group_by_policy, own_restriction

Make = Callable[..., Run]


@pytest.fixture
def make(tmp_path: Path, dataset: Dataset) -> Make:
    def make(name: str, **settings: Any) -> Run:
        return Run.open(make_run(tmp_path / name, dataset, **settings))

    return make


def test_the_runs_own_eps_by_name_or_by_number_is_one_policy(make: Make) -> None:
    run = make("a")
    own, numbered = episodes("LSPC-O", [1, 2]), episodes("LSPC-O", [1, 2], eps=1.0)
    groups, at_home, conflicts = group_by_policy(
        [(run, [*own, *numbered, *episodes("LSPC-O", [9], eps=0.5)])], "BallRun"
    )
    assert [(key.restriction, len(records)) for key, records in groups.items()] == [(1.0, 2), (0.5, 1)]
    assert at_home == {next(iter(groups))}
    assert conflicts == []
    first, second = groups
    assert first.family == second.family


def test_seeds_of_runs_that_differ_in_eps_alone_go_together(make: Make) -> None:
    one, two, wide = make("one"), make("two"), make("wide", hidden=[9, 9])
    found = group_by_policy(
        [(one, episodes("LSPC-S", [1])), (two, episodes("LSPC-S", [2], seed=1)), (wide, episodes("LSPC-S", [3]))],
        "BallRun",
    )
    assert [[each.cost_return for each in records] for records in found.groups.values()] == [[1, 2], [3]]
    narrow = make("narrow", restriction=0.3)
    of_eps = group_by_policy([(one, episodes("LSPC-O", [1])), (narrow, episodes("LSPC-O", [2]))], "BallRun")
    assert [key.restriction for key in of_eps.groups] == [1.0, 0.3]
    assert len({key.family for key in of_eps.groups}) == 1
    assert of_eps.own == set(of_eps.groups)


def test_guards_modes_data_and_tasks_are_told_apart(make: Make) -> None:
    run, plain = make("a"), make_record(policy="LSPC-S")
    others = [replace(plain, guard=10.0), replace(plain, mode="sampled"), replace(plain, dataset="other")]
    elsewhere = replace(plain, task="CarRun")
    found = group_by_policy([(run, [plain, *others, elsewhere])], "BallRun")
    assert list(found.groups.values()) == [[plain], *([other] for other in others)]


def test_two_results_for_one_episode_are_named_and_the_first_counts(make: Make) -> None:
    one, two = make("one"), make("two")
    found = group_by_policy([(one, episodes("LSPC-O", [1, 2])), (two, episodes("LSPC-O", [1, 5]))], "BallRun")
    assert [[each.cost_return for each in records] for records in found.groups.values()] == [[1, 2]]
    assert found.conflicts == [
        "LSPC-O deterministic on BallRun was measured twice with different results; those of two are left out"
    ]


def test_only_lspc_o_has_an_eps_of_its_own(make: Make) -> None:
    run = make("a", restriction=0.4)
    assert own_restriction(run, "LSPC-O") == own_restriction(run, "converse LSPC-O") == 0.4
    assert own_restriction(run, "LSPC-S") is None
