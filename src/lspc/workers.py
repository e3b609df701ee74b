"""Worker processes that tell their progress as JSON lines on standard output, and the crew that is listened to.

One that has been silent for half an hour is taken for frozen and ended.
"""

import json
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import IO, Any

from lspc.system import start_worker

SILENCE = 1800.0
"""Seconds without a word after which a worker counts as frozen: on a busy machine compiling takes minutes."""
TICK = 1.0
"""Seconds between two looks at who is silent."""
GRACE = 10.0
"""Seconds that stopped workers have to save what they are at."""


class Crew:
    """Workers at work, by their names."""

    def __init__(self) -> None:
        self.running: dict[str, _Worker] = {}
        self._news = queue.SimpleQueue[tuple[str, dict[str, Any] | None]]()
        self._looked = time.monotonic()

    def start(self, name: str, command: Sequence[str], *, platform: str = "cpu") -> None:
        worker = self.running[name] = _Worker(command, platform)
        threading.Thread(target=self._listen, args=(name, worker.process), daemon=True).start()

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            if line.startswith("{"):  # simulators may chat on the same line
                self._news.put((name, json.loads(line)))
        self._news.put((name, None))

    def hear(self) -> tuple[str, dict[str, Any] | None]:
        """Who tells something next, and what; None is the end, of which `outcome` says more."""
        while True:
            try:
                name, told = self._news.get(timeout=TICK)
            except queue.Empty:
                self._end_silent()
                continue
            self.running[name].silent = 0.0
            self._end_silent()
            return name, told

    def _end_silent(self) -> None:
        now = time.monotonic()
        passed = min(now - self._looked, 2 * TICK)  # this program may have been stopped, and heard nobody meanwhile
        self._looked = now
        for worker in self.running.values():
            worker.silent += passed
            if worker.silent > SILENCE and not worker.frozen:
                worker.frozen = True
                worker.process.kill()

    def outcome(self, name: str, patience: float | None = None) -> str | None:
        """Wait for a worker's end; it is then no part of the crew. None if all went well, else what went wrong."""
        return self.running.pop(name).outcome(patience)

    def end(self) -> None:
        """Stop whoever is still at work."""
        for worker in self.running.values():
            worker.process.terminate()
        until = time.monotonic() + GRACE
        for name in list(self.running):
            self.outcome(name, max(0.0, until - time.monotonic()))


class _Worker:
    def __init__(self, command: Sequence[str], platform: str) -> None:
        self.silent, self.frozen = 0.0, False
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115 (closed by outcome)
        self.process = start_worker(command, errors=self._errors, platform=platform)

    def outcome(self, patience: float | None = None) -> str | None:
        try:
            code = self.process.wait(patience)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # nothing but its last steps is lost
            self.process.kill()
            code = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        if code == 0:
            return None
        if self.frozen:
            return f"it made no progress for {SILENCE / 60:g} minutes and was ended"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        # Code 1 is that of every error, which says more than the number.
        return said[-1] if said and code == 1 else f"ended with code {code}" + (f" ({said[-1]})" if said else "")
