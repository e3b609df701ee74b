"""Collecting: the same call gives the same file, an interrupted one goes on, and nothing is left running."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cli import LSPC
from helpers.data import small_dataset

from lspc import data, workers
from lspc.data.validate import FILE_NAMES
from lspc.errors import UserError
from lspc.sims.collect import population
from lspc.tasks import get_task

TASK = get_task("BallRun")
EASY = replace(TASK, reward_min=-1e9, min_npb=1)
"""BallRun that keeps whatever it gets: agents that have just begun to learn earn little."""
SIZE: dict[str, Any] = {"agents": 2, "steps": 2000, "seed": 3, "episodes": 12}


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("collected") / "ball.hdf5"
    dataset = population.collect(EASY, out, workers=2, **SIZE)
    assert dataset.metadata == data.read_metadata(out)  # what is returned knows as much as the file
    return out


@pytest.mark.simulator
@pytest.mark.process
def test_the_file_is_a_valid_dataset_with_its_story(collected: Path) -> None:
    dataset, problems = data.examine(collected)
    assert dataset is not None
    assert [problem for problem in problems if problem.severity == "fatal"] == []
    assert (dataset.observation_dim, dataset.action_dim) == (TASK.observation_dim, TASK.action_dim)
    assert 1 <= len(dataset.episodes) <= 12
    assert (dataset.cost_returns <= TASK.cost_max).all()
    assert (dataset.lengths <= TASK.episode_length).all()
    notes = dataset.metadata
    assert notes["task"] == "BallRun"
    assert str(notes["collected_by"]).startswith("lspc ")
    assert {name: notes[name] for name in SIZE} == SIZE
    assert notes["compact"] == 0
    assert os.listdir(collected.parent) == ["ball.hdf5"]


@pytest.mark.simulator
@pytest.mark.process
def test_a_killed_collection_goes_on_and_ends_the_same(collected: Path, tmp_path: Path) -> None:
    """One worker instead of two, a kill in between, and leftovers of another call: not a byte differs."""
    out = tmp_path / "ball.hdf5"
    arguments = ["collect", "--task", "BallRun", "--out", str(out), "--workers", "1", *options()]
    parts = Path(f"{out}.parts")
    with subprocess.Popen([*LSPC, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: list(parts.glob("agent0-*.npz")) or process.poll() is not None)
        process.kill()
    assert not out.exists()
    (kept,) = parts.glob("agent*.npz")
    written = kept.stat().st_mtime_ns
    (parts / "agent1-000000000000.npz").write_text("of another call")
    heard: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
    watched = []

    def hear(agent: int, progress: dict[str, Any]) -> None:
        heard[agent].append(progress)
        watched.append(kept.stat().st_mtime_ns)

    population.collect(EASY, out, workers=1, on_progress=hear, **SIZE)
    assert heard[0] == [{"steps": 2000}]
    assert set(heard[1][-1]) == {"steps", "reward", "cost", "multiplier"}
    assert set(watched) == {written}
    assert out.read_bytes() == collected.read_bytes()
    assert not parts.exists()


def options() -> list[str]:
    return [text for name, value in SIZE.items() for text in (f"--{name}", str(value))]


def wait_for(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def agents_of(out: Path) -> list[str]:
    """The agents' processes that work for this file, from the system's own list."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "lspc.sims.collect._worker" in line and f"{out}.parts" in line:
            found.append(line)
    return found


@pytest.mark.simulator
@pytest.mark.process
def test_ctrl_c_leaves_no_process_and_no_half_file(tmp_path: Path) -> None:
    out = tmp_path / "ball.hdf5"
    arguments = ["collect", "--task", "BallRun", "--out", str(out), "--agents", "3", "--workers", "2"]
    with subprocess.Popen(
        [*LSPC, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        wait_for(lambda: len(agents_of(out)) == 2 or process.poll() is not None)
        assert len(agents_of(out)) == 2
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        said = process.stdout.read()
    assert process.returncode == 130
    assert "Traceback" not in said
    wait_for(lambda: agents_of(out) == [], 20)  # they end once they notice that we are gone
    assert agents_of(out) == []
    assert not out.exists()
    assert list(Path(f"{out}.parts").glob("agent*")) == []


@pytest.mark.simulator
@pytest.mark.process
def test_agents_do_not_outlive_a_killed_collection(tmp_path: Path) -> None:
    out = tmp_path / "ball.hdf5"
    arguments = ["collect", "--task", "BallRun", "--out", str(out), "--workers", "2"]
    with subprocess.Popen([*LSPC, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: len(agents_of(out)) == 2 or process.poll() is not None)
        assert len(agents_of(out)) == 2
        process.kill()
    wait_for(lambda: not agents_of(out), 30)
    assert agents_of(out) == []


@pytest.mark.process
def test_an_agent_that_fails_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(TASK, name="BallRan")  # the agent's process does not know such a task
    monkeypatch.setattr(population.sims, "make", lambda task: small_simulator())
    with pytest.raises(UserError, match=r"agent \d of the collection stopped: .*unknown task 'BallRan'.*run again"):
        population.collect(broken, tmp_path / "a.hdf5", agents=1, steps=2000)


PARTS: list[dict[str, np.ndarray]] = [
    {FILE_NAMES[field]: getattr(small_dataset(seed), field) for field in data.FIELDS} for seed in range(3)
]
"""What the agents record where nothing is simulated: scripts in place of the real ones."""
NAN = """
import numpy as np
from lspc.sims.collect import _worker, agent
arrays = dict(np.load("GOOD"))
arrays["rewards"][7] = np.nan
agent.train_agent = lambda spec, on_progress: arrays
_worker.main()
"""
TROUBLES = {
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "killed by SIGKILL",
    "import os; os._exit(7)": "ended with code 7",
    "import time; time.sleep(600)": "it made no progress for 0.05 minutes and was ended",
    NAN: "its rewards hold NaN or infinity, first in transition 7 of 1,000; nothing of it is kept",
}


@pytest.mark.process
@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_agent_in_trouble_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """Agent 1 of three, two at a time: agent 0 ends well, the same call does what is left."""
    for number, arrays in enumerate(PARTS):
        np.savez(tmp_path / f"good{number}.npz", allow_pickle=False, **arrays)
    broken, begun = [True], list[int]()

    def command(spec: population.AgentSpec, part: Path) -> list[str]:
        good = str(tmp_path / f"good{spec.index}.npz")
        begun.append(spec.index)
        if spec.index == 1 and broken[0]:
            return [sys.executable, "-c", trouble.replace("GOOD", good), json.dumps(asdict(spec)), str(part)]
        copy = "import shutil, sys, time; time.sleep(2); shutil.copy(*sys.argv[1:])"
        return [sys.executable, "-c", copy, good, str(part)]

    monkeypatch.setattr(population.sims, "make", lambda task: small_simulator())
    monkeypatch.setattr(population, "_command", command)
    if "sleep" in trouble:
        monkeypatch.setattr(workers, "SILENCE", 3.0)
    out = tmp_path / "out" / "a.hdf5"

    def collect() -> data.Dataset:
        return population.collect(EASY, out, agents=3, steps=2000, episodes=60, workers=2)

    with pytest.raises(UserError) as told:
        collect()
    assert str(told.value) == f"agent 1 of the collection stopped: {TROUBLES[trouble]}; run again to continue"
    kept = sorted(path.name[:6] for path in Path(f"{out}.parts").glob("agent*"))
    assert "agent0" in kept
    assert "agent1" not in kept
    before, broken[0] = len(begun), False
    assert len(collect().episodes) == 60
    assert sorted([*begun[before:], *(int(name[-1]) for name in kept)]) == [0, 1, 2]


def small_simulator() -> Any:
    class Nothing:
        def close(self) -> None: ...

    return Nothing()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"agents": 0}, "1 or more"),
        ({"workers": 0}, "1 or more"),
        ({"episodes": 0}, "1 or more"),
        ({"seed": -1}, "0 or more"),
        ({"steps": 799}, "too few for an episode of BallRun: give an agent 800 or more"),
        ({"out": "a.txt"}, r"ends in \.hdf5"),
        ({"task": "BallRum"}, "did you mean BallRun"),
    ],
)
def test_impossible_wishes_are_refused_before_any_work(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    wish: dict[str, Any] = {"task": "BallRun", "out": "a.hdf5", "steps": 800_000, **change}
    with pytest.raises(UserError, match=told):
        population.collect(wish.pop("task"), tmp_path / wish.pop("out"), **wish)
    assert not list(tmp_path.iterdir())


def test_the_population_runs_from_unconstrained_to_strict() -> None:
    specs = population.population(TASK, 10, 1000, 0, seed=2)
    assert [spec.index for spec in specs] == list(range(10))
    assert specs[0].cost_limit is None
    limits = [spec.cost_limit for spec in specs[1:8]]
    assert limits == sorted((limit for limit in limits if limit is not None), reverse=True)
    assert limits[-1] == 0
    assert specs[8].cost_limit is None
    assert len({spec.seed for spec in specs}) == 10
    others = population.population(TASK, 10, 1000, 0, seed=3)
    assert not {spec.seed for spec in specs} & {spec.seed for spec in others}


def test_a_part_is_named_after_all_that_decides_it() -> None:
    folder = Path("parts")
    spec = population.population(TASK, 1, 1000, 0, 0)[0]
    others = [
        replace(spec, task="CarRun"),
        replace(spec, steps=2000),
        replace(spec, seed=1),
        replace(spec, start_multiplier=0.5),
        replace(spec, cost_limit=1.0),
    ]
    assert len({population._part(folder, s) for s in (spec, *others)}) == 6
    assert population._part(folder, spec) == population._part(folder, replace(spec))
