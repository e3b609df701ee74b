"""A bench at work: real workers, killed and stopped in the middle; every cell is carried out exactly once."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.bench import Here, wait_for
from helpers.data import small_dataset
from helpers.made_runs import change_description, make_run

from lspc import files, workers
from lspc.bench import cell, local, running, tables
from lspc.bench.grid import Job, Plan, find_data, is_done, keep_plan, make_jobs, make_plan
from lspc.bench.local import Local
from lspc.data import Dataset, save
from lspc.errors import UserError

STEPS = 5
TINY = {"steps": STEPS, "batch_size": 32, "hidden": (8, 8)}
BENCH = """
import sys
from pathlib import Path
from lspc.bench import running
from lspc.bench.grid import find_data, make_plan
from lspc.bench.local import Local

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
data = find_data(folder / "data", ["BallRun"])
settings = {"steps": steps, "batch_size": 32, "hidden": (8, 8)}
plan = make_plan(data, ["bc"], preset="cpu", overrides=settings, seeds=2, episodes=1)
sys.exit(len(running.run(plan, folder / "bench", data, Local(2))))
"""
"""BC and BC-Safe on BallRun: four cells of two seeds."""


@pytest.fixture
def folder(tmp_path: Path, dataset: Dataset) -> Path:
    save(dataset, tmp_path / "data" / "BallRun.hdf5", metadata={"task": "BallRun"})
    return tmp_path


def planned(folder: Path, methods: Sequence[str] = ("bc",), **more: object) -> tuple[Plan, dict[str, Path]]:
    data = find_data(folder / "data", ["BallRun"])
    choices: dict[str, Any] = {"preset": "cpu", "overrides": TINY, "seeds": 2, "episodes": 1, **more}
    return make_plan(data, methods, **choices), data


def started(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", BENCH, str(folder), str(steps)], stderr=subprocess.PIPE)


def nobody_works_on(runs: list[Path]) -> bool:
    try:
        for run in runs:
            with files.locked(run):
                pass
    except UserError:
        return False
    return True


def contents(run: Path) -> dict[Path, tuple[int, bytes]]:
    there = (path for path in run.rglob("*") if path.is_file() and path.name != ".lock")
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in there}


@pytest.fixture
def background() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Programs that must not outlive a test, however it ends."""
    programs: list[subprocess.Popen[bytes]] = []
    yield programs
    for program in programs:
        program.kill()
        program.wait()
        if program.stderr:
            program.stderr.close()


@pytest.mark.simulator
@pytest.mark.process
def test_killed_in_the_middle_and_run_again_every_cell_is_carried_out_once(
    folder: Path, background: list[subprocess.Popen[bytes]]
) -> None:
    plan, data = planned(folder)
    cells = make_jobs(plan, folder / "bench", data)
    first = started(folder, STEPS)
    background.append(first)
    wait_for(lambda: any(is_done(job) for job in cells) or first.poll() is not None)
    first.send_signal(signal.SIGKILL)
    first.wait()
    begun = [Path(job.out) for job in cells if Path(job.out).exists()]
    wait_for(lambda: nobody_works_on(begun), 20)  # the workers do not outlive whoever started them
    done = [job for job in cells if is_done(job)]
    assert 1 <= len(done) < len(cells)
    before = {job.name: contents(Path(job.out)) for job in done}
    told = running.gather([folder / "bench"]).problems
    assert {line.removesuffix(": not finished") for line in told if line.endswith("not finished")} == {
        job.name for job in cells if job not in done
    }

    assert running.run(plan, folder / "bench", data, Local(2)) == {}
    assert all(is_done(job) for job in cells)
    assert {job.name: contents(Path(job.out)) for job in done} == before
    for job in cells:
        records = files.read_jsonl(Path(job.out) / "evaluations.jsonl")
        assert [(r["training_seed"], r["seed"]) for r in records] == [(0, 1_000_000), (1, 1_000_000)]
        lines = files.read_jsonl(Path(job.out) / "metrics.jsonl")
        assert [(line["step"], line["seed"]) for line in lines] == [(5, 0), (5, 1)]

    nothing = Here()
    assert running.run(plan, folder / "bench", data, nothing) == {}
    assert nothing.carried_out == []
    results = running.gather([folder / "bench"])
    assert results.problems == []
    assert [column.policy for column in tables.columns(results)] == ["BC", "BC-Safe"]
    assert all(figures for row in tables.rows(results, by_threshold=True) for figures in row.cells.values())


@pytest.mark.simulator
@pytest.mark.process
def test_ctrl_c_saves_ends_the_workers_and_says_how_to_go_on(
    folder: Path, background: list[subprocess.Popen[bytes]]
) -> None:
    program = started(folder, 1_000_000)
    background.append(program)
    runs = folder / "bench" / "runs" / "BallRun"
    wait_for(lambda: len(list(runs.glob("*/metrics.jsonl"))) == 2 or program.poll() is not None)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=60)
    assert program.returncode != 0
    assert b"stopped, all saved; run the same command again to continue" in said
    assert nobody_works_on(list(runs.glob("*")))
    assert len(list(runs.glob("*/checkpoint-*"))) >= 2
    seen = running.read_measured(folder / "bench")["bc"]
    assert seen.memory is not None
    assert 100 << 20 < seen.memory < 8 << 30


@pytest.mark.simulator
@pytest.mark.process
def test_growing_measures_and_trains_only_what_is_new(folder: Path) -> None:
    plan, data = planned(folder, seeds=1)
    first, bench = Here(), folder / "bench"
    assert running.run(plan, bench, data, first) == {}
    assert first.carried_out == [f"BallRun/bc{budget}-seeds-0-0" for budget in ("", "-10", "-20", "-40")]
    policies = contents(bench / "runs" / "BallRun" / "bc-seeds-0-0" / "policy")
    (spare,) = (job for job in make_jobs(plan, bench, data) if job.name.endswith("/bc-40-seeds-0-0"))
    files.write_jsonl(Path(spare.out) / "evaluations.jsonl", [])  # as if killed before it was measured
    again = Here()
    running.run(plan, bench, data, again)
    assert again.carried_out == [spare.name]
    both, grown = replace(plan, modes=("deterministic", "sampled")), Here()
    assert len(running.list_missing_jobs(both, bench, data)) == 4
    running.run(both, bench, data, grown)
    assert contents(bench / "runs" / "BallRun" / "bc-seeds-0-0" / "policy") == policies
    results = running.gather([bench])
    assert results.problems == []
    assert {column.mode for column in results.columns} == {"deterministic", "sampled"}


@pytest.mark.simulator
@pytest.mark.process
def test_a_cell_that_fails_is_named_and_the_others_go_on(folder: Path) -> None:
    plan, data = planned(folder, overrides={**TINY, "lspc.learning_rate": 1e30}, methods=("lspc", "bc"), seeds=1)
    executor, bench = Here(), folder / "bench"
    failures = running.run(plan, bench, data, executor)
    assert list(failures) == ["BallRun/lspc-seeds-0-0"]
    assert "training diverged" in failures["BallRun/lspc-seeds-0-0"]
    assert len(executor.carried_out) == 5
    results = running.gather([bench])
    assert results.problems == ["BallRun/lspc-seeds-0-0: not finished"]
    assert len(results.cells) == 6


def test_a_bench_without_a_finished_cell_has_empty_tables(folder: Path) -> None:
    plan, _ = planned(folder, seeds=1)
    keep_plan(plan, folder / "bench")
    results = running.gather([folder / "bench"])
    assert results.cells == {}
    assert results.problems[0] == "BallRun/bc-seeds-0-0: not finished"
    assert len(results.problems) == 4
    assert "- BallRun/bc-40-seeds-0-0: not finished" in tables.write(results, folder / "t", "any")[0].read_text()


@pytest.mark.process
def test_a_workers_last_word_is_what_went_wrong(folder: Path) -> None:
    plan, data = planned(folder, seeds=1)
    job = make_jobs(plan, folder / "bench", data)[0]
    save(small_dataset(seed=1), Path(job.data))
    ended: list[tuple[str, str | None]] = []
    Local(1).run([job], lambda *_: None, lambda job, trouble: ended.append((job.name, trouble)))
    assert ended == [(job.name, f"{job.data} has changed since the bench was planned")]


@pytest.mark.process
def test_a_frozen_cell_is_ended_and_named_and_the_others_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, data = planned(folder, seeds=1)
    first, second, *_ = make_jobs(plan, folder / "bench", data)
    monkeypatch.setattr(workers, "SILENCE", 3.0)
    code = {first.name: "import time; time.sleep(600)", second.name: "pass"}
    monkeypatch.setattr(local, "make_command", lambda job: [sys.executable, "-c", code[job.name]])
    ended: list[tuple[str, str | None]] = []
    Local(1).run([first, second], lambda *_: None, lambda job, trouble: ended.append((job.name, trouble)))
    assert ended == [(first.name, "it made no progress for 0.05 minutes and was ended"), (second.name, None)]


def test_a_folder_with_another_run_is_refused(folder: Path) -> None:
    plan, data = planned(folder, seeds=1)
    job = make_jobs(plan, folder / "bench", data)[0]
    make_run(Path(job.out), Path(job.data), method="bc")
    change_description(Path(job.out), seeds=[0], config=job.config)
    assert not is_done(job)
    change_description(Path(job.out), seeds=[0], config={**job.config, "steps": 9})
    with pytest.raises(UserError, match="holds another run \\(steps is 9 there, 5 now\\)"):
        is_done(job)


@pytest.mark.simulator
@pytest.mark.process
def test_what_a_plan_costs(folder: Path) -> None:
    plan, data = planned(folder, ("bc", "lspc"), seeds=1)
    bench = folder / "bench"
    unknown = running.estimate_costs(plan, bench, data)
    assert [(cost.method, cost.cells, cost.done, cost.updates) for cost in unknown] == [
        ("bc", 4, 0, 20), ("lspc", 1, 0, 5),
    ]  # fmt: skip
    assert running.total_hours(unknown, 2) == (0.0, ["bc", "lspc"])
    measured: list[str] = []
    running.measure(replace(plan, methods=("bc",)), bench, data, Here(), lambda job, _: measured.append(job.method))
    assert measured == ["bc"]
    assert not (bench / "runs").exists()
    seen = running.read_measured(bench)["bc"]
    assert seen.rate is not None
    assert seen.rate > 10
    bc, lspc = running.estimate_costs(plan, bench, data)
    assert bc.hours == pytest.approx(20 / seen.rate / 3600)
    assert lspc.hours is None
    assert running.total_hours([bc, lspc], 2) == (pytest.approx(20 / seen.rate / 3600 / 2), ["lspc"])
    assert {job.memory for job in running.list_missing_jobs(plan, bench, data)} == {seen.memory, Job.memory}


def test_memory_limits_how_many_cells_run_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, data = planned(folder, ("bc", "lspc"))
    waiting = [replace(job, memory=1 << 30) for job in make_jobs(plan, folder / "bench", data)]
    executor = Local(4)
    monkeypatch.setattr(local, "SIMULATOR", 0)
    monkeypatch.setattr(local, "COPIES", 0)
    for gigabytes, room in ((0.5, 1), (1, 1), (3.5, 3), (100, 4)):
        monkeypatch.setattr(local, "free_memory", lambda gigabytes=gigabytes: int(gigabytes * (1 << 30)))
        assert executor.room(waiting) == room
    assert Local(4).room(waiting[:2]) == 2

    def worker(job: Job, memory: int) -> Any:
        return SimpleNamespace(job=job, memory=memory)

    def fits(free: float, *taken: float) -> bool:
        monkeypatch.setattr(local, "free_memory", lambda: int(free * (1 << 30)))
        busy = {f"{i}": worker(waiting[0], int(taken[i] * (1 << 30))) for i in range(len(taken))}
        return executor._fits(waiting[1], busy)

    assert fits(0.1)  # one at least
    assert fits(2.1, 0.0)  # room for what the first will still take, and for the second
    assert not fits(1.9, 0.0)
    assert fits(1.4, 0.7)
    assert not fits(100, 1, 1, 1, 1)  # no core is left
    executor._learn(worker(waiting[0], 0), cell.Progress("training", 1, 2, None, 3 << 30))
    assert executor.estimate_memory(waiting[0]) == 3 << 30  # what it was seen to take, not what was expected
