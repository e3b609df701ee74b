"""One cell of the grid, carried out: train its run (or go on with it), then measure it.

`run` is all that an executor needs. Started as `python -m lspc.bench.cell JOB` it is a worker process: progress
goes to standard output, one JSON line each, and the process ends when its standard input closes: whoever started it
is then gone. Nothing is lost by that but the updates since the last checkpoint.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lspc import algos, data, evaluation, training
from lspc.algos import base
from lspc.algos.base import Spec
from lspc.bench.grid import Job, list_missing_modes
from lspc.errors import UserError
from lspc.runs.run import build_config
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
    alarms: Sequence[str] = ()
    """What training warns of now and has not said before."""


Report = Callable[[Progress], None]


def run(job: Job, report: Report, data_file: str | None = None) -> None:
    """Do what is missing of the cell; each part is kept as soon as it is finished.

    `data_file` is where this machine has the data, if not where the run will say that they are.
    """
    dataset = replace(data.load(data_file or job.data), source=job.data)
    if dataset.fingerprint != job.dataset:
        raise UserError(f"{job.data} has changed since the bench was planned")
    config, task = build_config(job.method, job.config, f"the plan of {job.name}"), get_task(job.task)
    if job.only_measure:
        report(Progress("measured", 1, 1, measure_speed(dataset, job, config), _memory()))
        return
    chunks = 0

    def on_progress(now: training.Progress) -> None:
        nonlocal chunks
        chunks += 1  # the first one is mostly compilation
        rate = now.updates_per_second if chunks > 1 else None
        report(Progress("training", now.step, now.total, rate, _memory(), now.alarms))

    training.train(
        dataset, job.out, config, method=job.method, seeds=job.seeds, task=task, provenance=job.provenance,
        on_progress=on_progress,
    )  # fmt: skip
    done = total = 0

    def on_start(_: str, count: int) -> None:
        nonlocal total
        total += count

    def on_episode() -> None:
        nonlocal done
        done += 1
        report(Progress("measuring", done, total))

    if modes := list_missing_modes(job):
        # One simulator process: it works while the policy waits, and may crash without taking the cell with it.
        evaluation.evaluate(
            job.out, task, episodes=job.episodes, modes=modes, workers=1, on_start=on_start, on_episode=on_episode
        )


def measure_speed(dataset: data.Dataset, job: Job, config: Any) -> float:
    """Updates per second once compiled."""
    module = algos.get(job.method)
    learned = module.prepare(dataset, config)
    spec = Spec.of(learned)
    states = training.init_states(module, spec, config, job.seeds)
    source = training.make_source(
        module, getattr(module, "table", base.table)(learned, config), spec, config, job.seeds
    )
    table, drawn = jax.device_put(source.resident), source.ask(0, 0)
    chunk, seeds, length = training.make_chunk(module, spec, config), jnp.asarray(job.seeds), 2
    states, _ = chunk(states, seeds, table, jnp.asarray(0), length=length, drawn=drawn)
    jax.block_until_ready(states)
    began, updates = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < SECONDS_MEASURED:
        states, _ = chunk(states, seeds, table, jnp.asarray(updates), length=length, drawn=drawn)
        jax.block_until_ready(states)
        updates += length
    return updates / elapsed


def _memory() -> int:
    """Peak resident size; the system counts it in kilobytes, except on a Mac."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    end_with_parent()
    try:
        run(Job(**json.loads(sys.argv[1])), lambda progress: print(json.dumps(progress._asdict()), flush=True))
    except (UserError, OSError, KeyboardInterrupt) as error:
        print(f"{error or 'stopped'}", file=sys.stderr)
        sys.exit(1)


def make_command(job: Job) -> list[str]:
    return [sys.executable, "-m", "lspc.bench.cell", json.dumps(asdict(job))]


if __name__ == "__main__":
    main()
