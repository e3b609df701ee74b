"""One cell of the grid, carried out: train its run (or go on with it), then measure it.

`run` is all that an executor needs. Started as `python -m lspc.bench.cell ORDER` it is a worker process: progress
goes to standard output, one JSON line each, and the process ends when its standard input closes: whoever started it
is then gone. Nothing is lost by that but the updates since the last checkpoint.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lspc import algos, data, evaluation, training
from lspc.algos import base
from lspc.algos.base import Spec
from lspc.bench.grid import Order, unmeasured
from lspc.errors import UserError
from lspc.system import end_with_parent
from lspc.tasks import get_task

SECONDS_MEASURED = 2.0


class Progress(NamedTuple):
    stage: str
    done: int
    total: int
    rate: float | None = None
    """Updates per second, all seeds of the cell advancing together; None while it is not known."""
    memory: int | None = None
    """The most bytes this process has held so far."""


Report = Callable[[Progress], None]


def run(order: Order, report: Report, data_file: str | None = None) -> None:
    """Do what is missing of the cell; each part is kept as soon as it is finished.

    `data_file` is where this machine has the data, if not where the run will say that they are.
    """
    dataset = replace(data.load(data_file or order.data), source=order.data)
    if dataset.fingerprint != order.dataset:
        raise UserError(f"{order.data} has changed since the bench was planned")
    lists = {name: tuple(value) if isinstance(value, list) else value for name, value in order.config.items()}
    config, task = algos.get(order.method).Config(**lists), get_task(order.task)
    if order.only_measure:
        report(Progress("measured", 1, 1, speed(dataset, order, config), _memory()))
        return
    chunks = 0

    def trained(now: training.Progress) -> None:
        nonlocal chunks
        chunks += 1  # the first one is mostly compilation
        rate = now.updates_per_second if chunks > 1 else None
        report(Progress("training", now.step, now.total, rate, _memory()))

    training.train(
        dataset, order.out, config, method=order.method, seeds=order.seeds, task=task, provenance=order.provenance,
        on_progress=trained,
    )  # fmt: skip
    done = total = 0

    def started(_: str, count: int) -> None:
        nonlocal total
        total += count

    def measured() -> None:
        nonlocal done
        done += 1
        report(Progress("measuring", done, total))

    if modes := unmeasured(order):
        # One simulator process: it works while the policy waits, and may crash without taking the cell with it.
        evaluation.evaluate(
            order.out, task, episodes=order.episodes, modes=modes, workers=1, on_start=started, on_episode=measured
        )


def speed(dataset: data.Dataset, order: Order, config: Any) -> float:
    """Updates per second once compiled."""
    module = algos.get(order.method)
    learned = module.prepare(dataset, config)
    spec = Spec.of(learned)
    states = training.init_states(module, spec, config, order.seeds)
    table = jax.device_put(getattr(module, "table", base.table)(learned, config))
    chunk, seeds, length = training.make_chunk(module, spec, config), jnp.asarray(order.seeds), 2
    states, _ = chunk(states, seeds, table, jnp.asarray(0), length=length)
    jax.block_until_ready(states)
    began, updates = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < SECONDS_MEASURED:
        states, _ = chunk(states, seeds, table, jnp.asarray(updates), length=length)
        jax.block_until_ready(states)
        updates += length
    return updates / elapsed


def _memory() -> int:
    """Peak resident size; the system counts it in kilobytes, except on a Mac."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    end_with_parent()
    try:
        run(Order(**json.loads(sys.argv[1])), lambda progress: print(json.dumps(progress._asdict()), flush=True))
    except (UserError, OSError, KeyboardInterrupt) as error:
        print(f"{error or 'stopped'}", file=sys.stderr)
        sys.exit(1)


def command(order: Order) -> list[str]:
    return [sys.executable, "-m", "lspc.bench.cell", json.dumps(asdict(order))]


if __name__ == "__main__":
    main()
