"""Files in and out: what is saved is what is loaded, bit for bit, and every bad file is refused by name."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from lspc.data import Dataset, budget_warning, examine, find_format, formats, load, profile, read_metadata, save
from lspc.data.formats.base import Format
from lspc.errors import UserError

Arrays = dict[str, NDArray[Any]]
SUFFIXES = [".hdf5", ".h5", ".npz"]
WRITTEN = [*SUFFIXES, ".parquet", ".csv"]
"""What we can write; somebody else's arrays come in the first three."""
EPISODES, STEPS = 4, 25


@pytest.fixture
def arrays() -> Arrays:
    """Good raw arrays under DSRL's names: four episodes, the second ended by the task."""
    rng = np.random.default_rng(0)
    rows = EPISODES * STEPS
    path = rng.normal(size=(EPISODES, STEPS + 1, 3)).astype(np.float32)
    last = np.arange(STEPS - 1, rows, STEPS)
    terminals, timeouts = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    terminals[last[1]] = True
    timeouts[last[[0, 2, 3]]] = True
    return {
        "observations": path[:, :-1].reshape(rows, 3),
        "next_observations": path[:, 1:].reshape(rows, 3),
        "actions": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "rewards": rng.normal(size=rows).astype(np.float32),
        "costs": (rng.random(rows) < 0.3).astype(np.float32),
        "terminals": terminals,
        "timeouts": timeouts,
    }


def write(path: Path, arrays: Arrays) -> Path:
    """A file as somebody else's program would write it, without our `save`."""
    if path.suffix == ".npz":
        np.savez(path, allow_pickle=True, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    return path


def in_memory(arrays: Arrays) -> Dataset:
    renamed = {"terminals": "terminated", "timeouts": "truncated"}
    fields: dict[str, Any] = {renamed.get(name, name): array for name, array in arrays.items()}
    return Dataset(**fields)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_foreign_file_loads(tmp_path: Path, arrays: Arrays, suffix: str) -> None:
    dataset = load(write(tmp_path / f"logs{suffix}", arrays))
    assert dataset.fingerprint == in_memory(arrays).fingerprint
    assert dataset.warnings == ()
    assert dataset.source.endswith(f"logs{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_our_own_flag_names_and_other_number_types_load(tmp_path: Path, arrays: Arrays, suffix: str) -> None:
    expected = in_memory(arrays).fingerprint
    arrays["terminated"] = arrays.pop("terminals").astype(np.uint8)
    arrays["truncated"] = arrays.pop("timeouts").astype(np.float64)
    arrays["costs"] = arrays["costs"].astype(np.int64)
    arrays["rewards"] = arrays["rewards"].astype(">f8")
    assert load(write(tmp_path / f"logs{suffix}", arrays)).fingerprint == expected


def test_round_trips_between_formats_keep_the_fingerprint(tmp_path: Path, arrays: Arrays) -> None:
    original = in_memory(arrays)
    current = original
    for name in ["a.hdf5", "b.npz", "c.parquet", "d.h5", "e.csv", "f.npz", "g.csv", "h.parquet", "i.hdf5", "j.pq"]:
        save(current, tmp_path / name)
        current = load(tmp_path / name)
        assert current.fingerprint == original.fingerprint
    assert current.terminated.tolist() == original.terminated.tolist()


@pytest.mark.process
@pytest.mark.parametrize("suffix", WRITTEN)
def test_equal_content_gives_equal_bytes_in_another_process(tmp_path: Path, arrays: Arrays, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    save(in_memory(arrays), first, {"task": "BallCircle", "seed": 3})
    again = (
        "import sys; from lspc.data import load, save\n"
        "save(load(sys.argv[1]), sys.argv[2], {'task': 'BallCircle', 'seed': 3})"
    )
    subprocess.run([sys.executable, "-c", again, str(first), str(second)], check=True)
    assert first.read_bytes() == second.read_bytes()


def test_npz_carries_no_time_of_writing(tmp_path: Path, arrays: Arrays) -> None:
    save(in_memory(arrays), tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz") as file:
        assert {entry.date_time for entry in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_hdf5_is_compressed_in_dsrls_layout(tmp_path: Path, arrays: Arrays) -> None:
    save(in_memory(arrays), tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert set(file) == set(arrays)
        for name, array in arrays.items():
            entry = file[name]
            assert isinstance(entry, h5py.Dataset)
            assert (entry.compression, entry.shuffle, entry.dtype) == ("gzip", True, array.dtype)


@pytest.mark.parametrize("suffix", WRITTEN)
def test_a_killed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, arrays: Arrays, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    save(in_memory(arrays), path)
    before = path.read_bytes()

    def die_half_way(where: Path, *_: Any) -> None:
        where.write_bytes(before[:100])
        raise KeyboardInterrupt

    dying = tuple(replace(kind, write=die_half_way) for kind in formats.FORMATS)
    monkeypatch.setattr(formats, "FORMATS", dying)
    with pytest.raises(KeyboardInterrupt):
        save(in_memory(arrays), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_format_is_known_by_its_suffix_alone() -> None:
    names = {suffix: kind.name for kind in formats.FORMATS for suffix in kind.suffixes}
    tables = {".parquet": "Parquet", ".pq": "Parquet", ".csv": "CSV"}
    assert names == {".hdf5": "HDF5", ".h5": "HDF5", ".npz": "NPZ", **tables}
    for suffix, name in names.items():
        found = find_format(Path("folder.txt") / f"a{suffix.upper()}")
        assert found is not None
        assert found.name == name
    assert find_format("a.txt") is None
    assert find_format("npz") is None


def test_a_format_that_is_registered_is_read_written_and_named(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[tuple[Arrays, dict[str, Any]]] = []

    def write_memory(path: Path, given: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> None:
        kept.append((dict(given), dict(metadata)))
        path.write_text("in memory")

    memory = Format("memory", (".mem",), lambda *_: kept[-1], lambda _: kept[-1][1], write_memory)
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, memory))
    save(in_memory(arrays), tmp_path / "a.mem", {"task": "BallRun"})
    dataset = load(tmp_path / "a.mem")
    assert dataset.fingerprint == in_memory(arrays).fingerprint
    assert dataset.metadata == read_metadata(tmp_path / "a.mem") == {"task": "BallRun"}
    with pytest.raises(UserError, match=r"use .hdf5, .h5, .npz, .parquet, .pq, .csv, .mem"):
        load(write(tmp_path / "a.npz", arrays).rename(tmp_path / "a.txt"))


def test_save_refuses_an_unknown_type(tmp_path: Path, arrays: Arrays) -> None:
    with pytest.raises(UserError, match=r"unknown file type '.txt'; use .hdf5, .h5, .npz"):
        save(in_memory(arrays), tmp_path / "a.txt")


def spoil(arrays: Arrays, name: str, index: Any, value: float) -> None:
    arrays[name][index] = value


# What is done to the good arrays; the field, the row and the words that must be in the report.
BAD_ARRAYS: dict[str, tuple[Any, str, int | None, str]] = {
    "nan": (
        lambda a: spoil(a, "observations", (7, 1), np.nan),
        "observations",
        7,
        "is nan at row 7, column 1",
    ),
    "inf": (lambda a: spoil(a, "rewards", 9, -np.inf), "rewards", 9, "rewards is -inf at row 9"),
    "overflow": (
        lambda a: a.update(rewards=np.where(np.arange(100) == 4, 1e300, a["rewards"].astype(float))),
        "rewards",
        4,
        "rewards is 1e+300, too large for float32, at row 4",
    ),
    "negative cost": (lambda a: spoil(a, "costs", 11, -0.5), "costs", 11, "costs is -0.5 at row 11"),
    "length": (
        lambda a: a.update(actions=a["actions"][:-1]),
        "actions",
        None,
        "99 rows where others have 100",
    ),
    "rank of rewards": (
        lambda a: a.update(rewards=a["rewards"][:, None]),
        "rewards",
        None,
        "shape (100, 1); reshape it to (N,)",
    ),
    "rank of actions": (
        lambda a: a.update(actions=a["actions"][:, 0]),
        "actions",
        None,
        "shape (100,); reshape it to (N, columns)",
    ),
    "no columns": (lambda a: a.update(actions=a["actions"][:, :0]), "actions", None, "no columns"),
    "columns": (
        lambda a: a.update(next_observations=a["next_observations"][:, :2]),
        "next_observations",
        None,
        "has 2 columns but observations has 3",
    ),
    "flag": (
        lambda a: a.update(timeouts=a["timeouts"].astype(np.int8) * 2),
        "truncated",
        STEPS - 1,
        "timeouts is 2 at row 24",
    ),
    "complex": (lambda a: a.update(costs=a["costs"] + 0j), "costs", None, "has type complex64, not numbers"),
    "text": (lambda a: a.update(costs=np.array([b"0"] * 100)), "costs", None, "has type |S1, not numbers"),
    "continuity": (
        lambda a: spoil(a, "next_observations", (30, 0), 9.0),
        "next_observations",
        30,
        "at row 30 differs from observations at row 31 in the same episode (1 such row(s) in all)",
    ),
    "episode end not marked": (
        lambda a: spoil(a, "timeouts", 3 * STEPS - 1, False),
        "next_observations",
        3 * STEPS - 1,
        "mark every episode's last row",
    ),
    "only episode unfinished": (
        lambda a: a.update({name: array[: STEPS - 1] for name, array in a.items()}),
        "truncated",
        None,
        "no episode ends",
    ),
    "no rows": (
        lambda a: a.update({name: array[:0] for name, array in a.items()}),
        "observations",
        None,
        "there are no transitions",
    ),
}
BAD_ARRAYS |= {
    f"{name} missing": (lambda a, name=name: a.pop(name), field, None, f"{name} is missing")
    for name, field in {
        "observations": "observations",
        "actions": "actions",
        "rewards": "rewards",
        "costs": "costs",
        "terminals": "terminated",
        "timeouts": "truncated",
    }.items()
}


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays_are_refused(tmp_path: Path, arrays: Arrays, case: str, suffix: str) -> None:
    change, field, index, words = BAD_ARRAYS[case]
    change(arrays)
    path = write(tmp_path / f"bad{suffix}", arrays)
    dataset, problems = examine(path)
    assert dataset is None
    fatal = [problem for problem in problems if problem.severity == "fatal"]
    assert [(problem.field, problem.index) for problem in fatal] == [(field, index)]
    assert fatal[0].message.startswith(f"{path}: ")
    assert words in fatal[0].message
    with pytest.raises(UserError) as error:
        load(path)
    assert str(error.value) == fatal[0].message
    assert "\n" not in fatal[0].message


def test_every_fatal_problem_is_on_its_own_line(tmp_path: Path, arrays: Arrays) -> None:
    del arrays["costs"]
    arrays["rewards"][3] = np.nan
    arrays["next_observations"][40] += 5
    arrays["actions"][0] = 2  # a warning, and so not part of the error
    path = write(tmp_path / "bad.npz", arrays)
    with pytest.raises(UserError) as error:
        load(path)
    lines = str(error.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{path}: ") for line in lines)
    _, problems = examine(path)
    assert [problem.severity for problem in problems].count("warning") == 1


def test_continuity_is_relative_to_each_features_scale(tmp_path: Path, arrays: Arrays) -> None:
    for name in ("observations", "next_observations"):
        arrays[name] = arrays[name] * np.array([1e6, 1, 1e-3], dtype=np.float32)
    arrays["next_observations"][5, 0] += 10  # a hundred-thousandth of its scale: rounding
    load(write(tmp_path / "good.npz", arrays))
    arrays["next_observations"][6, 2] += 1e-3  # all of its scale
    with pytest.raises(UserError, match="next_observations at row 6"):
        load(write(tmp_path / "bad.npz", arrays))


def test_continuity_is_checked_in_every_piece_of_a_large_file(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lspc.data.validate.ROWS_AT_ONCE", 7)
    load(write(tmp_path / "good.npz", arrays))
    arrays["next_observations"][[34, 97]] += 1
    with pytest.raises(UserError, match=r"at row 34 .* \(2 such row"):
        load(write(tmp_path / "bad.npz", arrays))


def test_removed_episodes_do_not_break_continuity(tmp_path: Path, arrays: Arrays) -> None:
    save(in_memory(arrays).select([0, 3]), tmp_path / "a.hdf5")
    assert len(load(tmp_path / "a.hdf5").episodes) == 2


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_cut_off_file_is_refused(tmp_path: Path, arrays: Arrays, suffix: str, kept: float) -> None:
    path = tmp_path / f"cut{suffix}"
    save(in_memory(arrays), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    dataset, problems = examine(path)
    assert dataset is None
    assert [problem.field for problem in problems] == ["file"]
    with pytest.raises(UserError, match="download or export the file again"):
        load(path)


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_a_damaged_array_is_refused(tmp_path: Path, arrays: Arrays, suffix: str) -> None:
    path = tmp_path / f"damaged{suffix}"
    save(in_memory(arrays), path)
    content = bytearray(path.read_bytes())
    # The compressed stream of the first array: overwritten, the rest of the file stays whole.
    start = content.find(b"\x78\x5e") if suffix == ".hdf5" else 300
    assert start > 0
    content[start : start + 200] = bytes(200)
    path.write_bytes(content)
    dataset, problems = examine(path)
    assert dataset is None
    assert "damaged" in problems[0].message


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_another_kind_of_file_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"page{suffix}"
    path.write_text("<html>404: the dataset host is down</html>" * 100)
    with pytest.raises(UserError, match=r"not an (HDF5|NPZ)"):
        load(path)


def test_a_single_npy_array_is_not_an_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(UserError, match="not an NPZ"):
        load(path)


@pytest.mark.parametrize("name", ["logs.txt", "logs", "logs.pkl"])
def test_an_unknown_type_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match=r"unknown file type .*; use .hdf5, .h5, .npz"):
        load(tmp_path / name)


def test_a_missing_file_or_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        load(tmp_path / "nothing.hdf5")
    with pytest.raises(UserError, match=r"the folder has no table in it \(.parquet, .pq, .csv\)"):
        load(tmp_path)


class Bomb:
    """Pickled, this would create a file when loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_a_pickled_npz_is_refused_and_not_run(tmp_path: Path, arrays: Arrays) -> None:
    trap = tmp_path / "was_run"
    arrays["rewards"] = np.array([Bomb(trap)] * 100, dtype=object)
    path = write(tmp_path / "pickled.npz", arrays)
    dataset, problems = examine(path)
    assert dataset is None
    assert [problem.field for problem in problems] == ["rewards"]
    assert "rewards holds pickled objects, which are never loaded" in problems[0].message
    assert not trap.exists()


def test_hdf5_oddities_are_refused(tmp_path: Path, arrays: Arrays) -> None:
    path = tmp_path / "odd.hdf5"
    for name in ("actions", "costs", "rewards", "timeouts"):
        del arrays[name]
    write(path, arrays)
    with h5py.File(path, "a") as file:
        file.create_group("actions")
        file.create_dataset("costs", data=h5py.Empty("f4"))
        file["rewards"] = h5py.SoftLink("/nowhere")
        file["timeouts"] = ["no"] * 100
    dataset, problems = examine(path)
    assert dataset is None
    assert {problem.field for problem in problems} == {"actions", "costs", "rewards", "truncated"}


def test_actions_outside_their_bounds_are_clipped_and_counted(tmp_path: Path, arrays: Arrays) -> None:
    arrays["actions"][12] = [1.05, -1.08]
    arrays["actions"][40] = [0, 1.09]
    path = write(tmp_path / "a.npz", arrays)
    dataset, problems = examine(path)
    assert dataset is not None
    assert dataset.actions[12].tolist() == [1, -1]
    assert dataset.actions[40].tolist() == [0, 1]
    [problem] = problems
    assert (problem.severity, problem.field, problem.index) == ("warning", "actions", 12)
    assert "outside [-1, 1] in 2 of 100 rows, first -1.08 at row 12; they were clipped" in problem.message
    assert dataset.warnings == (problem.message,)
    assert load(path, action_bounds=(-1.1, 1.1)).warnings == ()


def test_an_unfinished_last_episode_is_dropped(tmp_path: Path, arrays: Arrays) -> None:
    expected = in_memory(arrays).select([0, 1, 2]).fingerprint
    cut = {name: array[:-5] for name, array in arrays.items()}
    dataset = load(write(tmp_path / "a.hdf5", cut))
    assert dataset.fingerprint == expected
    [warning] = dataset.warnings
    assert "the last episode, from row 75, is unfinished; its 20 transition(s) were dropped" in warning


def test_extra_keys_are_ignored_with_one_warning(tmp_path: Path, arrays: Arrays) -> None:
    arrays |= {"infos": np.zeros(3), "terminated": np.ones(100)}
    dataset = load(write(tmp_path / "a.npz", arrays))
    assert dataset.terminated.sum() == 1  # terminals, DSRL's name, goes first
    [warning] = dataset.warnings
    assert warning.endswith("infos, terminated: not part of a dataset; ignored")


def test_profile_is_what_the_arrays_say(arrays: Arrays) -> None:
    arrays["rewards"][:] = 0
    arrays["costs"][:] = 0
    first = np.arange(0, 100, STEPS)
    arrays["rewards"][first] = [10, 20, 30, 40]
    arrays["costs"][first] = [5, 15, 25, 35]
    report = profile(in_memory(arrays), (10, 20, 2.5))
    assert (report["episodes"], report["transitions"]) == (4, 100)
    assert (report["observation_dim"], report["action_dim"]) == (3, 2)
    spread = {"min": 10, "q25": 17.5, "median": 25, "mean": 25, "q75": 32.5, "max": 40}
    assert report["returns"] == pytest.approx(spread)
    assert report["costs"]["median"] == 20
    assert report["within_threshold"] == {"10": 0.25, "20": 0.5, "2.5": 0}
    assert report["best_return_within_threshold"] == {"10": 10, "20": 20, "2.5": None}
    assert report["problems"] == []


def test_a_dataset_outside_every_budget_is_reported(arrays: Arrays) -> None:
    arrays["costs"][:] = 2
    dataset = in_memory(arrays)
    warning = budget_warning(dataset, (10, 20, 40))
    assert warning is not None
    assert "no episode is within any budget (10, 20, 40), the cheapest costs 50" in warning
    assert profile(dataset, (10, 20, 40))["problems"] == [warning]
    assert budget_warning(dataset, (10, 50)) is None
    assert budget_warning(dataset, ()) is None


@pytest.mark.process
def test_importing_the_data_package_is_light() -> None:
    look = "import sys, lspc.data; print({'jax', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
