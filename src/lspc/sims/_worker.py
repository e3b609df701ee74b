"""A worker process of the evaluation pool, started by it as `python -m lspc.sims._worker <file descriptor>`.

It moves a few simulators in lockstep as the pool commands and knows nothing of policies, so it needs no jax.
It is no multiprocessing child: those import the user's script again, and one without a guard would recurse.
"""

import signal
import sys
from multiprocessing.connection import Connection

import numpy as np

from lspc.errors import UserError
from lspc.sims import Simulator, make
from lspc.tasks import Task

IDLE, RESET, STEP = range(3)
"""What a lane is told to do."""

DONE, FAILED = b"d", b"f"
"""The first byte of an answer: results follow, or the one line that says what went wrong."""


def command_type(task: Task) -> np.dtype:
    return np.dtype([("kind", "i1"), ("seed", "i8"), ("action", "f4", (task.action_dim,))])


def result_type(task: Task) -> np.dtype:
    return np.dtype(
        [
            ("observation", "f4", (task.observation_dim,)),
            ("reward", "f8"),
            ("cost", "f8"),
            ("terminated", "?"),
            ("truncated", "?"),
        ]
    )


class Lanes:
    """Simulators of one task side by side: one command for each goes in, one result for each comes out."""

    def __init__(self, task: Task, count: int) -> None:
        self._simulators: list[Simulator] = [make(task, pictures=False) for _ in range(count)]
        self._results = np.zeros(count, result_type(task))

    def advance(self, commands: np.ndarray) -> np.ndarray:
        kinds, seeds, actions = commands["kind"].tolist(), commands["seed"].tolist(), commands["action"]
        for lane, simulator in enumerate(self._simulators):
            if kinds[lane] == RESET:
                self._results[lane] = (simulator.reset(seeds[lane]), 0.0, 0.0, False, False)
            elif kinds[lane] == STEP:
                self._results[lane] = simulator.step(actions[lane])
        return self._results

    def close(self) -> None:
        for simulator in self._simulators:
            simulator.close()


def serve(connection: Connection) -> None:
    task, count = connection.recv()
    lanes = Lanes(task, count)
    while True:
        commands = np.frombuffer(connection.recv_bytes(), command_type(task))
        connection.send_bytes(DONE + lanes.advance(commands).tobytes())


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool's business; it ends its workers
    with Connection(int(sys.argv[1])) as connection:
        try:
            serve(connection)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the pool is gone
        except Exception as error:
            line = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            connection.send_bytes(FAILED + line.encode())


if __name__ == "__main__":
    main()
