"""TensorBoard event files, one TensorBoard run per seed: `tensorboard --logdir RUN/tensorboard`."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lspc.errors import UserError
from lspc.training.tracking.base import Line, split


class TensorBoard:
    def __init__(self) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer import event_file_writer
        except ImportError as error:
            raise UserError("tensorboard is not installed: pip install 'lspc[track]'") from error
        self._events: Any = event_pb2
        self._summaries: Any = summary_pb2
        self._make_writer = event_file_writer.EventFileWriter

    def open(self, folder: Path, description: Mapping[str, Any], history: Sequence[Line]) -> None:
        """A new event file for each seed, beside those of earlier attempts, with the whole history again.

        It begins with the start of a session at step 0 (other writers call it `purge_step`), at which TensorBoard
        forgets all it has read before. Deleting the old files would not do: a TensorBoard that has one open reads no
        further.
        """
        self._writers = {
            seed: self._make_writer(str(folder / "tensorboard" / f"seed-{seed}")) for seed in description["seeds"]
        }
        for writer in self._writers.values():
            started = self._events.SessionLog(status=self._events.SessionLog.START)
            writer.add_event(self._events.Event(wall_time=time.time(), step=0, session_log=started))
        self.log(history)

    def log(self, lines: Sequence[Line]) -> None:
        for step, seed, metrics in map(split, lines):
            values = [self._summaries.Summary.Value(tag=name, simple_value=x) for name, x in metrics.items()]
            summary = self._summaries.Summary(value=values)
            self._writers[seed].add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
