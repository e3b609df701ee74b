"""What several test files share: a small dataset shaped like BallRun's, and the command line.

And how they are run: the environment comes first, then each test is guarded by what it says it needs.
"""

import gc
import signal
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path

import helpers.environment
import helpers.fewer_programs
import helpers.strict  # before anything of lspc, which it checks as it is imported
import numpy as np
import pytest
from helpers import needs
from helpers.cli import Cli, call_in_new_process, call_in_process
from helpers.data import small_dataset

from lspc.calibration import pipeline
from lspc.calibration.margins import Frontier
from lspc.data import Dataset, save
from lspc.report import drawing

gc.disable()  # until all is imported and collected: hardly any of it is garbage

# A shell that runs the tests in the background makes them, and every program they start, deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Most of a figure's time is painting and packing its pixels.
drawing.DPI = 75


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    return small_dataset()


@pytest.fixture(scope="session")
def data_file(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "small.hdf5"
    save(dataset, path, metadata={"task": "BallRun"})
    return path


@pytest.fixture(scope="session")
def cli() -> Cli:
    """Call `lspc` as a user does, and see what the user sees; in this process, which saves starting another."""
    return call_in_process


@pytest.fixture(scope="session")
def cli_process() -> Cli:
    """The same in a process of its own, for what a process alone has: signals, pipes, a fresh environment."""
    return call_in_new_process


@pytest.fixture(scope="module")
def unlimited_reach() -> Iterator[None]:
    """Models that have learned for twenty steps know little: here no policy is refused for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "measure_reach", lambda driven: float("inf"))
        patch.setattr(pipeline, "measure_shown", lambda costs, largest: float("inf"))
        patch.setattr(
            pipeline, "find_frontier", lambda dataset, horizon: Frontier.of(np.array([np.inf]), np.zeros(1))
        )
        patch.setattr(pipeline, "find_doubt", lambda driven: "")
        yield


LONG = (
    "test_wheel.py", "test_ray.py", "test_all.py", "test_loop.py", "test_running.py", "test_cdt.py", "test_sweep.py",
    "test_figure_set.py", "test_fisor.py", "test_methods.py", "test_metadrive.py", "test_lspc.py",
    "test_tiny_cmdp.py", "test_calibrate.py", "test_fitted_q.py", "test_bear_lag.py", "test_dynamics.py",
    "test_safety_gymnasium.py", "test_population.py", "test_onnx_policies.py", "test_cpq.py",
    "test_pipeline.py", "test_runs.py", "test_bounds.py",
)  # fmt: skip
"""The files that take longest, the longest first."""


def pytest_configure() -> None:
    needs.watch()


@pytest.hookimpl(wrapper=True)  # before pytest itself looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Workers take a file at a time, in this order: none is left alone with a long one at the end."""
    for item in items:
        needs.add_marks(item)
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
    return (yield)


def pytest_collection_finish() -> None:
    """What was imported stays: no need to look through it for garbage while JAX makes millions of small objects."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    learns = item.get_closest_marker("learning") is not None
    with needs.guard(item), helpers.environment.optimise() if learns else nullcontext():
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test could not cover on this machine, by name: `record_property("not covered", ...)`."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "not covered" and report.when == "call":
                    terminalreporter.write_line(f"not covered: {value}")
