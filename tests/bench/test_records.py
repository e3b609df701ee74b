"""Records: complete cells become arrays; a second record, another dataset, a missing cell is named and left out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.made_runs import make_record, make_run

from lspc import files
from lspc.bench.records import Cell, Column, read, sort_out
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.runs import Record, record
from lspc.tasks import get_task

RUN = get_task("BallRun")
LSPC, CPQ = Column("LSPC-O", "deterministic"), Column("CPQ", "deterministic")


def grid(**more: Any) -> list[Record]:
    """Two seeds, two episodes of BallRun with normalised rewards of 0 and 0.1."""
    known = {"run": "a", "dataset": "d" * 64, "lspc_version": "1", **more}
    return [
        make_record(
            RUN.reward_min + 0.1 * s * (RUN.reward_max - RUN.reward_min), 10.0 * n, training_seed=s, seed=n, **known
        )
        for s in (0, 1)
        for n in (1, 2)
    ]


def cpq(*budgets: float) -> list[Record]:
    return [line for budget in budgets for line in grid(policy="CPQ", budget=budget, config=f"{budget}", run="b")]


def test_a_policy_without_a_budget_serves_every_threshold() -> None:
    found = sort_out(grid())
    assert found.problems == []
    stratum = found.stratum("BallRun", LSPC)
    assert stratum is not None
    np.testing.assert_allclose(stratum.reward, [[[0.0, 0.0], [0.1, 0.1]]] * 3, atol=1e-12)
    assert stratum.cost.tolist() == [[[1, 2], [1, 2]], [[0.5, 1], [0.5, 1]], [[0.25, 0.5], [0.25, 0.5]]]
    at_twenty = found.stratum("BallRun", LSPC, 20)
    assert at_twenty is not None
    assert at_twenty.cost.tolist() == [[[0.5, 1], [0.5, 1]]]


def test_a_policy_with_a_budget_serves_that_threshold() -> None:
    found = sort_out(grid() + cpq(10.0, 40.0))
    assert found.problems == ["BallRun, CPQ deterministic at 20: missing"]
    assert {cell.threshold for cell in found.cells if cell.column == CPQ} == {10, 40}
    assert found.stratum("BallRun", CPQ) is None
    assert found.stratum("BallRun", CPQ, 40) is not None
    assert sort_out(cpq(10.0, 20.0, 40.0)).problems == []


def test_bc_safe_is_one_policy_at_three_thresholds() -> None:
    lines = [line for k in RUN.thresholds for line in grid(policy=f"BC-Safe ({k})", budget=float(k), config=f"{k}")]
    found = sort_out(lines)
    assert found.problems == []
    assert found.columns == [Column("BC-Safe", "deterministic")]


def test_the_order_of_records_does_not_matter() -> None:
    one, other = sort_out(grid()), sort_out(grid()[::-1])
    cell = Cell("BallRun", LSPC, 10)
    assert one.cells[cell].reward.tolist() == other.cells[cell].reward.tolist()


def test_what_is_there_twice_is_named_and_left_out() -> None:
    for second in (grid(run="again")[:1], grid(run="again", config="other")[:1]):
        found = sort_out(grid() + second + cpq(10, 20, 40))
        assert found.problems == [
            "BallRun, LSPC-O deterministic at 10, 20, 40: "
            "left out, measured more than once or with several settings: runs a, again"
        ]
        assert found.columns == [CPQ]


def test_seeds_with_different_settings_are_not_averaged() -> None:
    found = sort_out(grid()[:2] + grid(config="other", run="b")[2:])
    assert found.cells == {}
    assert "several settings: runs a, b" in found.problems[0]


def test_a_record_of_another_dataset_is_named_and_left_out() -> None:
    mixed = grid(dataset="e" * 64, run="old")[:1] + grid(policy="LSPC-S") + grid()
    found = sort_out(mixed)
    assert found.problems == [
        "BallRun: left out 1 episodes of run old, whose dataset is eeeeeeeeeeee, not dddddddddddd"
    ]
    assert len(found.cells) == 6
    planned = sort_out(mixed, {"BallRun": "e" * 64})
    assert "left out 8 episodes of run a, whose dataset is dddddddddddd" in planned.problems[0]


def test_a_missing_task_seed_or_episode_is_named() -> None:
    elsewhere = grid(task="CarRun", trained_on="CarRun", policy="LSPC-S")[:2]
    short = grid(policy="LSPC-S")[:-1]
    found = sort_out(grid() + elsewhere + short)  # a task may have fewer seeds than another, not a policy
    assert found.problems == [
        "BallRun, LSPC-S deterministic at 10, 20, 40: "
        "left out, it has 3 episodes numbered 1 to 2 (training seeds 0, 1) "
        "where most have 4 episodes numbered 1 to 2 (training seeds 0, 1)",
        "CarRun, LSPC-O deterministic at 10, 20, 40: missing",
    ]
    one_seed = sort_out(grid() + grid(policy="CVAE") + grid(policy="LSPC-S")[:2])
    assert len(one_seed.problems) == 1
    assert "has 2 episodes numbered 1 to 2 (training seeds 0) where" in one_seed.problems[0]


def test_a_budget_that_is_no_threshold_is_named() -> None:
    (problem,) = sort_out(grid() + cpq(10, 20, 40) + cpq(15)).problems
    assert problem == "BallRun, CPQ deterministic: left out, its budget of 15 is none of the task's thresholds"


def test_versions_are_named_but_count() -> None:
    found = sort_out(grid()[:2] + grid(lspc_version="2")[2:])
    assert found.problems == ["all tasks: the records are of several versions of lspc: 1, 2"]
    assert len(found.cells) == 3


def test_measurements_on_other_tasks_are_no_part_of_the_grid() -> None:
    assert sort_out(grid() + grid(trained_on="BallCircle", config="x")).problems == []


def test_nothing_gives_nothing() -> None:
    assert sort_out([]) == ({}, [])


def test_reading_finds_the_budget_beside_the_records(tmp_path: Path, dataset: Dataset) -> None:
    lines = [record.as_json(each) for each in grid()]
    bare = [{key: value for key, value in line.items() if key != "budget"} for line in lines]
    for name, budget in (("lspc", None), ("deep/cpq-10", 10.0)):
        run = make_run(tmp_path / name, dataset, budget=budget)
        files.write_jsonl(run / "evaluations.jsonl", bare)
    assert sorted({each.budget or 0 for each in read([tmp_path])}) == [0, 10.0]
    assert len(read([tmp_path / "lspc" / "evaluations.jsonl"])) == 4
    record.write(tmp_path / "all.jsonl", [*grid(), *grid(restriction=0.5), *grid(guard=10.0)])
    assert read([tmp_path / "all.jsonl"]) == grid()  # as trained: another eps or a guard is a study of its own
    files.write_jsonl(tmp_path / "bare.jsonl", bare)
    with pytest.raises(UserError, match=r"bare\.jsonl, line 1: budget is missing"):
        read([tmp_path / "bare.jsonl"])
    for nothing in (tmp_path / "nowhere", tmp_path / "lspc" / "policy"):
        with pytest.raises(UserError, match="there are no records here"):
            read([nothing])
