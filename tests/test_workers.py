"""Worker processes: all they tell is heard, how they end is told in a line, and one that is frozen is ended."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lspc import workers
from lspc.workers import Crew

pytestmark = pytest.mark.process
STAY = "import time; print('{\"steps\": 1}', flush=True); time.sleep(60)"


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew()
    yield made
    made.end()


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def hear_all(crew: Crew) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, str | None]]:
    """What was told until all had ended, and how each ended."""
    told, ends = [], {}
    while crew.running:
        name, progress = crew.hear()
        if progress is None:
            ends[name] = crew.outcome(name)
        else:
            told.append((name, progress))
    return told, ends


def test_progress_is_heard_among_other_talk(crew: Crew) -> None:
    crew.start("a", python("print('hello'); print('{\"steps\": 1}'); print('{\"steps\": 2}')"))
    assert hear_all(crew) == ([("a", {"steps": 1}), ("a", {"steps": 2})], {"a": None})


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('out of paint')", "out of paint"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import os; os._exit(7)", "ended with code 7"),
        (
            "import os, sys; print('no\\nscreen', file=sys.stderr, flush=True); os._exit(7)",
            "ended with code 7 (screen)",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
    ],
)
def test_the_end_of_a_worker_is_told_in_a_line(crew: Crew, code: str, told: str) -> None:
    crew.start("a", python(code))
    assert hear_all(crew) == ([], {"a": told})


def test_a_frozen_worker_is_ended_and_the_others_go_on(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SILENCE", 3.0)
    monkeypatch.setattr(workers, "TICK", 0.1)
    crew.start("frozen", python("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"))
    crew.start("slow", python("import time\nfor _ in range(50): print('{}', flush=True); time.sleep(0.1)"))
    told, ends = hear_all(crew)
    assert len(told) == 50
    assert ends == {"frozen": "it made no progress for 0.05 minutes and was ended", "slow": None}


def test_who_was_stopped_itself_ends_nobody(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-Z and fg nobody has been heard for long, and nobody is to blame."""
    monkeypatch.setattr(workers, "SILENCE", 1.0)
    monkeypatch.setattr(workers, "TICK", 0.1)
    crew.start("a", python(STAY))
    crew.hear()
    time.sleep(1.5)
    crew._end_silent()
    assert not crew.running["a"].frozen


def test_nobody_is_left_at_the_end() -> None:
    crew = Crew()
    for name in "ab":
        crew.start(name, python(STAY))
    processes = [worker.process for worker in crew.running.values()]
    crew.end()
    assert crew.running == {}
    assert all(process.poll() is not None for process in processes)
