"""Arrays beyond memory: what is made of mapped ones is mapped, and equals what memory gives."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from helpers.data import little_memory, small_dataset
from helpers.tables import COLUMNS, COST, plant_log

from lspc.data import Dataset, load, mapped, save
from lspc.errors import UserError
from lspc.system import free_memory


def open_both(path: Path, **options: Any) -> tuple[Dataset, Dataset]:
    """From memory, and mapped."""
    with little_memory():
        large = load(path, **options)
    assert large.is_mapped
    return load(path, **options), large


def test_a_mapped_array_has_no_name_and_gives_its_pages_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1000, 7)).astype(np.float32)
    array = mapped.copy(values, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert mapped.mapping_of(array[5:, 2]) is not None
    assert mapped.mapping_of(values) is None
    mapped.release(array, values)
    np.testing.assert_array_equal(array, values)
    rows = rng.integers(1000, size=5000)
    for made in (mapped.take(array, rows), mapped.gather(array, rows)):
        np.testing.assert_array_equal(made, values[rows])
    assert mapped.mapping_of(mapped.take(array, rows)) is not None
    assert mapped.mapping_of(mapped.gather(array, rows)) is None


@pytest.mark.parametrize("shape", [(40_000,), (40_000, 2), (3_000, 72), (50, 3_000), (9, 0)])
def test_rows_are_gathered_from_anywhere(shape: tuple[int, ...], tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    first, array = mapped.map_arrays([((7,), "f4"), (shape, "f4")], tmp_path)  # the second begins within a page
    first[:], array[:] = 1, values
    rows = np.random.default_rng(1).integers(shape[0], size=100)
    np.testing.assert_array_equal(mapped.gather(array, rows), values[rows])
    np.testing.assert_array_equal(mapped.gather(array[4:], rows % 4), values[4:][rows % 4])
    assert mapped.gather(array, rows[:0]).shape == (0, *shape[1:])


def test_what_a_step_changes_is_measured_with_few_pages_of_both_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, then = (mapped.copy(np.random.default_rng(seed).normal(size=(50, 2)), tmp_path) for seed in (0, 1))
    given_back: list[Any] = []
    monkeypatch.setattr(mapped, "release", lambda *arrays: given_back.append([id(array) for array in arrays]))
    mean, deviation = mapped.moments(now, then, change=lambda rows: then[rows] - now[rows])
    np.testing.assert_allclose(mean, (then - now).mean(axis=0))
    np.testing.assert_allclose(deviation, (then - now).std(axis=0))
    assert given_back == [[id(now), id(then)]] * 2


def test_a_working_copy_closes_its_file(tmp_path: Path) -> None:
    [array] = mapped.map_arrays([((5,), "f4")], tmp_path)
    mapping = mapped.mapping_of(array)
    assert mapping is not None
    descriptor = mapping.descriptor
    os.fstat(descriptor)
    del array, mapping
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_columns_side_by_side_come_apart_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=(500, 3)).astype(np.float32), rng.random(500) < 0.5, rng.integers(9, size=(500, 2, 2))]
    [copied] = mapped.map_arrays([((500, 3), "f4")], tmp_path)
    copied[:] = columns[0]
    packed = mapped.side_by_side([copied, *columns[1:]])
    assert mapped.mapping_of(packed) is not None
    rows = rng.integers(500, size=40)
    for found, expected in zip(mapped.split(mapped.gather(packed, rows), columns), columns, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected[rows])


def test_sums_do_not_depend_on_where_an_array_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "BLOCK", 500)
    values = np.random.default_rng(0).normal(5, 3, size=(1000, 7)).astype(np.float32)
    array = mapped.copy(values, tmp_path)
    for found, expected in zip(mapped.moments(array), mapped.moments(values), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(mapped.moments(values)[0], values.mean(0, dtype=float), rtol=1e-12)
    np.testing.assert_allclose(mapped.moments(values)[1], values.std(0, dtype=float), rtol=1e-12)
    np.testing.assert_array_equal(mapped.extremes(array), (values.min(0), values.max(0)))


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="bytes on disk for data larger than memory"):
        mapped.map_arrays([((2**50,), "f4")], tmp_path)


def test_memory_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LSPC_MEMORY", "2.5")
    assert free_memory() == 2_500_000_000
    assert mapped.exceeds_memory(700_000_000)
    monkeypatch.setenv("LSPC_MEMORY", "much")
    assert free_memory() > 0


@pytest.mark.parametrize("suffix", [".hdf5", ".parquet"])
def test_a_file_is_opened_checked_and_changed_alike(tmp_path: Path, suffix: str) -> None:
    save(small_dataset(episodes=6, steps=20), tmp_path / f"log{suffix}", {"task": "BallRun"})
    small, large = open_both(tmp_path / f"log{suffix}")
    assert large.metadata == small.metadata
    assert large.warnings == small.warnings
    pairs = [(small, large)]
    with little_memory():
        pairs += [(small.select([4, 1]), large.select([4, 1]))]
    pairs += [(data.bound_actions((-2, 2)).scale_actions(), other.bound_actions((-2, 2)).scale_actions())
              for data, other in pairs]  # fmt: skip
    for data, other in pairs:
        assert other.is_mapped
        assert other.fingerprint == data.fingerprint
        np.testing.assert_array_equal(other.initial_observations, data.initial_observations)
        np.testing.assert_array_equal(other.statistics.observation_std, data.statistics.observation_std)


def test_what_is_wrong_is_told_alike(tmp_path: Path) -> None:
    import h5py

    save(small_dataset(), tmp_path / "log.hdf5")
    with h5py.File(tmp_path / "log.hdf5", "a") as file:
        for name, value in (("observations", np.nan), ("actions", 0.0)):
            values = file[name][:]
            del file[name]
            file[name] = np.where(np.arange(len(values))[:, None] == 77, value, values if value else np.round(values))
    told = []
    for memory in (True, False):
        with pytest.raises(UserError) as error, little_memory() if memory else pytest.MonkeyPatch.context():
            load(tmp_path / "log.hdf5")
        told.append(str(error.value))
    assert told[0] == told[1]
    assert "nan at row 77" in told[0]
    assert "actions look discrete" in told[0]


def test_a_log_of_ones_own_names_and_a_folder_of_them(tmp_path: Path) -> None:
    log = plant_log()
    shuffled = np.random.default_rng(0).permutation(len(log["t"]))
    unsorted = {name: column[shuffled] for name, column in log.items()}
    unsorted["temp_a"] = np.where(np.arange(len(shuffled)) == 3, np.nan, unsorted["temp_a"])
    unsorted["state"] = np.stack([unsorted["temp_b"]] * 2, axis=1).tolist()
    table = pa.table(unsorted)
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet", row_group_size=5)
    (tmp_path / "fleet").mkdir()
    pyarrow.parquet.write_table(table.slice(0, 11), tmp_path / "fleet" / "a.parquet")
    pyarrow.parquet.write_table(table.slice(11), tmp_path / "fleet" / "b.parquet")
    options: dict[str, Any] = {
        "columns": {**COLUMNS, "observations": ["temp_*", "state"]},
        "cost": COST,
        "drop_missing": True,
    }
    for name in ("log.parquet", "fleet"):
        small, large = open_both(tmp_path / name, **options)
        assert large.fingerprint == small.fingerprint
        assert large.warnings == small.warnings
        assert large.observation_dim == 4


def test_files_of_a_fleet_that_differ_are_refused(tmp_path: Path) -> None:
    log = plant_log()
    for number, changed in enumerate((log, {**log, "valve": log["valve"].astype(int).astype(str)})):
        pyarrow.parquet.write_table(pa.table(changed), tmp_path / f"{number}.parquet")
    with little_memory(), pytest.raises(UserError, match=r"valve is of another type in 1\.parquet \(string\)"):
        load(tmp_path, columns=COLUMNS, cost=COST)
    pyarrow.parquet.write_table(pa.table(log).drop_columns(["valve"]), tmp_path / "1.parquet")
    with little_memory(), pytest.raises(UserError, match="different columns \\(valve in one of them\\)"):
        load(tmp_path, columns=COLUMNS, cost=COST)
