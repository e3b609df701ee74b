"""A calibration on disk: the same when read back, and one clear line when it cannot be read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers.calibrated import guard_models, made

from lspc.algos.base import Spec
from lspc.calibration import storage
from lspc.data import Dataset
from lspc.errors import UserError


def test_saved_and_loaded_it_is_the_same(dataset: Dataset, tmp_path: Path) -> None:
    spec = Spec.of(dataset)
    before, models = made(), guard_models(spec, (0.1, 0.4))
    storage.save(tmp_path, before, models)
    assert sorted(path.name for path in tmp_path.iterdir()) == [storage.FILE, storage.FITTED_Q]
    assert storage.load(tmp_path) == replace(before, settings=json.loads(json.dumps(before.settings)))
    loaded = storage.load_guard_models(tmp_path, storage.load(tmp_path), spec)
    assert jax.tree.structure(loaded) == jax.tree.structure(models)
    for one, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(models), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace('"episode_costs"', '"episode_prices"'),
        lambda text: text.replace('"share"', '"part"'),
        lambda text: text.replace('"high"', '"higher"'),
        lambda text: json.dumps({**json.loads(text), "curve": None}),
        lambda text: json.dumps({**json.loads(text), "brand_new": 1}),
    ],
)
def test_a_damaged_file_is_one_clear_line(dataset: Dataset, tmp_path: Path, damage: Any) -> None:
    storage.save(tmp_path, made(), guard_models(Spec.of(dataset)))
    path = tmp_path / storage.FILE
    path.write_text(damage(path.read_text()))
    with pytest.raises(UserError) as told:
        storage.load(tmp_path)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


def test_missing_or_foreign_parts_are_one_clear_line(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path} has no calibration: run `lspc calibrate`"):
        storage.load(tmp_path)
    spec, found = Spec.of(dataset), made()
    with pytest.raises(UserError, match=storage.FITTED_Q):
        storage.load_guard_models(tmp_path, found, spec)
    storage.save(tmp_path, found, guard_models(spec))
    wider = {**found.settings, "hidden": [9]}
    with pytest.raises(UserError, match=rf"{storage.FITTED_Q}: .* should be"):
        storage.load_guard_models(tmp_path, made(settings=wider), spec)


def test_a_calibration_of_an_older_version_keeps_its_choices_and_asks_for_another(
    dataset: Dataset, tmp_path: Path
) -> None:
    """calibration.json reads as it did; the guard's networks had another name, and must be fitted again."""
    spec = Spec.of(dataset)
    storage.save(tmp_path, made(), guard_models(spec))
    (tmp_path / storage.FITTED_Q).rename(tmp_path / "judges.safetensors")
    loaded = storage.load(tmp_path)
    assert loaded.choose(12).restriction == 0.5
    with pytest.raises(UserError, match=r"fitted_q\.safetensors: missing, .* run `lspc calibrate` again"):
        storage.load_guard_models(tmp_path, loaded, spec)
