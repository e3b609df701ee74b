"""Many episodes of one policy at once: worker processes do the physics while this process does the thinking.

An episode depends on its seed and the policy alone, so a worker that dies or hangs is simply replaced and its
episodes run again; the numbers are the same with any number of workers, and with none (`workers=0`). Workers
stay for the next policy, since starting a simulator can take longer than an episode.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

import numpy as np

from lspc.acting import Act, Seen
from lspc.errors import UserError
from lspc.sims._worker import FAILED, RESET, STEP, Lanes, command_type, result_type
from lspc.system import ONE_THREAD, usable_cores
from lspc.tasks import Task
from lspc.tasks.own import OwnTask

MAX_TRIES = 3


class Episode(NamedTuple):
    seed: int
    reward_return: float
    cost_return: float
    length: int
    terminated: bool


class Pool:
    """Simulators of one task, ready to run episodes of any policy: `with Pool(task) as pool: pool.run(act, seeds)`.

    `workers` is the number of processes; 0 runs all in this one. Unless given it is one for each usable core, and
    one more for a simulator that allows a single world in a process. Each holds `worlds` simulators where it may. A
    worker that gives no answer for `timeout` seconds is replaced, and `on_trouble` hears of it.
    """

    def __init__(
        self,
        task: Task,
        *,
        workers: int | None = None,
        worlds: int = 10,
        timeout: float = 120.0,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        alone = task.one_world_per_process
        if isinstance(task, OwnTask) and task.factory is not None:
            workers = 0  # no other process could make the environment
        if workers is None:
            # A process with one world waits while the policy thinks about it: one more keeps the cores busy.
            workers = usable_cores() + alone
        if workers < 0 or worlds < 1:
            raise UserError(f"workers must be 0 or more and worlds 1 or more, not {workers}, {worlds}")
        self.task, self.timeout, self.on_trouble = task, timeout, on_trouble
        self._count = workers
        self._worlds = 1 if alone else worlds
        self._workers: dict[int, _Worker] = {}
        self._local: Lanes | None = None

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.end()
        self._workers.clear()
        if self._local is not None:
            self._local.close()
            self._local = None

    def run(
        self, act: Act, seeds: Sequence[int], *, on_episode: Callable[[Episode], None] | None = None
    ) -> list[Episode]:
        """Run one episode for each seed and return them in the order of `seeds`.

        `on_episode` hears of each episode when it ends.
        """
        assignments = _Assignments(seeds, max(1, min(self._count, len(seeds))), self._worlds, on_episode)
        try:
            if self._count == 0:
                self._run_in_process(act, assignments)
            else:
                _ParallelRun(self, act, assignments).run()
        except BaseException:
            self.close()  # a worker may be in the middle of an episode; the next run starts with fresh ones
            raise
        return assignments.episodes()

    def worker(self, number: int) -> "_Worker":
        """The worker of this number, started if it is not there."""
        if number not in self._workers:
            self._workers[number] = _Worker(self.task, self._worlds, number)
        return self._workers[number]

    def end_worker(self, number: int) -> None:
        self._workers.pop(number).end()

    def _run_in_process(self, act: Act, assignments: "_Assignments") -> None:
        self._local = self._local or Lanes(self.task, self._worlds)
        episodes = _WorkerEpisodes(self.task, self._worlds, 0, assignments)
        while (commands := episodes.commands(act)) is not None:
            results = self._local.advance(commands).copy()
            if why := episodes.find_broken(results):
                raise UserError(f"{self.task.name}: the simulator {why}")
            episodes.take_results(results)


class _Assignments:
    """Which episodes wait, for whom, and which are done. An episode is known by its index in `seeds`.

    The index fixes the lane, hence the row in the policy's batch: matrix products may round differently from
    row to row, and with this the last bit too is the same whichever worker runs the episode.
    """

    def __init__(
        self, seeds: Sequence[int], workers: int, lanes: int, on_episode: Callable[[Episode], None] | None
    ) -> None:
        # NumPy's integers are let in.
        self.seeds = [int(seed) for seed in seeds]  # pyrefly: ignore [unnecessary-type-conversion]
        self.workers = workers
        self.queues = [[deque[int]() for _ in range(lanes)] for _ in range(workers)]
        for index in range(len(seeds)):
            self.queues[index * workers // len(seeds)][index % lanes].append(index)
        self.done: dict[int, Episode] = {}
        self._on_episode = on_episode

    def next(self, worker: int, lane: int) -> int | None:
        """The next episode for this lane of this worker; if none is left, one from whoever has most left."""
        queue = self.queues[worker][lane] or max((lanes[lane] for lanes in self.queues), key=len)
        return queue.popleft() if queue else None

    def put_back(self, worker: int, index: int) -> None:
        lanes = self.queues[worker]
        lanes[index % len(lanes)].appendleft(index)

    def record(self, index: int, episode: Episode) -> None:
        self.done[index] = episode
        if self._on_episode is not None:
            self._on_episode(episode)

    def episodes(self) -> list[Episode]:
        return [self.done[index] for index in range(len(self.seeds))]


class _WorkerEpisodes:
    """The episodes on one worker's lanes: what to tell the worker next, and what its answer means."""

    def __init__(self, task: Task, lanes: int, number: int, assignments: _Assignments) -> None:
        self.task, self.number, self.assignments = task, number, assignments
        self.indices: list[int | None] = [None] * lanes
        self._running = np.zeros(lanes, bool)  # has begun, so it wants an action
        self._observations = np.zeros((lanes, task.observation_dim), np.float32)
        self._seeds, self._steps = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        self._rewards, self._costs = np.zeros(lanes), np.zeros(lanes)
        self._last_rewards, self._last_costs = np.zeros(lanes, np.float32), np.zeros(lanes, np.float32)
        self._lanes = number * lanes + np.arange(lanes)

    def unfinished(self) -> list[int]:
        return [index for index in self.indices if index is not None]

    def commands(self, act: Act) -> np.ndarray | None:
        """Begin episodes on free lanes and ask the policy for the others; None when nothing is left to do."""
        commands = np.zeros(len(self.indices), command_type(self.task))
        if self._running.any():
            commands["action"] = self._actions(act)
            commands["kind"][self._running] = STEP
        for lane, index in enumerate(self.indices):
            if index is None and (index := self.assignments.next(self.number, lane)) is not None:
                self.indices[lane] = index
                commands["kind"][lane] = RESET
                commands["seed"][lane] = self._seeds[lane] = self.assignments.seeds[index]
                self._steps[lane], self._rewards[lane], self._costs[lane] = 0, 0.0, 0.0
        return commands if self.unfinished() else None

    def _actions(self, act: Act) -> np.ndarray:
        running = self._running
        seen = Seen(
            np.where(running[:, None], self._observations, np.float32(0)),
            self._seeds * running,
            self._steps * running,
            self._last_rewards * running,
            self._last_costs * running,
            self._lanes,
        )
        actions = np.asarray(act(seen))
        expected = (len(running), self.task.action_dim)
        if actions.shape != expected:
            raise UserError(f"the policy gave actions of shape {actions.shape}; {self.task.name} needs {expected}")
        return actions

    def find_broken(self, results: np.ndarray) -> str | None:
        """What is not a number in a round of results, and in which episodes; stored, it would spoil every mean."""
        busy = np.array([index is not None for index in self.indices])
        for name in ("observation", "reward", "cost"):
            broken = busy & ~np.isfinite(results[name].reshape(len(busy), -1)).all(axis=1)
            if broken.any():
                seeds = ", ".join(map(str, self._seeds[broken].tolist()))
                return f"gave NaN or infinity as the {name} of the episodes with seeds {seeds}"
        return None

    def take_results(self, results: np.ndarray) -> None:
        """Take in one round of results; finished episodes go to the assignments and free their lanes."""
        running = self._running
        self._observations = results["observation"]
        self._last_rewards, self._last_costs = (results[k].astype(np.float32) for k in ("reward", "cost"))
        self._rewards[running] += results["reward"][running]
        self._costs[running] += results["cost"][running]
        self._steps += running
        for lane in np.flatnonzero(running & (results["terminated"] | results["truncated"])):
            index = self.indices[lane]
            assert index is not None
            self.indices[lane] = None
            self.assignments.record(
                index,
                Episode(
                    seed=self.assignments.seeds[index],
                    reward_return=float(self._rewards[lane]),
                    cost_return=float(self._costs[lane]),
                    length=int(self._steps[lane]),
                    terminated=bool(results["terminated"][lane]),
                ),
            )
        self._running = np.array([index is not None for index in self.indices])


class _Worker:
    """A worker process and the connection to it."""

    def __init__(self, task: Task, lanes: int, number: int) -> None:
        self.number, self.lanes = number, lanes
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by end)
        # One thread each, since the workers share the cores; modules are found where this process finds them.
        path = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lspc.sims._worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={**os.environ, **ONE_THREAD, **path},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # out of reach of the terminal's Ctrl-C, even before it can ignore it
            )
        with suppress(OSError):  # if it is dead already, the first answer will not come and says so
            self.connection.send((task, lanes))

    def describe_end(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.poll()
        if code is None:
            return "closed its line"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with code {code}" + (f" ({lines[-1]})" if lines else "")

    def end(self) -> None:
        self.process.kill()  # there is nothing to save, and a stopped process hears nothing else
        self.process.wait()
        self.connection.close()
        self._errors.close()


class _ParallelRun:
    """One policy's episodes on the pool's workers."""

    def __init__(self, pool: Pool, act: Act, assignments: _Assignments) -> None:
        self.pool, self.act, self.assignments = pool, act, assignments
        self.failures: Counter[int] = Counter()
        self.running: dict[Connection, tuple[_Worker, _WorkerEpisodes]] = {}
        self.deadlines: dict[Connection, float] = {}

    def run(self) -> None:
        for number in range(self.assignments.workers if self.assignments.seeds else 0):
            self._start(number)
        while waiting := [connection for connection, (_, episodes) in self.running.items() if episodes.unfinished()]:
            patience = min(self.deadlines[connection] for connection in waiting) - time.monotonic()
            ready = wait(waiting, max(0.0, patience))
            # The policy answers one worker here while the others are stepping.
            for connection in waiting:
                if connection in ready:
                    self._receive(connection)
                # Asked again whether it is silent: the policy may have taken longer than the deadline allows.
                elif self.deadlines[connection] <= time.monotonic() and not connection.poll():
                    self._replace(connection, f"gave no answer for {self.pool.timeout:g} s")

    def _start(self, number: int) -> None:
        worker = self.pool.worker(number)
        self.running[worker.connection] = (
            worker,
            _WorkerEpisodes(self.pool.task, worker.lanes, number, self.assignments),
        )
        self._send_commands(worker.connection)

    def _send_commands(self, connection: Connection) -> None:
        commands = self.running[connection][1].commands(self.act)
        if commands is not None:
            with suppress(OSError):  # it is dead, which the next read finds
                connection.send_bytes(commands.tobytes())
            self.deadlines[connection] = time.monotonic() + self.pool.timeout

    def _receive(self, connection: Connection) -> None:
        worker, episodes = self.running[connection]
        try:
            answer = connection.recv_bytes()
        except (EOFError, OSError):
            self._replace(connection, worker.describe_end())
            return
        if answer.startswith(FAILED):
            raise UserError(answer[1:].decode())
        results = np.frombuffer(answer, result_type(self.pool.task), offset=1)
        if why := episodes.find_broken(results):
            self._replace(connection, why)
            return
        episodes.take_results(results)
        self._send_commands(connection)

    def _replace(self, connection: Connection, why: str) -> None:
        """End a worker in trouble and let a fresh one run its unfinished episodes from their start."""
        worker, episodes = self.running.pop(connection)
        self.pool.end_worker(worker.number)
        again = episodes.unfinished()
        seeds = ", ".join(str(self.assignments.seeds[index]) for index in again)
        self.failures.update(again)
        if max(self.failures[index] for index in again) >= MAX_TRIES:
            raise UserError(
                f"{self.pool.task.name}: gave up after {MAX_TRIES} tries, the worker {why} each time; "
                f"it was running the episodes with seeds {seeds}"
            )
        if self.pool.on_trouble is not None:
            self.pool.on_trouble(f"worker {worker.number} {why}; episodes with seeds {seeds} run again")
        for index in again:
            self.assignments.put_back(worker.number, index)
        self._start(worker.number)
