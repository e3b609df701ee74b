"""Inputs nobody expects, drawn by hypothesis: tables of any columns and options, and files with changed bytes.

Opening one must give a correct dataset or our own error. tests/data/test_fuzz.py draws a few hundred of them,
scripts/fuzz_data.py ten thousand.
"""

import shutil
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from helpers.data import little_memory, small_dataset
from helpers.lerobot import write_lerobot
from lspc.data import FIELDS, Dataset, load, save
from lspc.data.validate import CONTINUITY_TOLERANCE
from lspc.errors import UserError

NUMBERS = ("f4", "f8", "f2", ">f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
ODD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e39, -0.0, 1e-45, 2.0**53, 1.5, -1.0)
"""Values that a log should not hold, or holds rarely."""
NAMES = ("temp", "temp °C", "a b", "a.b", "", "cost", "safety_cost", "reward_2", "file", "episode_id", "done",
         "next_obs_0", "__index_level_0__", "x" * 300, "obs_10", "obs_x", "*", "!obs_0", "t=3", "\n")  # fmt: skip
COSTS = ("obs_1 > 0", "obs_0 > 1 and not obs_1 > 2", "obs_1 / 0", "cost", "abs(obs_1)", "clip(obs_1, 0, 1)",
         "nowhere > 1", "obs_1 ** 2", "__import__('os')", "obs_1 >", "", "1", "-1", "`obs_1` == 0", "min(obs_1)",
         "9" * 400)  # fmt: skip
COLUMNS = ("observations=obs_*", "observations=*", "observations=obs_0,!obs_0", "actions=obs_0", "reward=obs_1",
           "episode=file", "step=obs_0", "done=obs_1", "nonsense=1", "nowhere.toml", "=", "cost=reward",
           "next_observations=obs_*", "timeout=done", "observations=")  # fmt: skip
BOUNDS = ((-1, 1), (0, 100), (1, -1), (0, 0), (np.nan, 1), (-1e39, 1e39), (0,), (-1, 1, -1, 1), (-1, 1) * 5)
SAMPLES = Path(__file__).parents[1] / "data" / "samples"
CONTAINERS = ("dict", "pandas", "polars", "pyarrow", "episodes", ".parquet", ".csv", "folder")


@dataclass
class Log:
    """A table, how it is handed over, and what is said of it."""

    columns: dict[str, Any]
    container: str
    options: dict[str, Any] = field(default_factory=dict)
    sound: bool = True
    """Whether nothing in it is odd, so that it must open."""
    ends: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows of each episode."""
    streamed: bool = False
    """Whether memory is short while it is opened."""


@st.composite
def logs(draw: Any) -> Log:
    """A table whose first observation is the number of the row in time, and what was done to it."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = _plain_columns(rng, lengths)
    log = Log(columns, draw(st.sampled_from(CONTAINERS)), ends=np.array(lengths), streamed=draw(st.booleans()))
    if max(lengths) < 2:
        log.sound = False  # no transition
    for change in draw(st.lists(st.sampled_from(CHANGES), max_size=3)):
        change(draw, log, rng)
    if draw(st.booleans()):
        order = rng.permutation(sum(lengths))
        log.columns = {name: _at(column, order) for name, column in log.columns.items()}
        log.sound &= "step" in log.columns and log.container != "episodes"
    return log


def _plain_columns(rng: np.random.Generator, lengths: list[int]) -> dict[str, Any]:
    rows = sum(lengths)
    return {
        "episode": np.repeat(np.arange(len(lengths)), lengths),
        "step": np.concatenate([np.arange(n) for n in lengths]),
        "obs_0": np.arange(rows, dtype=float), "obs_1": rng.normal(size=rows), "action": rng.uniform(-1, 1, rows),
        "reward": rng.normal(size=rows), "cost": np.abs(rng.normal(size=rows)),
    }  # fmt: skip


def _at(column: Any, rows: NDArray[np.int64]) -> Any:
    if len(column) != len(rows):  # it was made shorter than the others
        return column
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]


def _draw_numbers(draw: Any, log: Log) -> str:
    """The name of a column that holds numbers."""
    columns = [(name, column) for name, column in sorted(log.columns.items()) if isinstance(column, np.ndarray)]
    return draw(st.sampled_from([name for name, c in columns if c.ndim == 1 and c.dtype.kind in "biuf" and c.size]))


def _change_type(draw: Any, log: Log, rng: np.random.Generator) -> None:
    name = _draw_numbers(draw, log)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        log.columns[name] = log.columns[name].astype(float).astype(draw(st.sampled_from(NUMBERS)))
    log.sound = False


def _put_odd_value(draw: Any, log: Log, rng: np.random.Generator) -> None:
    name = _draw_numbers(draw, log)
    column = log.columns[name].astype(float)
    column[rng.integers(len(column))] = draw(st.sampled_from(ODD))
    log.columns[name] = column
    log.sound = False


def _put_other_objects(draw: Any, log: Log, rng: np.random.Generator) -> None:
    name = draw(st.sampled_from(sorted(log.columns)))
    kind = draw(
        st.sampled_from(["text", "none", "lists", "ragged", "bytes", "times", "objects", "dicts", "wide", "big"])
    )
    rows = max((len(column) for column in log.columns.values()), default=1)
    made: dict[str, Any] = {
        "text": [f"name {i % 3}" for i in range(rows)], "none": [None] * rows, "lists": [[1.0, 2.0]] * rows,
        "ragged": [[1.0] * (i % 3) for i in range(rows)], "bytes": [b"\xff"] * rows,
        "times": np.datetime64("2026-01-01") + np.arange(rows).astype("m8[h]"), "objects": [1, "a", None] * rows,
        "dicts": [{"a": i} for i in range(rows)], "wide": rng.normal(size=(rows, 3)), "big": [2**70] * rows,
    }  # fmt: skip
    value = made[kind]
    log.columns[name] = value[:rows]
    log.sound = False


def _drop_column(draw: Any, log: Log, rng: np.random.Generator) -> None:
    log.columns.pop(draw(st.sampled_from(sorted(log.columns))))
    log.sound = False


def _add_column(draw: Any, log: Log, rng: np.random.Generator) -> None:
    rows = max((len(column) for column in log.columns.values()), default=1)
    log.columns[draw(st.sampled_from(NAMES))] = rng.normal(size=rows)
    log.sound = False


def _shorten_column(draw: Any, log: Log, rng: np.random.Generator) -> None:
    name = draw(st.sampled_from(sorted(log.columns)))
    log.columns[name] = log.columns[name][: draw(st.integers(0, 2))]
    log.sound = False


def _add_flags(draw: Any, log: Log, rng: np.random.Generator) -> None:
    rows = max((len(column) for column in log.columns.values()), default=1)
    name, kind = draw(st.sampled_from(["done", "timeout", "terminated"])), draw(st.sampled_from(["?", "i8", "f8"]))
    log.columns[name] = (rng.random(rows) < 0.3).astype(kind)
    log.sound = False


def _say_options(draw: Any, log: Log, rng: np.random.Generator) -> None:
    choice = draw(st.sampled_from(["columns", "cost", "bounds", "drop", "continuous"]))
    log.options |= {
        "columns": {"columns": draw(st.lists(st.sampled_from(COLUMNS), max_size=3))},
        "cost": {"cost": draw(st.sampled_from(COSTS))}, "bounds": {"action_bounds": draw(st.sampled_from(BOUNDS))},
        "drop": {"drop_missing": True}, "continuous": {"continuous": True},
    }[choice]  # fmt: skip
    log.sound = False


CHANGES: tuple[Callable[[Any, Log, np.random.Generator], None], ...] = (
    _change_type, _put_odd_value, _put_other_objects, _drop_column, _add_column, _shorten_column, _add_flags,
    _say_options, _say_options,
)  # fmt: skip


def open_log(log: Log, folder: Path) -> str:
    """Open it as its container says; what came of it in a word."""
    try:
        source = hand_over(log, folder)
    except NotExpressible:
        return "not expressible"
    try:
        with little_memory() if log.streamed and _can_be_streamed(source) else nullcontext():
            dataset = load(source, **log.options)
    except UserError as error:
        if log.sound:
            raise AssertionError("a sound log was refused") from error
        check_error(error)
        return "refused"
    check_dataset(dataset)
    if log.sound:
        check_rows(dataset, log)
    return "opened"


def _can_be_streamed(source: Any) -> bool:
    """Whether it is a file or a folder of Parquet; other files are refused where memory is short."""
    paths = [] if not isinstance(source, Path) else list(source.iterdir()) if source.is_dir() else [source]
    return all(path.suffix == ".parquet" for path in paths)


class NotExpressible(Exception):
    """The library that would hold this table cannot."""


def hand_over(log: Log, folder: Path) -> Any:
    """The table in its container."""
    if log.container == "dict":
        return log.columns
    if log.container == "episodes":
        return _cut(log)
    import pandas
    import polars
    import pyarrow as pa

    plain = {
        name: column.tolist() if getattr(column, "ndim", 1) > 1 else column for name, column in log.columns.items()
    }
    try:
        if log.container == "polars":
            return polars.DataFrame(plain)
        table = pa.table({name: _arrow(column) for name, column in plain.items()})
        if log.container == "pandas":
            return pandas.DataFrame(plain)
    except Exception as error:  # whatever another library says about what it cannot hold
        raise NotExpressible from error
    return table if log.container == "pyarrow" else _write(table, log, folder)


def _arrow(column: Any) -> Any:
    import pyarrow as pa

    return pa.array(column.astype(column.dtype.newbyteorder("=")) if isinstance(column, np.ndarray) else column)


def _write(table: Any, log: Log, folder: Path) -> Path:
    import pyarrow.csv
    import pyarrow.parquet

    def write_csv(part: Any, path: Path) -> None:
        try:
            pyarrow.csv.write_csv(part, path)
        except Exception as error:
            raise NotExpressible from error

    if log.container == ".parquet":
        pyarrow.parquet.write_table(table, folder / "log.parquet")
        return folder / "log.parquet"
    if log.container == ".csv":
        write_csv(table, folder / "log.csv")
        return folder / "log.csv"
    place, half = folder / "folder", len(table) // 2
    place.mkdir()
    pyarrow.parquet.write_table(table.slice(0, half), place / "a.parquet")
    if len(table) % 2:
        pyarrow.parquet.write_table(table.slice(half), place / "b.parquet")
    else:
        write_csv(table.slice(half), place / "b.csv")
    return place


def _cut(log: Log) -> list[dict[str, Any]]:
    stops = np.cumsum(log.ends)
    return [
        {name: column[start:stop] for name, column in log.columns.items()}
        for start, stop in zip(stops - log.ends, stops, strict=True)
    ]


def check_error(error: UserError) -> None:
    lines = str(error).split("\n")
    assert all(line.strip() for line in lines), f"an empty line in {error!r}"
    assert len(str(error)) < 20_000


def check_dataset(dataset: Dataset) -> None:
    """What every dataset must be, said again in the plainest way."""
    arrays = {name: np.asarray(getattr(dataset, name)) for name in FIELDS}
    assert len({len(array) for array in arrays.values()}) == 1
    assert dataset.transitions > 0
    for name in ("observations", "actions", "rewards", "costs", "next_observations"):
        assert arrays[name].dtype == np.float32
        assert np.isfinite(arrays[name]).all(), name
    assert (arrays["costs"] >= 0).all()
    ends = arrays["terminated"] | arrays["truncated"]
    assert ends[-1]
    bounds = dataset.action_bounds
    assert (arrays["actions"] >= np.array(bounds.low, np.float32)).all()
    assert (arrays["actions"] <= np.array(bounds.high, np.float32)).all()
    inside = np.flatnonzero(~ends[:-1])
    now, then = arrays["observations"].astype(float), arrays["next_observations"].astype(float)
    scale = np.maximum(np.abs(now).max(0), np.abs(then).max(0))
    assert (np.abs(then[inside] - now[inside + 1]) <= 1.001 * CONTINUITY_TOLERANCE * scale).all()


def check_rows(dataset: Dataset, log: Log) -> None:
    """Every transition is a row of the table, with the next row of its episode after it."""
    where = {int(number): row for row, number in enumerate(np.asarray(log.columns["obs_0"]))}
    numbers = dataset.observations[:, 0].astype(int)
    rows = [where[number] for number in numbers]
    for column, array in (("action", dataset.actions[:, 0]), ("reward", dataset.rewards), ("cost", dataset.costs)):
        np.testing.assert_array_equal(np.asarray(log.columns[column])[rows].astype(np.float32), array)
    assert (dataset.next_observations[:, 0] == dataset.observations[:, 0] + 1).all()
    assert len(rows) == int((log.ends - 1).sum())


FILES = (".hdf5", ".npz", ".parquet", ".csv")
FOLDERS = {"minari-hdf5": "tank-hdf5-v0", "minari-arrow": "tank-arrow-v0", "minari-parquet": "tank-parquet-v0"}
"""Kinds of folders -> samples that Minari itself wrote."""
MUTATED = (*FILES, *FOLDERS, "lerobot")


def make_good_files(folder: Path) -> dict[str, Path]:
    """One sound file of each format, and one sound folder of each kind."""
    dataset = small_dataset(episodes=4, steps=25)
    made = {suffix: folder / f"good{suffix}" for suffix in FILES}
    for path in made.values():
        save(dataset, path, {"task": "BallRun", "note": "as collected"})
    made |= {kind: SAMPLES / "minari" / "plant" / name for kind, name in FOLDERS.items()}
    write_lerobot(folder / "lerobot", "v2.1")
    return made | {"lerobot": folder / "lerobot"}


@dataclass(frozen=True)
class Mutation:
    """Changes of a file's bytes: (what, where as a share of the file, how long, with what seed)."""

    steps: tuple[tuple[str, float, int, int], ...]

    def apply(self, content: bytes) -> bytes:
        changed = bytearray(content)
        for kind, share, length, seed in self.steps:
            place = int(share * max(len(changed) - 1, 0))
            noise = np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8).tobytes()
            if kind == "overwrite":
                changed[place : place + length] = noise[: len(changed) - place]
            elif kind == "insert":
                changed[place:place] = noise
            elif kind == "delete":
                del changed[place : place + length]
            elif kind == "zero":
                changed[place : place + length] = bytes(len(changed[place : place + length]))
            elif kind == "ones":
                changed[place : place + length] = b"\xff" * len(changed[place : place + length])
            elif kind == "repeat":
                changed[place:place] = changed[place : place + length]
            elif kind == "cut":
                del changed[place:]
            elif kind == "flip" and changed:
                changed[place] ^= 1 << (seed % 8)
        return bytes(changed)


KINDS = ("overwrite", "insert", "delete", "zero", "ones", "repeat", "cut", "flip", "flip", "flip")
mutations = st.lists(
    st.tuples(st.sampled_from(KINDS), st.floats(0, 1), st.integers(1, 64), st.integers(0, 2**16)),
    min_size=1,
    max_size=4,
).map(lambda steps: Mutation(tuple(steps)))


def open_mutated(good: Path, mutation: Mutation, folder: Path) -> str:
    """Open a copy of a sound file or folder in which one file was changed."""
    choice = mutation.steps[0][3]
    source = _copy_mutated(good, mutation, folder / "log", choice)
    streamed = (good.suffix in (".hdf5", ".parquet") or good.name == "lerobot") and choice % 3 == 0
    try:
        with little_memory() if streamed else nullcontext():
            dataset = load(source, **({"cost": "`observation.state_0` > 0"} if good.name == "lerobot" else {}))
    except UserError as error:
        check_error(error)
        return "refused"
    check_dataset(dataset)
    return "opened"


def _copy_mutated(good: Path, mutation: Mutation, place: Path, choice: int) -> Path:
    """Where the copy is; a table may be the only file of a folder."""
    if good.is_dir():
        shutil.copytree(good, place)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        changed, source = files[choice % len(files)], place
    else:
        place.mkdir()
        changed = place / f"log{good.suffix}"
        shutil.copy(good, changed)
        source = place if choice % 2 and good.suffix in (".parquet", ".csv") else changed
    changed.write_bytes(mutation.apply(changed.read_bytes()))
    return source
