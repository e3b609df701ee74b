"""What a test needs beyond its own process: its marks say so, and a test that takes what they do not say fails.

`make check` leaves out whatever is marked; the guard makes sure that nothing unmarked is slow in these ways.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NEEDS = ("simulator", "process", "browser", "cluster")
"""The marks; pyproject.toml says what each means."""
FIXTURES = {"cli_process": ("process",), "browser": ("browser", "process"), "nodes": ("cluster", "process")}
"""Fixtures that are such a need: a test that asks for one has its marks."""
SIMULATORS = frozenset(
    {"bullet_safety_gym", "pybullet", "safety_gymnasium", "mujoco", "metadrive", "panda3d", "pygame"}
)
STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"})
FREE = frozenset({"fc-list"})
"""Matplotlib asks it for the machine's fonts, once per user, whichever test draws first."""

_forbidden: set[str] = set()


def of(item: pytest.Item) -> tuple[str, ...]:
    return tuple(need for need in NEEDS if item.get_closest_marker(need))


def add_marks(item: pytest.Item) -> None:
    """The marks that follow from the fixtures a test asks for."""
    for fixture in getattr(item, "fixturenames", ()):
        for need in FIXTURES.get(fixture, ()):
            item.add_marker(need)


@contextmanager
def guard(item: pytest.Item) -> Iterator[None]:
    """Inside `with`, importing a simulator or starting a program fails unless the test is marked for it."""
    _forbidden.update({"simulator", "process"} - set(of(item)))
    try:
        yield
    finally:
        _forbidden.clear()


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _forbidden:
        return
    if event == "import" and "simulator" in _forbidden:
        name = str(arguments[0])
        if name.partition(".")[0] in SIMULATORS:
            _refuse(f"it imports {name}", "simulator")
    elif event in STARTS and "process" in _forbidden:
        program = str(arguments[0]) if arguments else "a copy of this process"
        if Path(program).name not in FREE:
            _refuse(f"it starts {program}", "process")


def _refuse(what: str, need: str) -> None:
    _forbidden.clear()  # pytest itself may import or start something while it reports
    pytest.fail(f"{what} but is not marked: add @pytest.mark.{need}", pytrace=True)


sys.addaudithook(_watch)
