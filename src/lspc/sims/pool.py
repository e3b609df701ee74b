"""Many episodes of one policy at once: worker processes do the physics while this process does the thinking.

An episode depends on its seed and the policy alone, so a worker that dies or hangs is simply replaced and its
episodes run again; the numbers are the same with any number of workers, and with none (`workers=0`).
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

from lspc.errors import UserError
from lspc.sims._worker import FAILED, RESET, STEP, Lanes, command_type, result_type
from lspc.tasks import Task

Act = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Observations (B, o) float32, episode seeds (B,) int64 and steps (B,) int64 to actions (B, a).

B never changes within a run (spare rows are zero), so a compiled policy compiles once. Row i of the answer
must depend on row i of the question alone.
"""

MAX_TRIES = 3


class Episode(NamedTuple):
    seed: int
    reward_return: float
    cost_return: float
    length: int
    terminated: bool


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_episodes(
    task: Task,
    act: Act,
    seeds: Sequence[int],
    *,
    workers: int | None = None,
    envs_per_worker: int = 4,
    timeout: float = 120.0,
    on_episode: Callable[[Episode], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
) -> list[Episode]:
    """Run one episode for each seed and return them in the order of `seeds`.

    `workers` is the number of processes (one for each usable core unless given; 0 runs all in this one), each
    with `envs_per_worker` simulators. A worker that gives no answer for `timeout` seconds is replaced.
    `on_episode` hears of each episode when it ends, `on_trouble` of each replaced worker.
    """
    workers = usable_cores() if workers is None else workers
    if workers < 0 or envs_per_worker < 1:
        raise UserError(f"workers must be 0 or more and envs_per_worker 1 or more, not {workers}, {envs_per_worker}")
    book = _Book(seeds, max(1, min(workers, len(seeds))), envs_per_worker, on_episode)
    if workers == 0:
        _run_here(task, act, book, envs_per_worker)
    else:
        _Pool(task, act, book, envs_per_worker, timeout, on_trouble).run()
    return book.episodes()


class _Book:
    """Which episodes wait, for whom, and which are done. An episode is known by its place in `seeds`.

    The place fixes the lane, hence the row in the policy's batch: matrix products may round differently from
    row to row, and with this the last bit too is the same whichever worker runs the episode.
    """

    def __init__(
        self, seeds: Sequence[int], workers: int, lanes: int, on_episode: Callable[[Episode], None] | None
    ) -> None:
        self.seeds = [int(seed) for seed in seeds]
        self.workers = workers
        self.queues = [[deque[int]() for _ in range(lanes)] for _ in range(workers)]
        for place in range(len(seeds)):
            self.queues[place * workers // len(seeds)][place % lanes].append(place)
        self.done: dict[int, Episode] = {}
        self._on_episode = on_episode

    def next(self, worker: int, lane: int) -> int | None:
        """The next episode for this lane of this worker; if none is left, one from whoever has most left."""
        queue = self.queues[worker][lane] or max((lanes[lane] for lanes in self.queues), key=len)
        return queue.popleft() if queue else None

    def put_back(self, worker: int, place: int) -> None:
        lanes = self.queues[worker]
        lanes[place % len(lanes)].appendleft(place)

    def record(self, place: int, episode: Episode) -> None:
        self.done[place] = episode
        if self._on_episode is not None:
            self._on_episode(episode)

    def episodes(self) -> list[Episode]:
        return [self.done[place] for place in range(len(self.seeds))]


class _Crew:
    """The episodes on one worker's lanes: what to tell the worker next, and what its answer means."""

    def __init__(self, task: Task, lanes: int, number: int, book: _Book) -> None:
        self.task, self.number, self.book = task, number, book
        self.places: list[int | None] = [None] * lanes
        self._running = np.zeros(lanes, bool)  # has begun, so it wants an action
        self._observations = np.zeros((lanes, task.observation_dim), np.float32)
        self._seeds, self._steps = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        self._rewards, self._costs = np.zeros(lanes), np.zeros(lanes)

    def unfinished(self) -> list[int]:
        return [place for place in self.places if place is not None]

    def commands(self, act: Act) -> np.ndarray | None:
        """Begin episodes on free lanes and ask the policy for the others; None when nothing is left to do."""
        commands = np.zeros(len(self.places), command_type(self.task))
        if self._running.any():
            commands["action"] = self._actions(act)
            commands["kind"][self._running] = STEP
        for lane, place in enumerate(self.places):
            if place is None and (place := self.book.next(self.number, lane)) is not None:
                self.places[lane] = place
                commands["kind"][lane] = RESET
                commands["seed"][lane] = self._seeds[lane] = self.book.seeds[place]
                self._steps[lane], self._rewards[lane], self._costs[lane] = 0, 0.0, 0.0
        return commands if self.unfinished() else None

    def _actions(self, act: Act) -> np.ndarray:
        running = self._running
        observations = np.where(running[:, None], self._observations, np.float32(0))
        actions = np.asarray(act(observations, self._seeds * running, self._steps * running))
        expected = (len(running), self.task.action_dim)
        if actions.shape != expected:
            raise UserError(f"the policy gave actions of shape {actions.shape}; {self.task.name} needs {expected}")
        return actions

    def absorb(self, results: np.ndarray) -> None:
        """Take in one round of results; finished episodes go to the book and free their lanes."""
        running = self._running
        self._observations = results["observation"]
        self._rewards[running] += results["reward"][running]
        self._costs[running] += results["cost"][running]
        self._steps += running
        for lane in np.flatnonzero(running & (results["terminated"] | results["truncated"])):
            place = self.places[lane]
            assert place is not None
            self.places[lane] = None
            self.book.record(
                place,
                Episode(
                    seed=self.book.seeds[place],
                    reward_return=float(self._rewards[lane]),
                    cost_return=float(self._costs[lane]),
                    length=int(self._steps[lane]),
                    terminated=bool(results["terminated"][lane]),
                ),
            )
        self._running = np.array([place is not None for place in self.places])


def _run_here(task: Task, act: Act, book: _Book, lanes_count: int) -> None:
    lanes = Lanes(task, lanes_count)
    crew = _Crew(task, lanes_count, 0, book)
    try:
        while (commands := crew.commands(act)) is not None:
            crew.absorb(lanes.advance(commands).copy())
    finally:
        lanes.close()


class _Worker:
    """A worker process, the line to it, and the episodes it is on."""

    def __init__(self, task: Task, lanes: int, number: int, book: _Book) -> None:
        self.number = number
        self.crew = _Crew(task, lanes, number, book)
        self.deadline = 0.0
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by end)
        # One thread each, since the workers share the cores; modules are found where this process finds them.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        path = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lspc.sims._worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={**os.environ, **threads, **path},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # out of reach of the terminal's Ctrl-C, even before it can ignore it
            )
        with suppress(OSError):  # if it is dead already, the first answer will not come and says so
            self.connection.send((task, lanes))

    def how_it_ended(self) -> str:
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


class _Pool:
    def __init__(
        self,
        task: Task,
        act: Act,
        book: _Book,
        lanes: int,
        timeout: float,
        on_trouble: Callable[[str], None] | None,
    ) -> None:
        self.task, self.act, self.book, self.lanes, self.timeout = task, act, book, lanes, timeout
        self.on_trouble = on_trouble
        self.failures: Counter[int] = Counter()
        self.workers: dict[int, _Worker] = {}

    def run(self) -> None:
        try:
            for number in range(self.book.workers if self.book.seeds else 0):
                self._hire(number)
            while busy := {worker.connection: worker for worker in self.workers.values() if worker.crew.unfinished()}:
                patience = min(worker.deadline for worker in busy.values()) - time.monotonic()
                ready = wait(list(busy), max(0.0, patience))
                # The policy answers one worker here while the others are stepping.
                for connection in ready:
                    self._receive(busy.pop(connection))  # pyright: ignore[reportArgumentType]
                # Asked again whether it is silent: the policy may have taken longer than the deadline allows.
                for connection, worker in busy.items():
                    if worker.deadline <= time.monotonic() and not connection.poll():
                        self._replace(worker, f"gave no answer for {self.timeout:g} s")
        finally:
            for worker in self.workers.values():
                worker.end()

    def _hire(self, number: int) -> None:
        self.workers[number] = _Worker(self.task, self.lanes, number, self.book)
        self._command(self.workers[number])

    def _command(self, worker: _Worker) -> None:
        commands = worker.crew.commands(self.act)
        if commands is not None:
            with suppress(OSError):  # it is dead, which the next read finds
                worker.connection.send_bytes(commands.tobytes())
            worker.deadline = time.monotonic() + self.timeout

    def _receive(self, worker: _Worker) -> None:
        try:
            answer = worker.connection.recv_bytes()
        except (EOFError, OSError):
            self._replace(worker, worker.how_it_ended())
            return
        if answer.startswith(FAILED):
            raise UserError(answer[1:].decode())
        worker.crew.absorb(np.frombuffer(answer, result_type(self.task), offset=1))
        self._command(worker)

    def _replace(self, worker: _Worker, why: str) -> None:
        """End a worker in trouble and let a fresh one run its unfinished episodes from their start."""
        worker.end()
        again = worker.crew.unfinished()
        seeds = ", ".join(str(self.book.seeds[place]) for place in again)
        self.failures.update(again)
        if max(self.failures[place] for place in again) >= MAX_TRIES:
            raise UserError(
                f"{self.task.name}: gave up after {MAX_TRIES} tries, the worker {why} each time; "
                f"it was running the episodes with seeds {seeds}"
            )
        if self.on_trouble is not None:
            self.on_trouble(f"worker {worker.number} {why}; episodes with seeds {seeds} run again")
        for place in again:
            self.book.put_back(worker.number, place)
        self._hire(worker.number)
