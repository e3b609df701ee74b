"""Files that would be read as what they are not: costs that nobody stored, sizes that cannot be, changed bytes."""

import io
import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from helpers.attacks import change_bytes
from helpers.cli import Cli
from helpers.data import little_memory, small_dataset
from helpers.lerobot import write_lerobot
from pyarrow import ipc, parquet

from lspc import algos, training
from lspc.data import FIELDS, examine, formats, load, read_metadata, save
from lspc.data.formats import arrow_size, csv, hdf5
from lspc.data.formats.base import one_line
from lspc.data.validate import FILE_NAMES
from lspc.errors import UserError

DATASET = small_dataset(episodes=4, steps=25)
ROWS = DATASET.transitions
ARRAYS = {FILE_NAMES[field]: getattr(DATASET, field) for field in FIELDS}


def write_hdf5(path: Path, without: str = "costs") -> h5py.File:
    """An open file that lacks one array."""
    file = h5py.File(path, "w")
    for name, array in ARRAYS.items():
        if name != without:
            file[name] = array
    return file


def make_virtual(file: h5py.File, folder: Path) -> None:
    layout = h5py.VirtualLayout((ROWS,), "f4")
    layout[:] = h5py.VirtualSource(folder / "gone.hdf5", "costs", (ROWS,))
    file.create_virtual_dataset("costs", layout)


def make_external(file: h5py.File, folder: Path) -> None:
    (folder / "secret.bin").write_bytes(ARRAYS["costs"].tobytes())
    file.create_dataset("costs", (ROWS,), "f4", external=[(folder / "secret.bin", 0, h5py.h5f.UNLIMITED)])


def make_link(file: h5py.File, folder: Path) -> None:
    with h5py.File(folder / "other.hdf5", "w") as other:
        other["costs"] = ARRAYS["costs"]
    file["costs"] = h5py.ExternalLink(folder / "other.hdf5", "/costs")


def make_link_to_link(file: h5py.File, folder: Path) -> None:
    with h5py.File(folder / "other.hdf5", "w") as other:
        other["costs"] = ARRAYS["costs"]
    file["elsewhere"] = h5py.ExternalLink(folder / "other.hdf5", "/")
    file["costs"] = h5py.SoftLink("/elsewhere/costs")


def leave_chunk_out(file: h5py.File, folder: Path) -> None:
    entry = file.create_dataset("costs", (ROWS,), "f4", chunks=(20,))
    entry[:60] = ARRAYS["costs"][:60]


NOT_STORED: dict[str, tuple[Callable[[h5py.File, Path], Any], str]] = {
    "virtual": (make_virtual, "costs is a virtual dataset"),
    "external storage": (make_external, "costs is stored in another file"),
    "external link": (make_link, "costs is a link to somewhere else"),
    "link to a link": (make_link_to_link, "costs is a link to somewhere else"),
    "chunks never written": (
        lambda file, _: file.create_dataset("costs", (ROWS,), "f4", chunks=(10,)),
        "holds 0 of its 10 chunks",
    ),
    "some chunks never written": (leave_chunk_out, "holds 3 of its 5 chunks"),
    "never written": (lambda file, _: file.create_dataset("costs", (ROWS,), "f4"), "costs was never written"),
}


@pytest.mark.parametrize("case", NOT_STORED)
def test_costs_that_the_file_does_not_hold_are_refused(tmp_path: Path, case: str) -> None:
    make, words = NOT_STORED[case]
    with write_hdf5(tmp_path / "a.hdf5") as file:
        make(file, tmp_path)
    with pytest.raises(UserError, match=words) as refused:
        load(tmp_path / "a.hdf5")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("chunks", [None, (30,), (1000,)])
def test_what_is_stored_in_any_layout_is_read(tmp_path: Path, chunks: tuple[int] | None) -> None:
    with write_hdf5(tmp_path / "a.hdf5") as file:
        # A chunk may be larger than the array, as long as the array may grow.
        file.create_dataset("costs", data=ARRAYS["costs"], chunks=chunks, maxshape=(None,) if chunks else None)
    assert load(tmp_path / "a.hdf5").fingerprint == DATASET.fingerprint


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.hdf5")
    for opening in (load, read_metadata):
        with pytest.raises(UserError, match=r"a\.hdf5: is not a regular file"):
            opening(tmp_path / "a.hdf5")


@pytest.mark.slow
def test_data_without_any_cost_say_so(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "free.npz"
    np.savez(path, allow_pickle=False, **(ARRAYS | {"costs": np.zeros(ROWS)}))
    [warning] = load(path).warnings
    assert "NONE of the 100 steps has a cost above 0" in warning
    assert "NONE of the 100 steps" in cli("inspect", path, "--figure", tmp_path / "a.png", columns=400).stdout
    settings = ("--algo", "bc", "--hidden", 4, "--batch-size", 8, "--steps", 1)
    assert "NONE of the 100 steps" in cli("train", "--data", path, "--out", tmp_path / "run", *settings).stderr


def test_python_is_warned_before_it_trains_on_data_without_cost(tmp_path: Path) -> None:
    config = algos.get("bc").Config(steps=1, batch_size=8, hidden=(4,))
    free = replace(DATASET, costs=np.zeros(ROWS, np.float32))
    with pytest.warns(UserWarning, match="NONE of the 100 steps has a cost above 0"):
        training.train(free, tmp_path / "run", config, method="bc")


def pack(path: Path, name: str, content: bytes, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """A good NPZ file but for one entry."""
    with zipfile.ZipFile(path, "w") as file:
        for other, array in ARRAYS.items():
            packed = io.BytesIO()
            np.save(packed, array)
            whole = content if other == name else packed.getvalue()
            file.writestr(f"{other}.npy", whole, compress_type=compression)
    return path


def header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n"


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("shape", ["(1000000000000,)", f"({10**30},)", "(-1,)", "(((", "('a',)", "(1e9,)"])
def test_a_header_that_declares_what_is_not_there_is_refused(tmp_path: Path, shape: str, compression: int) -> None:
    path = pack(tmp_path / "a.npz", "costs", header(shape) + bytes(4000), compression)
    with pytest.raises(UserError, match=r"a\.npz: costs ") as refused:
        load(path)
    assert len(str(refused.value).splitlines()) == 1


def test_an_hdf5_array_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    with write_hdf5(tmp_path / "a.hdf5") as file:
        file.create_dataset("costs", (10**12,), "f4", chunks=(2**20,), compression="gzip")
    with pytest.raises(UserError, match="costs was never written in full"):
        load(tmp_path / "a.hdf5")


def test_a_twice_compressed_array_is_not_unpacked(tmp_path: Path) -> None:
    """A thousand times a thousand: 16 MB from a few hundred bytes."""
    with write_hdf5(tmp_path / "a.hdf5") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((2**22,))
        plist.set_deflate(9)
        plist.set_deflate(9)
        space = h5py.h5s.create_simple((2**22,))
        entry = h5py.h5d.create(file.id, b"costs", h5py.h5t.IEEE_F32LE, space, plist)
        entry.write_direct_chunk((0,), zlib.compress(zlib.compress(bytes(2**24), 9), 9))
    assert (tmp_path / "a.hdf5").stat().st_size < 200_000
    with pytest.raises(UserError, match="costs declares 16,777,216 bytes but stores"):
        load(tmp_path / "a.hdf5")


MINARI = Path(__file__).parent / "samples" / "minari" / "plant"
NOT_STREAMED = (".npz", ".csv", "folder", "mixed", "tank-hdf5-v0", "tank-arrow-v0", "tank-parquet-v0")


@pytest.mark.parametrize("kind", NOT_STREAMED)
def test_more_than_there_is_memory_for_is_told_in_a_line(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it needs to be learned from, not only to be read; each file of a folder alone would fit."""
    log = MINARI / kind
    if kind.startswith("."):
        save(DATASET, log := tmp_path / f"a{kind}")
    elif kind in ("folder", "mixed"):
        log = tmp_path
        for name in ("a.csv", "b.csv", "c.parquet" if kind == "mixed" else "c.csv"):
            save(DATASET, log / name)
    free = 100_000 if log == tmp_path else 1_000
    monkeypatch.setenv("LSPC_MEMORY", f"{free / 1e9}")
    with pytest.raises(
        UserError, match=rf"needs [\d,]+ bytes of memory, 4 times .* and {free:,} are free"
    ) as refused:
        load(log)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_what_fits_four_times_is_opened(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 rows of 20 numbers: as they are in NPZ, and in CSV, with two more columns, as eight bytes in 102 lines."""
    save(DATASET, tmp_path / f"a{suffix}")
    needed = 4 * sum(array.nbytes + 128 for array in ARRAYS.values()) if suffix == ".npz" else 4 * 8 * 22 * 102
    monkeypatch.setenv("LSPC_MEMORY", f"{needed / 1e9}")
    assert load(tmp_path / f"a{suffix}").fingerprint == DATASET.fingerprint
    monkeypatch.setenv("LSPC_MEMORY", f"{(needed - 1) / 1e9}")
    with pytest.raises(UserError, match=rf"needs {needed:,} bytes of memory"):
        load(tmp_path / f"a{suffix}")


def test_a_disk_without_room_for_the_working_copy_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lspc.data.formats.bounds.free_disk", lambda _: 5_000)
    save(DATASET, tmp_path / "a.hdf5")
    with (
        little_memory(),
        pytest.raises(UserError, match=r"needs [\d,]+ bytes of disk beside it, and 5,000 are") as refused,
    ):
        load(tmp_path / "a.hdf5")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_the_fields_of_a_csv_file_are_counted(tmp_path: Path, ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK", 15)
    (tmp_path / "a.csv").write_bytes(ends.join(["one;two;three", *100 * ["1;;"]]).encode())
    assert csv.measure(tmp_path / "a.csv") == 8 * 3 * 101


def long_lists(path: Path) -> pa.Table:
    """24 MB of numbers within lists, in a few kilobytes: LeRobot's layout."""
    table = pa.table({"state": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(3_000_000)), 3000)})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, compression="zstd")
    else:
        with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as file:
            file.write_table(table)
    assert path.stat().st_size < 20_000
    return table


def test_what_lists_hold_is_counted_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long_lists(tmp_path / "a.parquet")
    assert formats.parquet.measure(tmp_path / "a.parquet") >= 24_000_000
    monkeypatch.setenv("LSPC_MEMORY", "0.09")
    assert formats.parquet.exceed_memory([tmp_path / "a.parquet"])
    read = []
    monkeypatch.setattr(formats.parquet, "BATCH_BYTES", 2_400_000)
    monkeypatch.setattr(
        formats.parquet,
        "read_in_parts",
        lambda names, rows, parts, *_: read.extend(len(array) for _, array in parts("state")),
    )
    formats.parquet.read_large("a", [("", tmp_path / "a.parquet")])
    assert read == [100] * 10


def test_values_within_parts_of_a_parquet_column_are_counted(tmp_path: Path) -> None:
    states = pa.array([{"arm": [1.0, 2.0, 3.0], "lamp": True}] * 50)
    parquet.write_table(pa.table({"state": states, "reward": np.zeros(50)}), tmp_path / "a.parquet")
    assert formats.parquet.measure(tmp_path / "a.parquet") == 8 * 50 * (3 + 1 + 1)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_what_an_arrow_file_unpacks_to_is_counted_before_it_is_read(tmp_path: Path, compression: str | None) -> None:
    long_lists(tmp_path / "a.arrow")
    assert arrow_size.measure(tmp_path / "a.arrow") >= 24_000_000
    words = pa.array(["on", "off"] * 500).dictionary_encode()
    table = pa.table(
        {"a": np.arange(1000.0), "b": np.arange(1000) % 2 == 0, "nothing": pa.nulls(1000), "words": words}
    )
    with ipc.new_file(
        tmp_path / "b.arrow", table.schema, options=ipc.IpcWriteOptions(compression=compression)
    ) as file:
        for part in (table.slice(0, 300), table.slice(300)):
            file.write_table(part)
    assert 8 * 4 * 1000 <= arrow_size.measure(tmp_path / "b.arrow") <= 8 * 4 * 1000 + 2000


def test_a_folder_of_lerobot_is_streamed_where_it_does_not_fit(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "log", "v2.1")
    whole = load(tmp_path / "log", cost="`observation.state_0` > 0")
    with little_memory():
        streamed = load(tmp_path / "log", cost="`observation.state_0` > 0")
    assert streamed.is_mapped
    assert (streamed.fingerprint, streamed.warnings) == (whole.fingerprint, whole.warnings)


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_changed_bytes_give_our_own_error_or_a_dataset(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    good, path = tmp_path / f"good{suffix}", tmp_path / f"a{suffix}"
    save(DATASET, good, {"task": "BallRun"})
    content = good.read_bytes()
    refused = 0
    for _ in range(150):
        path.write_bytes(change_bytes(content, rng))
        dataset, problems = examine(path)
        refused += dataset is None
        assert all("\n" not in problem.message for problem in problems)
        assert dataset is not None or problems
        with suppress(UserError):
            read_metadata(path)
    assert refused > 20


def test_the_bytes_that_a_library_quotes_are_cut() -> None:
    assert one_line(ValueError("damaged\nhere")) == "damaged here"
    assert one_line(KeyError()) == "KeyError"
    told = one_line(OSError("header " + 9000 * "x y "))
    assert len(told) <= 300
    assert told.startswith("header x y")


@pytest.mark.parametrize("part", [8, 9, 16, 61, 1000])
def test_a_damaged_heap_is_found_wherever_it_lies(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5, "SEARCHED", part)
    heap = hdf5.HEAP + struct.pack("<QH6xQ", 64, 1, 16) + bytes(16)  # one text, then nothing
    for place in (0, 40, 57):
        sound = bytes(place) + heap + struct.pack("<H6xQ", 0, 16)
        (tmp_path / "file").write_bytes(sound + bytes(32))
        with (tmp_path / "file").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            assert list(hdf5._find_heaps(content)) == [(place, 64)]
        (tmp_path / "file").write_bytes(bytes(place) + heap + bytes(64))  # free space of no size
        with pytest.raises(ValueError, match=f"heap of texts at byte {place}"):
            hdf5.check_heaps(tmp_path / "file")
