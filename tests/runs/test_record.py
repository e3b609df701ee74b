"""Records: what is written comes back, old lines have defaults, a damaged one is named, new ones replace old ones."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.exported import leave_run
from helpers.made_runs import make_record

from lspc import files
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.runs import Record, Run, record
from lspc.runs.record import group, returns_by_seed

OPTIONAL = {"trained_on", "restriction", "guard", "intervened"}
"""What records of older versions, or of policies without a guard, do not say."""


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    written = [
        make_record(1.5, 2.0),
        make_record(0.1, 0.0, restriction=0.5, guard=10.0, intervened=0.25, budget=20.0, trained_on=None),
    ]
    path = tmp_path / "records.jsonl"
    record.write(path, written[:1])
    record.append(path, written[1:])
    assert record.read(path) == written
    assert "intervened" not in files.read_jsonl(path)[0]


def test_a_line_of_the_first_version(tmp_path: Path) -> None:
    """Before policies were measured elsewhere, at other eps or under a guard."""
    whole = make_record(5.0, 1.0, task="CarRun", trained_on="CarRun")
    old = {name: value for name, value in record.as_json(whole).items() if name not in OPTIONAL}
    files.write_jsonl(tmp_path / "records.jsonl", [old])
    assert record.read(tmp_path / "records.jsonl") == [whole]


@pytest.mark.parametrize("field", [field.name for field in fields(Record)])
def test_a_field_that_is_missing_has_its_default_or_is_named(tmp_path: Path, field: str) -> None:
    path, whole = tmp_path / "records.jsonl", make_record()
    line = record.as_json(whole)
    line.pop(field, None)
    files.write_jsonl(path, [record.as_json(whole), line])
    if field in OPTIONAL:
        assert record.read(path)[1] == whole
    else:
        with pytest.raises(UserError) as told:
            record.read(path)
        assert str(told.value) == f"{path}, line 2: {field} is missing; repair or delete it"


def test_what_a_line_leaves_out_its_run_may_know(tmp_path: Path) -> None:
    path, line = tmp_path / "records.jsonl", record.as_json(make_record())
    del line["budget"]
    files.write_jsonl(path, [line, {**line, "budget": 40.0}])
    assert [each.budget for each in record.read(path, {"budget": 10.0})] == [10.0, 40.0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cost_return": "4"}, "cost_return must be a number, found '4'"),
        ({"training_seed": 1.5}, "training_seed must be a whole number, found 1.5"),
        ({"terminated": 1}, "terminated must be true or false, found 1"),
        ({"length": True}, "length must be a whole number, found True"),
        ({"restriction": "x"}, "restriction must be a number or null, found 'x'"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    path, line = tmp_path / "records.jsonl", record.as_json(make_record())
    files.write_jsonl(path, [line, line, {**line, **changes}])
    with pytest.raises(UserError, match=f"line 3: {told}; repair or delete it"):
        record.read(path)
    path.write_text('{"run": \n')
    with pytest.raises(UserError, match="line 1: damaged, not JSON"):
        record.read(path)
    path.write_text("[1]\n")
    with pytest.raises(UserError, match="line 1: damaged, not a JSON object"):
        record.read(path)


def test_numbers_may_lack_their_point(tmp_path: Path) -> None:
    files.write_jsonl(tmp_path / "a", [{**record.as_json(make_record()), "cost_return": 4}])
    (found,) = record.read(tmp_path / "a")
    assert isinstance(found.cost_return, float)


def test_storing_replaces_the_same_policy_and_keeps_the_rest(tmp_path: Path) -> None:
    path, old = tmp_path / "records.jsonl", make_record(1.0)
    changes: dict[str, Any] = {
        "task": "CarRun", "policy": "LSPC-S", "restriction": 0.5, "guard": 10.0, "mode": "sampled",
        "training_seed": 1,
    }  # fmt: skip
    others = [replace(old, **{name: value}) for name, value in changes.items()]
    record.store(path, [others[0], old, replace(old, seed=7), *others[1:]])
    new = replace(old, seed=9, lspc_version="2", config="other", updates=3)  # none of these makes it another policy
    record.store(path, [new])
    assert record.read(path) == [*others, new]


def test_groups_keep_the_order() -> None:
    records = [make_record(training_seed=seed, seed=number) for number in (1, 2) for seed in (3, 0)]
    groups = group(records, lambda each: each.training_seed)
    assert list(groups) == [3, 0]
    assert [[each.seed for each in some] for some in groups.values()] == [[1, 2], [1, 2]]


def test_returns_by_training_seed() -> None:
    records = [make_record(10.0 * n + s, n, training_seed=s) for n in (1, 2, 3) for s in (1, 0)]
    rewards, costs = returns_by_seed(records[:-1], "reward"), returns_by_seed(records[:-1], "cost")
    np.testing.assert_array_equal(rewards[0], [11, 21, 31])  # seed 1 came first
    np.testing.assert_array_equal(rewards[1], [10, 20])
    np.testing.assert_array_equal(costs[0], [1, 2, 3])


STORE = """
import json, sys
from pathlib import Path
from dataclasses import replace
from lspc.runs import Run
run = Run.open(sys.argv[1])
[record] = run.records("one.jsonl")
for number in range(20):
    run.store_records([replace(record, policy=f"{sys.argv[2]} {number}")])
"""


@pytest.mark.process
def test_two_processes_that_store_at_the_same_time_keep_everything(tmp_path: Path, dataset: Dataset) -> None:
    run = leave_run(tmp_path / "run", "bc", dataset)
    record.write(run / "one.jsonl", [make_record(1.0, 2.0)])
    writers = [subprocess.Popen([sys.executable, "-c", STORE, str(run), name]) for name in ("a", "b")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    stored = {found.policy for found in Run.open(run).records()}
    assert stored == {f"{name} {number}" for name in ("a", "b") for number in range(20)}
