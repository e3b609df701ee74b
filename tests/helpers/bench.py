"""An executor in this process, and waiting for other processes."""

import time
from collections.abc import Callable, Sequence

from lspc.bench import cell
from lspc.bench.grid import Order
from lspc.bench.running import OnEnd, OnProgress
from lspc.errors import UserError


class Here:
    """An executor of a few lines, in this process: all that the seam asks for."""

    def __init__(self) -> None:
        self.carried_out: list[str] = []

    def room(self, orders: Sequence[Order]) -> int:
        return 1

    def run(self, orders: Sequence[Order], on_progress: OnProgress, on_end: OnEnd) -> None:
        for order in orders:
            self.carried_out.append(order.name)
            try:
                cell.run(order, lambda now, order=order: on_progress(order, now))
            except UserError as error:
                on_end(order, str(error))
            else:
                on_end(order, None)


def wait_for(what: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)
