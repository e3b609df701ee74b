"""Where things lie: names that old folders have, and nothing of them spelled anywhere else."""

import re
from pathlib import Path

import pytest

import lspc
from lspc.errors import UserError
from lspc.runs import layout


def test_the_names_of_a_run_are_spelled_once() -> None:
    source = Path(lspc.__file__).parent
    named = [getattr(layout, name) for name in dir(layout) if name.isupper()]
    assert layout.CONFIG in named
    for path in source.rglob("*.py"):
        if path != source / "runs" / "layout.py":
            text = path.read_text(encoding="utf-8")
            for name in named:
                assert not re.search(rf"""["']{re.escape(name)}["']""", text), f"{path} spells {name}"


def test_checkpoints_are_found_in_the_order_of_their_updates(tmp_path: Path) -> None:
    for updates in (10_000, 250, 999):
        layout.checkpoint_path(tmp_path, updates).touch()
    (tmp_path / ".unfinished-checkpoint-1.safetensors").touch()
    assert [path.name for path in layout.checkpoint_paths(tmp_path)] == [
        "checkpoint-000000250.safetensors",
        "checkpoint-000000999.safetensors",
        "checkpoint-000010000.safetensors",
    ]


def leave_card(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / layout.CARD).touch()
    return folder


def test_a_policy_is_found_in_its_own_folder_or_by_seed_in_a_run(tmp_path: Path) -> None:
    first, second = (leave_card(layout.policy_folder(tmp_path, seed)) for seed in (12, 3))
    layout.policy_folder(tmp_path, 1).mkdir()  # no card: not complete
    assert layout.find_policy(tmp_path) == second == tmp_path / "policy" / "seed-3"
    assert layout.find_policy(tmp_path, 12) == first
    assert layout.find_policy(first, 12) == first
    with pytest.raises(UserError, match="has no seed 1: it has 3, 12"):
        layout.find_policy(tmp_path, 1)


def test_a_folder_without_a_policy_is_told_apart_from_an_unfinished_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is it the folder of a run"):
        layout.find_policy(tmp_path)
    layout.config_path(tmp_path).touch()
    with pytest.raises(UserError, match="training has not finished"):
        layout.find_policy(tmp_path)


def test_runs_are_found_however_deep(tmp_path: Path) -> None:
    for name in ("b", "a/deep", "a"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        layout.config_path(tmp_path / name).touch()
    (tmp_path / "c").mkdir()
    assert layout.find_runs(tmp_path) == [tmp_path / "a", tmp_path / "a" / "deep", tmp_path / "b"]


def test_each_budget_has_a_certificate_of_its_own(tmp_path: Path) -> None:
    names = {12.0: "12", 12.5: "12.5", 1e6: "1e+06", 1234567.0: "1234567.0", 1234568.0: "1234568.0"}
    for budget, name in names.items():
        assert layout.certificate_path(tmp_path, budget).name == f"certificate-{name}.json"
    close = 0.1 + 0.2, 0.3, 12.0000001, 12.0
    assert len({layout.certificate_path(tmp_path, budget) for budget in close}) == len(close)


def test_calibrations_are_found_beside_the_policies_and_where_they_once_were(tmp_path: Path) -> None:
    assert layout.calibration_paths(tmp_path) == []
    places = [tmp_path, *(layout.policy_folder(tmp_path, seed) for seed in (0, 1))]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / layout.CALIBRATION).touch()
    assert layout.calibration_paths(tmp_path) == [place / "calibration.json" for place in places]
