"""Tables from files, folders, data frames, plain arrays and episodes are the same data; without pyarrow, one line."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from helpers.data import small_dataset
from helpers.tables import BATCHES, COLUMNS, COST, STEPS, plant_log

from lspc.data import Dataset, load, save
from lspc.errors import UserError


def opened(log: Any, **changes: Any) -> Dataset:
    arguments: dict[str, Any] = {"columns": COLUMNS, "cost": COST, **changes}
    return load(log, **arguments)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_data_frames_are_what_their_columns_are(make: Callable[[Any], Any]) -> None:
    dataset = opened(make(plant_log()))
    assert dataset.fingerprint == opened(plant_log()).fingerprint
    assert dataset.source in ("pandas DataFrame", "polars DataFrame", "pyarrow Table", "dict of arrays")


def test_types_of_data_frames() -> None:
    expected, log = opened(plant_log()).fingerprint, plant_log()
    frame = pd.DataFrame(log)
    frame["batch"] = frame["batch"].astype("category")
    frame["t"] = pd.Timestamp("2024-01-01", tz="Europe/Berlin") + frame["t"] * pd.Timedelta("1h")
    frame["temp_a"] = frame["temp_a"].astype("Float64")
    assert opened(frame.sample(frac=1, random_state=1)).fingerprint == expected
    assert opened(frame.set_index(["batch", "t"])).fingerprint == expected
    other = pl.DataFrame(log).with_columns(pl.col("batch").cast(pl.Categorical), pl.col("t").cast(pl.Duration("ms")))
    assert opened(other).fingerprint == expected


def test_missing_values_of_every_library() -> None:
    log: dict[str, Any] = {**plant_log()}
    log["temp_a"] = [None, *log["temp_a"][1:].tolist()]
    told = [message for make in (pd.DataFrame, pl.DataFrame, pa.table) for message in [refusal(make(log))]]
    assert all("values are missing: temp_a in 1 row(s), first row 0" in message for message in told)


def refusal(log: Any, **changes: Any) -> str:
    with pytest.raises(UserError) as error:
        opened(log, **changes)
    return str(error.value)


def test_columns_of_lists_are_several_columns() -> None:
    log: dict[str, Any] = {**plant_log()}
    pairs = np.stack([log.pop("temp_a"), log.pop("temp_b")], 1)
    columns = {**COLUMNS, "observations": "state"}
    expected = opened(plant_log()).fingerprint
    for made in (
        {**log, "state": pairs},
        pl.DataFrame({**log, "state": pairs}),
        pa.table({**log, "state": pairs.tolist()}),
    ):
        dataset = opened(made, columns=columns, cost="state_0 > 80")
        assert dataset.fingerprint == expected
        assert dataset.opened["columns"]["observations"] == ["state_0", "state_1"]
    ragged = pa.table({**log, "state": [[1.0], *pairs.tolist()[1:]]})
    assert "state holds lists of different lengths" in refusal(ragged, columns=columns)


def write_files(folder: Path, suffix: str) -> None:
    """A file for each batch."""
    log = plant_log()
    for batch in range(BATCHES):
        rows = slice(batch * STEPS, (batch + 1) * STEPS)
        part = pa.table({name: column[rows] for name, column in log.items()})
        write = pyarrow.csv.write_csv if suffix == ".csv" else pyarrow.parquet.write_table
        write(part, folder / f"part{batch}{suffix}")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_folder_is_one_table(tmp_path: Path, suffix: str) -> None:
    write_files(tmp_path, suffix)
    assert opened(tmp_path).fingerprint == opened(plant_log()).fingerprint
    by_file = opened(tmp_path, columns={**COLUMNS, "episode": "file"})
    assert by_file.fingerprint == opened(plant_log()).fingerprint
    none = {role: name for role, name in COLUMNS.items() if role != "episode"}
    assert "--columns episode=file where each file is one" in refusal(tmp_path, columns=none)


def test_a_bad_file_of_a_folder_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, ".csv")
    text = (tmp_path / "part2.csv").read_text()
    value = text.splitlines()[1].split(",")[2]
    (tmp_path / "part2.csv").write_text(text.replace(value, "inf"))
    assert "temp_a is inf at row 0 of part2.csv" in refusal(tmp_path)
    (tmp_path / "part2.csv").write_text("batch,t\nB2,1\n")
    assert "part2.csv and part0.csv have different columns (temp_a, temp_b, valve, yield in one of them)" in refusal(
        tmp_path
    )
    (tmp_path / "part2.csv").write_text("")
    assert "part2.csv: the file is empty" in refusal(tmp_path)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_files_of_other_programs(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "log.csv"
    pd.DataFrame(plant_log()).to_csv(path, sep=delimiter, index=False, encoding="utf-8-sig", lineterminator="\r\n")
    assert opened(path).fingerprint == opened(plant_log()).fingerprint


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_decimal_comma_is_read_and_told(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "log.csv"
    pd.DataFrame({**plant_log(), "note": "0.5 °C"}).to_csv(
        path, sep=delimiter, decimal=",", index=False, encoding="latin-1"
    )
    dataset = load(path, columns=COLUMNS, cost=COST)
    assert dataset.fingerprint == load(plant_log(), columns=COLUMNS, cost=COST).fingerprint
    assert f"{path}: its numbers were read with a decimal comma" in dataset.warnings


def test_a_text_among_numbers_is_shown_with_its_row(tmp_path: Path) -> None:
    log = pd.DataFrame(plant_log()).astype({"temp_a": object})
    log.loc[[3, 7], "temp_a"] = "Bad Input"
    log.loc[9, "temp_a"] = "?"
    log.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(UserError, match=r"temp_a holds numbers, but 'Bad Input' at row 3 \(2 such text\(s\)\)"):
        load(tmp_path / "log.csv", columns=COLUMNS, cost="valve > 50")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_damaged_tables_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log{suffix}"
    save(small_dataset(), path)
    content = path.read_bytes()
    for damage in (
        b"\xff\xfe\x00\x01" * 50,
        content[: len(content) // 2] + b'"\xff' if suffix == ".csv" else content[:-9],
    ):
        path.write_bytes(damage)
        with pytest.raises(UserError, match=r"damaged|lists|no column|missing"):
            load(path)


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,a\n1,2\n")
    with pytest.raises(UserError, match=r"log.csv: two columns are called 'a'; rename one"):
        load(tmp_path / "log.csv")


def test_negative_zero_survives_csv(tmp_path: Path) -> None:
    from dataclasses import replace

    dataset = replace(small_dataset(), rewards=np.full(1000, -0.0, np.float32))
    save(dataset, tmp_path / "a.csv")
    assert load(tmp_path / "a.csv").fingerprint == dataset.fingerprint


def test_episodes_in_a_list() -> None:
    dataset = small_dataset()
    episodes = [
        {
            "observations": np.concatenate([dataset.observations[rows], dataset.next_observations[rows][-1:]]),
            "actions": dataset.actions[rows], "rewards": dataset.rewards[rows], "costs": dataset.costs[rows].tolist(),
            "terminated": False,
        }
        for rows in dataset.episodes
    ]  # fmt: skip
    assert load(episodes).fingerprint == Dataset.from_episodes(episodes).fingerprint == dataset.fingerprint
    episodes[3]["terminated"] = True
    assert Dataset.from_episodes(episodes).terminated.sum() == 1
    renamed = [{"seen" if name == "observations" else name: array for name, array in one.items()} for one in episodes]
    assert Dataset.from_episodes(renamed, columns={"observations": "seen"}).observation_dim == 7


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rewards": np.zeros(49)}, "rewards of episode 1 has 49 rows where others have 50"),
        ({"rewards": np.zeros(51)}, "rewards of episode 1 has 51 rows where others have 50"),
        ({"more": np.zeros(50)}, "episodes 0 and 1 do not both have more"),
        ({"actions": np.zeros((50, 3))}, "the episodes differ in shape or type"),
        ({"actions": np.zeros((50, 2, 2))}, "the episodes differ in shape or type"),
    ],
)
def test_bad_episodes_are_refused(change: dict[str, Any], told: str) -> None:
    dataset = small_dataset(episodes=2)
    names = ("observations", "actions", "rewards", "costs")
    good, bad = ({name: getattr(dataset, name)[rows] for name in names} for rows in dataset.episodes)
    with pytest.raises(UserError, match=told):
        load([good, {**bad, **change}])
    for nothing in ([], [3]):
        with pytest.raises(UserError, match="episode"):
            load(nothing)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, ""),
        ({"rewards": np.zeros(7)}, "rewards has 7 rows where others have 1000"),
        ({"observations": np.zeros((1000, 7, 1))}, r"observations has shape \(1000, 7, 1\)"),
        ({"costs": np.full(1000, -1)}, "costs is -1 at row 0"),
        ({"rewards": np.full(1000, np.inf)}, "rewards is inf at row 0"),
        ({"actions": np.full((1000, 2), np.nan)}, "values are missing: actions_0 in 1000 row"),
        ({"actions": np.resize([0, 1], (1000, 1))}, "actions look discrete: 2 values"),
        ({"terminated": np.full(1000, 2), "truncated": None}, "terminated is 2 at row 0; done must be 0 or 1"),
        ({"truncated": None, "terminated": None}, "nothing tells where an episode ends"),
        ({"costs": ["a"] * 1000}, "costs is text"),
    ],
)
def test_arrays_are_checked(change: dict[str, Any], told: str) -> None:
    dataset = small_dataset()
    names = ["observations", "actions", "rewards", "costs", "next_observations", "terminated", "truncated"]
    arrays: dict[str, Any] = {**{name: getattr(dataset, name) for name in names}, **change}
    if told:
        with pytest.raises(UserError, match=told):
            Dataset.from_arrays(**arrays)
    else:
        assert Dataset.from_arrays(**arrays).fingerprint == dataset.fingerprint
        arrays["next_observations"] = None
        assert Dataset.from_arrays(**arrays).transitions == 980


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(UserError, match="it is not a table; give a file"):
        load(3)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_without_pyarrow_there_is_one_line(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"log{suffix}"
    save(small_dataset(), path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for action in (lambda: load(path), lambda: save(small_dataset(), path), lambda: load(pd.DataFrame(plant_log()))):
        with pytest.raises(UserError, match=r'tables need pyarrow: pip install "lspc\[data\]"'):
            action()
    assert opened(plant_log()).transitions == BATCHES * (STEPS - 1)
