"""From every format to every other, with numbers that are hard to write: bit for bit, bounds and metadata too."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lspc.data import FIELDS, Bounds, Dataset, load, save
from lspc.data.tables.writing import make_columns
from lspc.data.validate import FILE_NAMES

FILES = ("a.hdf5", "b.h5", "c.npz", "d.parquet", "e.pq", "f.csv")
any_float = st.floats(width=32, allow_nan=False, allow_infinity=False)
few = settings(max_examples=6, deadline=None, derandomize=True, database=None)


@st.composite
def datasets(draw: Any) -> Dataset:
    """Two episodes of any finite numbers: -0, subnormal and huge ones too; actions in per cent."""
    lengths = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    rows = sum(lengths)
    path = draw(arrays(np.float32, (rows + 1, 2), elements=any_float))
    ends = np.isin(np.arange(rows), np.cumsum(lengths) - 1)
    done = ends & draw(st.booleans())
    return Dataset(
        observations=path[:-1],
        next_observations=path[1:],
        actions=draw(arrays(np.float32, (rows, 1), elements=st.floats(0, 100, width=32))),
        rewards=draw(arrays(np.float32, rows, elements=any_float)),
        costs=draw(arrays(np.float32, rows, elements=st.floats(0, 2.0**100, width=32))),
        terminated=done,
        truncated=ends & ~done,
        metadata={"task": "my plant", "rate": 0.1},
        action_bounds=Bounds((0.0,), (100.0,)),
    )


def same_bits(one: Dataset, other: Dataset) -> bool:
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in FIELDS)


@pytest.mark.slow
@given(dataset=datasets())
@settings(few, max_examples=3)
def test_every_format_gives_every_other_the_same_bits(dataset: Dataset) -> None:
    with TemporaryDirectory() as folder:
        # CSV has no place for metadata, bounds among them: those are said again.
        said: dict[str, Any] = {"continuous": True, "action_bounds": (0, 100)}
        for first in FILES:
            save(dataset, Path(folder) / first)
            opened = load(Path(folder) / first, **said)
            assert same_bits(opened, dataset), first
            for second in FILES:
                save(opened, Path(folder) / f"again-{second}")
                again = load(Path(folder) / f"again-{second}", **said)
                assert same_bits(again, dataset), (first, second)
            assert opened.fingerprint == dataset.fingerprint


@given(dataset=datasets())
@few
def test_bounds_and_metadata_stay_with_the_file(dataset: Dataset) -> None:
    with TemporaryDirectory() as folder:
        for name in FILES[:-1]:
            save(dataset, Path(folder) / name)
            opened = load(Path(folder) / name, continuous=True)
            assert opened.action_bounds == dataset.action_bounds
            assert {key: opened.metadata[key] for key in dataset.metadata} == dataset.metadata


@pytest.mark.parametrize("make", [dict, pandas.DataFrame, polars.DataFrame, pa.table])
@given(dataset=datasets())
@few
def test_a_table_in_memory_is_what_was_saved(make: Any, dataset: Dataset) -> None:
    columns = make_columns({FILE_NAMES[field]: getattr(dataset, field) for field in FIELDS})
    assert same_bits(load(make(columns), continuous=True, action_bounds=(0, 100)), dataset)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@given(dataset=datasets())
@few
def test_a_folder_of_episodes_is_the_dataset(suffix: str, dataset: Dataset) -> None:
    with TemporaryDirectory() as folder:
        for number in range(2):
            save(dataset.select([number]), Path(folder) / f"{number}{suffix}")
        opened = load(folder, columns={"episode": "file"}, continuous=True, action_bounds=(0, 100))
    assert same_bits(opened, dataset)
