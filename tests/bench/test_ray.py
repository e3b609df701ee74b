"""A bench on a real Ray cluster of two nodes, one of which is killed in the middle: every cell is done once.

The nodes see neither the data nor the bench's folder: both are below this process's own working directory, by a path
that means another place to any other process.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import ray
from helpers.bench import Here, wait_for
from helpers.cli import Cli
from helpers.data import small_dataset
from ray.cluster_utils import Cluster as Nodes

from lspc import data, files, training
from lspc.bench import cluster, running
from lspc.bench.cell import Progress
from lspc.bench.cluster import Cluster
from lspc.bench.grid import Job, Plan, find_data, is_done, make_jobs, make_plan
from lspc.bench.local import Local
from lspc.errors import UserError
from lspc.runs import layout
from lspc.training import loop

HERE = Path("/proc/self/cwd")
MARK = "LSPC_TEST_CLUSTER"
FAILS = "BallRun/bc-10-seeds-0-1"


def ours(mark: str) -> dict[int, str]:
    """What still runs of all that the cluster started, whoever its parent is by now: process -> command."""
    found: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_text(errors="replace") and int(entry.name) != os.getpid():
                found[int(entry.name)] = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
    return found


def two_nodes(mark: str) -> Any:
    """Ray allows a node 30 seconds to start, which a busy machine may need more than once."""
    for attempts_left in (2, 1, 0):
        made = Nodes()
        try:
            # A dead node is found sooner than by default, a slow one is not taken for dead.
            made.add_node(
                num_cpus=2, memory=2 << 30, object_store_memory=80 << 20, include_dashboard=False,
                _system_config={"health_check_period_ms": 500},
            )  # fmt: skip
            made.add_node(num_cpus=1, memory=8 << 30, object_store_memory=80 << 20, include_dashboard=False)
            return made
        except Exception:
            for process in ours(mark):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not attempts_left:
                raise


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """One node of little memory, where we are, and one of much."""
    mark = uuid.uuid4().hex
    # Not below tmp_path: the names of Ray's sockets would be too long.
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(prefix="lspc-") as temporary:
        patch.setenv(MARK, mark)
        patch.setenv("RAY_TMPDIR", temporary)
        patch.setenv("TMPDIR", temporary)  # where killed jobs leave their folders
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setattr(cluster, "PATIENCE", (60.0, 600.0))  # the machine may be busy
        patch.setattr(cluster, "GRACE", 60.0)
        with warnings.catch_warnings():
            # Ray forks to start a node, of which JAX warns if earlier tests have used it; the child runs Ray alone.
            warnings.simplefilter("ignore", RuntimeWarning)
            made = two_nodes(mark)
        yield made
        ray.shutdown()
        made.shutdown()
        wait_for(lambda: not ours(mark))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with data in which every episode costs more than 10."""
    monkeypatch.chdir(tmp_path)
    dataset = small_dataset()
    data.save(dataset.select(np.flatnonzero(dataset.cost_returns > 10)), tmp_path / "data" / "BallRun.hdf5")
    return tmp_path


def planned(steps: int) -> tuple[Plan, dict[str, Path]]:
    places = find_data(HERE / "data", ["BallRun"])
    tiny = {"steps": steps, "batch_size": 32, "hidden": (8, 8)}
    return make_plan(places, ["bc"], preset="cpu", overrides=tiny, seeds=2, episodes=1), places


class Watched(Cluster):
    """Remembers what it starts."""

    def __init__(self, address: str, workers: int | None = None) -> None:
        super().__init__(address, workers)
        self.started: list[tuple[str, int]] = []

    def _start(self, attempt: Any, mailbox: Any) -> Any:
        self.started.append((attempt.job.name, attempt.number))
        return super()._start(attempt, mailbox)


def held_until(flag: Path) -> Any:
    """`cluster.work`, but a job that starts before the flag is there stops after its first word until it is killed.

    By that word it sends what it has.
    """

    def work(*arguments: Any) -> Any:
        from lspc.bench import cell, cluster

        run, hold = cell.run, not flag.exists()

        def run_held(job: Job, report: cell.Report, data_file: str | None = None) -> None:
            def tell(now: Progress) -> None:
                report(now)
                while hold:
                    time.sleep(1)

            run(job, tell, data_file)

        cell.run, cluster.SEND_EVERY = run_held, 0.0
        return cluster.work(*arguments)

    work.__qualname__ = "work"  # what Ray calls its process by
    return work


def test_a_node_is_killed_in_the_middle(nodes: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, places = planned(5)
    monkeypatch.setattr(cluster, "work", held_until(folder / "killed"))
    executor, sent, put = Watched(nodes.address), [], ray.put
    monkeypatch.setattr(ray, "put", lambda what: sent.append(len(what)) or put(what))
    (large,) = nodes.worker_nodes
    raylet = large.all_processes["raylet"][0].process
    heard: list[tuple[str, str]] = []
    assert executor.room(make_jobs(plan, HERE / "bench", places)) == 1  # 4 GB and more for each, until they are seen

    def on_progress(job: Job, now: Progress) -> None:
        heard.append((job.name, now.stage))
        if raylet.poll() is None:
            children = Path(f"/proc/{raylet.pid}/task/{raylet.pid}/children").read_text().split()
            # The only node with so much memory: the job that has just spoken is there.
            assert any(b"ray::work" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)
            raylet.send_signal(signal.SIGKILL)
            raylet.wait()
            (folder / "killed").touch()

    told = running.run(plan, HERE / "bench", places, executor, on_progress)
    assert raylet.poll() == -signal.SIGKILL
    killed = heard[0][0]
    assert [name for name, attempt in executor.started if attempt > 1] == [killed]
    # All had been trained and sent: the second job had only to measure.
    assert [stage for name, stage in heard if name == killed] == ["training", "measuring", "measuring"]
    assert sent == [os.path.getsize("data/BallRun.hdf5")]
    assert list(told) == [FAILS]
    assert "no episode costs 10 or less" in told[FAILS]
    cells = {job.name: job for job in make_jobs(plan, HERE / "bench", places)}
    for name, job in cells.items():
        assert is_done(job) == (name != FAILS)
        if name != FAILS:
            records = files.read_jsonl(Path(job.out) / "evaluations.jsonl")
            assert [(r["training_seed"], r["seed"]) for r in records] == [(0, 1_000_000), (1, 1_000_000)]
    assert running.gather([HERE / "bench"]).problems[0] == f"{FAILS}: not finished"

    here = {job.name: job for job in make_jobs(plan, HERE / "local", places) if job.name in (killed, FAILS)}
    ended: dict[str, str | None] = {}
    Local(2).run(list(here.values()), lambda *_: None, lambda job, trouble: ended.update({job.name: trouble}))
    assert ended == {killed: None, FAILS: told[FAILS]}
    for name, job in here.items():
        assert cluster.read_files(Path(cells[name].out)) == cluster.read_files(Path(job.out))

    again = Here()  # any executor goes on with the bench, and only with what failed
    running.run(plan, HERE / "bench", places, again)
    assert again.carried_out == [FAILS]


def test_ctrl_c_cancels_the_jobs_and_the_next_call_goes_on_from_what_they_sent(nodes: Any, folder: Path) -> None:
    plan, places = planned(1_000_000)
    heard: list[int] = []

    def on_progress(job: Job, now: Progress) -> None:
        heard.append(now.done)
        if len(heard) == 1:  # from outside, while we wait for the jobs
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()

    executor = Watched(nodes.address, workers=1)
    with pytest.raises(training.Interrupted, match="stopped, all saved; run the same command again to continue"):
        running.run(plan, HERE / "bench", places, executor, on_progress)
    wait_for(lambda: not any("ray::work" in line for line in ours(os.environ[MARK]).values()))
    ((first, _),) = executor.started
    saved = layout.checkpoint_paths(HERE / "bench" / "runs" / first)
    assert saved
    reached = files.read_jsonl(HERE / "bench" / "runs" / first / "metrics.jsonl")[-1]["step"]
    assert reached >= max(heard)
    heard.clear()
    with pytest.raises(training.Interrupted):
        running.run(plan, HERE / "bench", places, executor, on_progress)
    assert heard[0] == reached + loop.CHUNK


def test_what_kills_its_process_is_tried_again_and_what_is_faulty_is_not(
    nodes: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ATTEMPTS", 2)
    # pyrefly: ignore [division-by-zero]
    monkeypatch.setattr(cluster, "work", lambda job, *_: os._exit(1) if job.name == FAILS else 1 / 0)
    executor = Watched(nodes.address)
    plan, places = planned(5)
    faulty, fatal, *_ = make_jobs(plan, HERE / "bench", places)
    assert fatal.name == FAILS
    ended: dict[str, str | None] = {}
    executor.run([faulty, fatal], lambda *_: None, lambda job, trouble: ended.update({job.name: trouble}))
    assert sorted(executor.started) == [(FAILS, 1), (FAILS, 2), (faulty.name, 1)]
    assert ended[faulty.name] == "ZeroDivisionError: division by zero"
    lost = ended[FAILS]
    assert lost is not None
    assert lost.startswith("lost 2 times, at last because ")
    assert "\n" not in lost


def test_only_nodes_with_a_core_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def node(alive: bool, **resources: float) -> dict[str, Any]:
        return {"Alive": alive, "Resources": resources}

    there = [node(True, memory=64 << 30), node(True, CPU=2, memory=10 << 30), node(False, CPU=8, memory=64 << 30)]
    monkeypatch.setattr(cluster, "_join", lambda _: None)
    monkeypatch.setattr(ray, "nodes", lambda: there)
    plan, places = planned(5)
    waiting = make_jobs(plan, HERE / "bench", places)
    assert Cluster().room(waiting) == 2
    assert Cluster(workers=1).room(waiting) == 1
    assert Cluster()._largest() == 10 << 30
    there.append(node(True, CPU=1, memory=5 << 30))
    assert Cluster().room(waiting) == 3
    del there[1:]
    with pytest.raises(UserError, match="no node of the Ray cluster has a core to work on"):
        Cluster()
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    there += [node(True, CPU=8, memory=64 << 30), node(True, CPU=8, GPU=3, memory=64 << 30)]
    assert Cluster()._places() == 3


def test_files_are_written_so_that_a_kill_in_between_leaves_a_sound_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        "evaluations.jsonl", "checkpoint-000000500.safetensors", "policy/seed-0/card.json", "metrics.jsonl",
        "policy/seed-0/weights.safetensors", "config.json", "checkpoint-000000750.safetensors",
    ]  # fmt: skip
    content = {name: name.encode() for name in names}
    (tmp_path / "checkpoint-000000250.safetensors").touch()
    (tmp_path / "mine.txt").touch()
    written: list[str] = []
    atomic = files.atomic_path

    def spy(path: Path) -> Any:
        written.append(path.relative_to(tmp_path).as_posix())
        return atomic(path)

    monkeypatch.setattr(files, "atomic_path", spy)
    cluster.write_files(tmp_path, content)
    assert written == [
        "config.json", "metrics.jsonl", "checkpoint-000000500.safetensors", "checkpoint-000000750.safetensors",
        "policy/seed-0/weights.safetensors", "policy/seed-0/card.json", "evaluations.jsonl",
    ]  # fmt: skip
    assert cluster.read_files(tmp_path) == {**content, "mine.txt": b""}
    written.clear()
    cluster.write_files(tmp_path, {**content, "evaluations.jsonl": b"more"})
    assert written == ["evaluations.jsonl"]


def test_a_node_has_the_data_only_if_they_are_the_same(folder: Path) -> None:
    path = folder / "data" / "BallRun.hdf5"
    fingerprint = data.load(path).fingerprint
    assert cluster._is_data(str(path), fingerprint)
    assert not cluster._is_data(str(path), "another")
    assert not cluster._is_data(str(folder / "none.hdf5"), fingerprint)
    path.write_text("no data")
    assert not cluster._is_data(str(path), fingerprint)


@pytest.mark.process
def test_an_address_that_does_not_answer_is_told_at_once(
    cli: Cli, cli_process: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.shutdown()  # who is part of a cluster stays there
    tasks = "--tasks", "BallRun", "--algos", "bc", "--data", folder / "data"
    refused = cli_process("bench", *tasks, "--executor", "ray", "--address", "127.0.0.1:1", columns=200)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "cannot reach the Ray cluster at 127.0.0.1:1: " in refused.stderr
    lonely = cli("bench", *tasks, "--address", "127.0.0.1:1", columns=200)
    assert "--address is for a Ray cluster: add --executor ray" in lonely.stderr
    with pytest.raises(UserError, match="cannot join the Ray cluster at nowhere: Invalid address format"):
        Cluster("nowhere")
    with pytest.raises(UserError, match=r"ray://127\.0\.0\.1:1: give HOST:PORT"):
        Cluster("ray://127.0.0.1:1")
    monkeypatch.setattr(cluster, "PATIENCE", (60.0, 1.0))
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(UserError, match=f"cannot join .* at {address}: no answer for 1 s$"):
            Cluster(address)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(UserError, match="cluster of this machine: no answer for 1 s; `ray start --head` starts one"):
        Cluster()


@pytest.mark.process
def test_without_ray_one_line_names_the_cure(folder: Path) -> None:
    program = (
        "import sys; sys.modules['ray'] = None; from lspc.cli import main; "
        "sys.argv = ['lspc', 'bench', '--tasks', 'BallRun', '--data', 'data', '--executor', 'ray']; main()"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 1
    assert said.stderr.strip().endswith("ray is not installed: pip install 'lspc[cluster]'")
    assert said.stderr.count("\n") == 1
