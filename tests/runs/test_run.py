"""A run: opened from folders old and new, claimed once, and every field that is missing or wrong is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.made_runs import change_description, make_record, make_run

from lspc import algos, files
from lspc.algos.base import Spec
from lspc.data import Dataset, save
from lspc.errors import UserError
from lspc.runs import DatasetFacts, Run, layout, record
from lspc.runs.run import build_config
from lspc.tasks import get_task
from lspc.version import __version__

RESULTS = Path(__file__).parents[2] / "results"
FIELDS = ["lspc_version", "method", "task", "seeds", "config", "provenance", "dataset", "spec"]
NEW_IN_SPEC = {"reward_mean": 0.0, "reward_spread": 0.0, "cost_return_max": 0.0, "action_low": [], "action_high": []}
"""Facts that earlier versions did not record."""


@pytest.fixture
def folder(tmp_path: Path, dataset: Dataset) -> Path:
    return make_run(tmp_path / "run", dataset, budget=10.0)


def planned(path: Path, dataset: Dataset, **changes: Any) -> Run:
    config = algos.get("bc").Config(steps=10, hidden=(8, 8), **changes.pop("config", {}))
    choices: dict[str, Any] = {
        "method": "bc",
        "seeds": (0, 3),
        "task": get_task("BallRun"),
        "provenance": {"steps": "user"},
    }
    return Run.plan(path, dataset, dataset.within(20.0), config, **{**choices, **changes})


def test_what_a_run_knows(folder: Path, dataset: Dataset) -> None:
    run = Run.open(folder)
    assert (run.path, run.name, run.method, run.task, run.seeds) == (folder, "run", "lspc", "BallRun", (0, 1))
    assert run.config["restriction_range"] == [0.02, 2.0]
    assert run.provenance == {"steps": "preset cpu", "budget": "user"}
    assert run.dataset == DatasetFacts("arrays", dataset.fingerprint, 20, 20, 1000)
    assert run.spec == Spec.of(dataset)
    assert run.lspc_version == "0.1.0"
    assert files.seal(run.describe()) == files.read_json(folder / "config.json")


@pytest.mark.filterwarnings("ignore:.*no SHA-256")
def test_every_run_in_the_results_opens() -> None:
    """They were made by every version there has been; the oldest carry no hash."""
    folders = layout.find_runs(RESULTS)
    assert len(folders) > 100
    versions = set()
    for path in folders:
        run = Run.open(path)
        saved = files.read_json(path / "config.json")
        assert run.describe() == {**saved, "spec": {**NEW_IN_SPEC, **saved["spec"]}}
        versions.add(run.lspc_version)
        for name in (layout.EVALUATIONS, layout.CURVE):
            assert all(each.dataset == run.dataset.fingerprint for each in run.records(name))
    assert len(versions) > 1


@pytest.mark.parametrize(
    "field",
    [
        *FIELDS,
        *(f"dataset.{name}" for name in ("source", "fingerprint", "episodes", "episodes_used", "transitions_used")),
        *(f"spec.{name}" for name in Spec.__dataclass_fields__ if name not in NEW_IN_SPEC),
    ],
)
def test_a_field_that_is_missing_is_named(folder: Path, field: str) -> None:
    description = Run.open(folder).describe()
    *outer, name = field.split(".")
    del (description[outer[0]] if outer else description)[name]
    files.write_json(folder / "config.json", files.seal(description))
    with pytest.raises(UserError) as told:
        Run.open(folder)
    assert str(told.value) == f"{folder / 'config.json'}: {field} is missing; repair or delete it"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"method": 3}, "method must be a text, found 3"),
        ({"task": 1}, "task must be a text or null, found 1"),
        ({"seeds": [0, "1"]}, r"seeds must be a list, each a whole number, found \[0, '1'\]"),
        ({"seeds": [True]}, "seeds must be a list, each a whole number"),
        ({"seeds": 0}, "seeds must be a list, each a whole number, found 0"),
        ({"seeds": []}, "seeds must name one training seed or more"),
        ({"config": []}, r"config must be an object, found \[\]"),
        ({"dataset": "x"}, "dataset must be an object, found 'x'"),
        ({"spec": None}, "spec must be an object, found None"),
    ],
)
def test_a_field_of_another_kind_is_named(folder: Path, changes: dict[str, Any], told: str) -> None:
    change_description(folder, **changes)
    with pytest.raises(UserError, match=rf"config\.json: {told}"):
        Run.open(folder)


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match=r"is not a run folder: it has no config\.json"):
            Run.open(place)
    for content, told in (("{", r"config\.json: damaged, not JSON"), ("[]", r"config\.json: it must be an object")):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(UserError, match=told):
            Run.open(tmp_path)


def test_a_claimed_folder_holds_what_was_planned(tmp_path: Path, dataset: Dataset) -> None:
    run = planned(tmp_path, dataset)
    run.claim()
    assert list(json.loads((tmp_path / "config.json").read_text())) == [*FIELDS, "sha256"]
    opened = Run.open(tmp_path)
    assert opened.describe() == run.describe()
    assert opened.lspc_version == __version__
    assert opened.dataset.episodes_used == (dataset.cost_returns <= 20).sum() < opened.dataset.episodes == 20
    assert opened.spec == Spec.of(dataset.within(20.0))
    written = (tmp_path / "config.json").read_bytes()
    run.claim()
    replace(run, lspc_version="99", task=None, provenance={}).claim()  # none of these decides a number
    assert (tmp_path / "config.json").read_bytes() == written


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seeds": (0,)}, r"seeds is \[0, 3\] there, \[0\] now"),
        ({"method": "cpq"}, "method is bc there, cpq now"),
        ({"config": {"learning_rate": 0.5}}, "learning_rate is 0.001 there, 0.5 now"),
    ],
)
def test_another_run_is_not_taken_over(tmp_path: Path, dataset: Dataset, changes: dict[str, Any], told: str) -> None:
    planned(tmp_path, dataset).claim()
    with pytest.raises(UserError, match=rf"holds another run \({told}\); choose another --out or delete that folder"):
        planned(tmp_path, dataset, **changes).claim()


def test_checkpoints_without_a_description_are_not_taken_over(tmp_path: Path, dataset: Dataset) -> None:
    layout.checkpoint_path(tmp_path, 250).touch()
    with pytest.raises(UserError, match=r"has checkpoints but no config\.json"):
        planned(tmp_path, dataset).claim()


def test_settings_come_back_as_the_methods_own(tmp_path: Path, dataset: Dataset) -> None:
    run = planned(tmp_path, dataset)
    run.claim()
    assert Run.open(tmp_path).method_config() == algos.get("bc").Config(steps=10, hidden=(8, 8))
    change_description(tmp_path, config={**run.config, "forgotten": 1})
    with pytest.raises(UserError, match=r"config\.json: not settings of bc that .*forgotten"):
        Run.open(tmp_path).method_config()
    with pytest.raises(UserError, match="unknown method 'magic'"):
        build_config("magic", {}, "here")


def test_settings_of_earlier_versions_are_known_by_their_old_names() -> None:
    assert build_config("lspc", {"clamp_value_in_loss": True}, "here").released_critics


def test_the_data_of_a_run(tmp_path: Path, dataset: Dataset) -> None:
    source, moved, other = (tmp_path / f"{name}.npz" for name in ("data", "moved", "other"))
    for path in (source, moved):
        save(dataset, path)
    save(dataset.select(range(5)), other)
    run = Run.open(make_run(tmp_path / "run", source))
    found = run.load_dataset()
    assert found is not None
    assert found.fingerprint == run.require_dataset(moved).fingerprint == dataset.fingerprint
    assert run.load_dataset(other) is None
    with pytest.raises(UserError, match=r"other\.npz is not the data that .* learned from.*: .*add --data FILE"):
        run.require_dataset(other)
    source.unlink()
    assert run.load_dataset() is None
    with pytest.raises(UserError, match=r"is not at .*data\.npz any more: add --data FILE"):
        run.require_dataset()
    assert run.require_dataset(moved).fingerprint == dataset.fingerprint


def test_records_are_the_runs_own(folder: Path) -> None:
    run = Run.open(folder)
    assert run.records() == run.records(layout.CURVE) == []
    kept, old = make_record(1.0, policy="LSPC-S"), make_record(2.0)
    lines = [record.as_json(each) for each in (kept, old)]
    for line in lines:
        del line["budget"]  # as lspc 0.2 wrote them
    files.write_jsonl(folder / layout.EVALUATIONS, lines)
    assert run.records() == [replace(each, budget=10.0) for each in (kept, old)]
    new = make_record(3.0, budget=10.0)
    run.store_records([new])
    assert run.records() == [replace(kept, budget=10.0), new]


def test_a_run_is_finished_when_every_seed_has_its_policy(folder: Path) -> None:
    run = Run.open(folder)
    for seed in run.seeds:
        assert not run.is_finished()
        policy = layout.policy_folder(folder, seed)
        policy.mkdir(parents=True)
        (policy / layout.CARD).touch()
    assert run.is_finished()
    assert run.policy_folder() == layout.policy_folder(folder, 0)
    assert run.policy_folder(1) == layout.policy_folder(folder, 1)
    layout.checkpoint_path(folder, 500).touch()
    assert run.checkpoint_paths() == [layout.checkpoint_path(folder, 500)]
