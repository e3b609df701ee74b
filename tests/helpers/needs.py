"""What a test needs beyond its own process: its marks say so, and a test that takes what they do not say fails.

`make check` leaves out whatever is marked; the guard makes sure that nothing unmarked is slow in these ways.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

NEEDS = ("simulator", "process", "browser", "cluster")
"""The marks; pyproject.toml says what each means."""
FIXTURES = {"cli_process": ("process",), "browser": ("browser", "process"), "nodes": ("cluster", "process")}
"""Fixtures that are such a need: a test that asks for one has its marks."""
STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"})
"""What Python's audit events call the start of a program."""
FREE = frozenset({"fc-list"})
"""Matplotlib asks it for the machine's fonts, once per user, whichever test draws first."""

_forbidden: set[str] = set()


def of(item: pytest.Item) -> set[str]:
    return {need for need in NEEDS if item.get_closest_marker(need)}


def add_marks(item: pytest.Item) -> None:
    """The marks that follow from the fixtures a test asks for."""
    for fixture in getattr(item, "fixturenames", ()):
        for need in FIXTURES.get(fixture, ()):
            item.add_marker(need)


@contextmanager
def guard(item: pytest.Item) -> Generator[None]:
    """Inside `with`, making a world or starting a program fails unless the test is marked for it."""
    marks = of(item)
    # A simulator may start programs of its own: the first import of mujoco's glfw does.
    _forbidden.update(() if "simulator" in marks else {"simulator", "process"} - marks)
    try:
        yield
    finally:
        _forbidden.clear()


def watch() -> None:
    """Make every start of a program and every adapter of a simulator ask whether it may."""
    from lspc.tasks.suites import SUITES

    sys.addaudithook(_hear)
    for suite in SUITES.values():
        module, _, name = suite.adapter.partition(":")
        adapter = getattr(import_module(module), name)
        adapter.__init__ = _asks_first(adapter.__init__, f"it makes a world of {suite.title}")


def _asks_first(make: Any, what: str) -> Any:
    @wraps(make)
    def checked(*arguments: Any, **named: Any) -> None:
        if "simulator" in _forbidden:
            _refuse(what, "simulator")
        make(*arguments, **named)

    return checked


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS and "process" in _forbidden:
        program = str(arguments[0]) if arguments else "a copy of this process"
        if Path(program).name not in FREE:
            _refuse(f"it starts {program}", "process")


def _refuse(what: str, need: str) -> None:
    _forbidden.clear()  # pytest itself may start something while it reports
    pytest.fail(f"{what} but is not marked: add @pytest.mark.{need}")
