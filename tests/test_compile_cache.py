"""The folder of compiled programs: where it is, what is removed from it, and that nobody needs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lspc import compile_cache
from lspc.compile_cache import JAX_FOLDER, MARK, VARIABLE, use_compilation_cache

GONE = 2**22 + 1
"""No process has this number."""


@pytest.fixture(autouse=True)
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that has not asked yet."""
    monkeypatch.setenv(JAX_FOLDER, "")
    monkeypatch.delenv(JAX_FOLDER)
    monkeypatch.setattr("atexit.register", lambda *_, **__: None)


def used() -> Path:
    return Path(os.environ[JAX_FOLDER])


def test_it_lies_in_the_users_cache_folder_or_where_one_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    use_compilation_cache()
    assert used().parent == tmp_path / "lspc"
    assert used().stat().st_mode & 0o777 == 0o700
    monkeypatch.delenv(JAX_FOLDER)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "elsewhere"))
    use_compilation_cache()
    assert used().parent == tmp_path / "elsewhere"


def test_it_can_be_turned_off_and_jaxs_own_setting_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    use_compilation_cache()
    assert JAX_FOLDER not in os.environ
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lspc"))
    monkeypatch.setenv(JAX_FOLDER, "mine")
    use_compilation_cache()
    assert os.environ[JAX_FOLDER] == "mine"
    assert not (tmp_path / "lspc").exists()


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    use_compilation_cache()
    assert JAX_FOLDER not in os.environ


def test_what_a_killed_program_may_have_left_half_written_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    use_compilation_cache()
    folder = used()
    old, torn, running = folder / "old", folder / "torn", folder / f"{MARK}{os.getppid()}"
    for path, age in ((old, 100), (folder / f"{MARK}{GONE}", 50), (torn, 10), (running, 0)):
        path.write_text("x")
        os.utime(path, (1e9 - age, 1e9 - age))
    monkeypatch.delenv(JAX_FOLDER)
    use_compilation_cache()
    assert sorted(path.name for path in folder.iterdir()) == sorted(["old", running.name, f"{MARK}{os.getpid()}"])


def test_it_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(compile_cache, "LARGEST", 25)
    use_compilation_cache()
    for number in range(4):
        (used() / f"{number}").write_bytes(bytes(10))
        os.utime(used() / f"{number}", (1e9 + number, 1e9 + number))
    monkeypatch.delenv(JAX_FOLDER)
    use_compilation_cache()
    assert {path.name for path in used().iterdir()} == {"2", "3", f"{MARK}{os.getpid()}"}


@pytest.mark.process
def test_the_command_line_uses_it_and_takes_its_mark_away(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    program = (
        "import lspc.cli, os; lspc.cli.main(['algos', '--json']); print(os.environ['JAX_COMPILATION_CACHE_DIR'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, VARIABLE: str(tmp_path)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    folder = Path(done.stdout.splitlines()[-1])
    assert folder.parent == tmp_path
    assert list(folder.iterdir()) == []
