"""The machine and its worker processes: memory in bounds, one thread each, and none that outlives who started it."""

import json
import os
import subprocess
import sys
import tempfile

import pytest

from lspc.system import ONE_THREAD, free_memory, start_worker, usable_cores

TELL = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
STAY = (
    "from lspc.system import end_with_parent; import time; end_with_parent(); print('up', flush=True); time.sleep(60)"
)


def test_free_memory_and_cores_are_sensible_numbers() -> None:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 10 << 20 < free_memory() <= total
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.process
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_worker_has_one_thread_and_the_platform_it_is_given(platform: str) -> None:
    with start_worker([sys.executable, "-c", TELL], platform=platform) as process:
        assert process.stdout is not None
        environment = json.loads(process.stdout.read())
    assert {name: environment[name] for name in ONE_THREAD} == ONE_THREAD
    assert environment["JAX_PLATFORMS"] == platform
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.process
def test_what_a_worker_complains_of_goes_where_it_is_told() -> None:
    command = [sys.executable, "-c", "import sys; print('progress'); print('trouble', file=sys.stderr)"]
    with tempfile.TemporaryFile() as errors:
        with start_worker(command, errors=errors) as process:
            assert process.stdout is not None
            assert process.stdout.read() == "progress\n"
        errors.seek(0)
        assert errors.read() == b"trouble\n"
    with start_worker(command) as process:
        assert process.stdout is not None
        assert sorted(process.stdout.read().split()) == ["progress", "trouble"]


@pytest.mark.process
def test_a_worker_ends_when_its_standard_input_closes() -> None:
    process: subprocess.Popen[str] = start_worker([sys.executable, "-c", STAY])
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(20) == 1
    process.stdout.close()
