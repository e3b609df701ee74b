"""Files are whole or absent, whatever happens while they are written."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from lspc import files
from lspc.errors import UserError


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with suppress(ZeroDivisionError), files.atomic_path(path) as temporary:
        temporary.write_text("half of the n")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_nothing_is_seen_at_the_path_until_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.npz"
    with files.atomic_path(path) as temporary:
        temporary.write_text("content")
        assert temporary.suffix == ".npz"  # writers that go by the suffix are not misled
        assert not path.exists()
    assert path.read_text() == "content"


def test_written_files_have_the_usual_permissions(tmp_path: Path) -> None:
    files.write_text(tmp_path / "ours", "")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_jsonl_round_trip_and_append(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    files.append_jsonl(path, [{"a": 1}])
    files.append_jsonl(path, [{"a": 2}, {"a": 0.1}])
    assert files.read_jsonl(path) == [{"a": 1}, {"a": 2}, {"a": 0.1}]
    files.write_jsonl(path, [])
    assert files.read_jsonl(path) == []


@pytest.mark.parametrize("torn", ['{"a": 3', '{"a": 3}', "{"])
def test_a_torn_last_line_is_left_out(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n' + torn)
    assert files.read_jsonl(path) == [{"a": 1}, {"a": 2}]


def test_damage_is_told_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\nnonsense\n{"a": 2}\n')
    with pytest.raises(UserError, match=r"rows\.jsonl, line 2: damaged"):
        files.read_jsonl(path)
    with pytest.raises(UserError, match=r"rows\.jsonl: damaged"):
        files.read_json(path)


def test_as_json_is_what_comes_back(tmp_path: Path) -> None:
    value = {"a": (1, 2), 3: None}
    files.write_json(tmp_path / "a.json", value)
    assert files.read_json(tmp_path / "a.json") == files.as_json(value) == {"a": [1, 2], "3": None}


def test_content_hash_tells_values_apart_but_not_their_order() -> None:
    assert files.content_hash({"a": 1, "b": 2}) == files.content_hash({"b": 2, "a": 1})
    assert files.content_hash({"a": 1}) != files.content_hash({"a": 2})


def test_tuples_come_back() -> None:
    value = {"hidden": (8, 8), "steps": 5, "range": None}
    assert files.restore_tuples(files.as_json(value)) == value


HOLD = """
import sys, time
from lspc import files
with files.locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.process
def test_a_folder_serves_one_process_at_a_time_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="in use by another process"), files.locked(tmp_path):
            pass
        half = tmp_path / f"{files.UNFINISHED}checkpoint"
        half.write_text("half")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with files.locked(tmp_path):
            assert not half.exists()


def test_what_is_being_written_can_be_discarded(tmp_path: Path) -> None:
    with files.atomic_path(tmp_path / "a.json"), files.temporary_folder() as folder:
        (folder / "clip.gif").touch()
        files.discard_unfinished()
        assert not folder.exists()
        assert list(tmp_path.iterdir()) == []
        folder.mkdir()  # for the blocks that clear up after themselves
        next(iter(files._unfinished - {folder})).touch()
    assert not folder.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert files._unfinished == set()
