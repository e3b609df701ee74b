"""The loop: data on the device, chunks of updates in one compiled call, everything else at chunk borders.

A run is a folder. A run that was killed goes on from its last checkpoint and ends bit for bit where an uninterrupted
one ends. The loop trains a list of runs, mostly of one; those of a sweep (sweep.py) share what they can.
"""

import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lspc import algos, checkpoints, files, lanes, policy
from lspc.algos import base
from lspc.algos.base import Method, Policy, Spec
from lspc.data import Bounds, Dataset, cost_warning
from lspc.errors import UserError
from lspc.runs import layout, record
from lspc.runs.record import Record
from lspc.runs.run import Run
from lspc.tasks import Task
from lspc.training import devices, health, tracking
from lspc.training.chunk import CHUNK, SweepMethod, init_states, make_chunk, make_source
from lspc.training.settings import Resolved

CHECKPOINTS_KEPT = 2
LARGEST_DRAW = 2.0
"""How far a policy's draw may lie outside [-1, 1] to pass for one that the simulator clipped."""


class Interrupted(KeyboardInterrupt):
    """The user (or the scheduler) asked the run to stop; everything is saved and the message says how to go on."""


class Progress(NamedTuple):
    step: int
    total: int
    metrics: dict[str, float]
    """Means over the last chunk and over the seeds."""
    updates_per_second: float
    alarms: tuple[str, ...] = ()
    """What shows that the policy will not know what it does; each is told once."""


class Interim(NamedTuple):
    """Measuring a run while it is trained, into its curve.jsonl."""

    every: int
    """Updates between measurements, rounded up to the end of a chunk."""
    measure: Callable[[Run, Policy, int, int], list[Record]]
    """The records of (run, policy, training seed, updates so far)."""


class _Stop(NamedTuple):
    asked: threading.Event
    begun: threading.Event
    """Whether there is anything new to save."""


class _Planned(NamedTuple):
    run: Run
    config: Any


def train(
    dataset: Dataset,
    out: str | Path,
    config: Any,
    *,
    method: str = "lspc",
    seeds: Sequence[int] = (0,),
    task: Task | None = None,
    provenance: dict[str, str] | None = None,
    trackers: Sequence[str] = (),
    interim: Interim | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Train `method` on `dataset` in the folder `out`, or go on with the run that is there; returns the folder.

    The folder holds its description, its metrics, the last checkpoints and, at the end, policy/seed-N. `trackers` are
    names from `lspc.training.tracking.TRACKERS`.
    """
    resolved = Resolved(config, provenance or {})
    train_runs(
        dataset, {Path(out): resolved}, method=method, seeds=seeds, task=task, trackers=trackers, interim=interim,
        on_progress=on_progress,
    )  # fmt: skip
    return Path(out)


def train_runs(
    dataset: Dataset,
    settings: Mapping[Path, Resolved],
    *,
    method: str,
    seeds: Sequence[int],
    task: Task | None,
    trackers: Sequence[str],
    interim: Interim | None,
    on_progress: Callable[[Progress], None] | None,
    hold_out: float = 0.0,
) -> None:
    """Train one run in each folder, all in one program; those that are finished already are left alone."""
    tracking.make_trackers(trackers)  # one that cannot be used is told before any folder is made
    if on_progress is None and (warning := cost_warning(dataset.costs)):  # the command line has shown it already
        warnings.warn(f"{dataset.source}: {warning}", stacklevel=2)
    module = algos.get(method)
    planned, learned = plan_runs(dataset, settings, method=method, seeds=seeds, task=task, hold_out=hold_out)
    with ExitStack() as stack:
        for run, _ in planned:
            stack.enter_context(files.locked(run.path))
            run.claim()
        if unfinished := [plan for plan in planned if not plan.run.is_finished()]:
            for run, _ in unfinished:
                devices.remember_threads(run.path, len(seeds))
            states = _train(module, learned.scale_actions(), unfinished, trackers, interim, on_progress)
            for (run, _), state in zip(unfinished, states, strict=True):
                _save_policies(module, run, state)


def plan_runs(
    dataset: Dataset,
    settings: Mapping[Path, Resolved],
    *,
    method: str,
    seeds: Sequence[int],
    task: Task | None,
    hold_out: float = 0.0,
) -> tuple[list[_Planned], Dataset]:
    """The runs that training would make, and the data they learn from; what cannot be trained is refused here."""
    dataset = fit_to_task(dataset, task)
    held = dataset.hold_out(hold_out)
    shown = dataset.select(np.setdiff1d(np.arange(len(dataset.episodes)), held)) if len(held) else dataset
    planned, learned = [], shown
    for out, (config, provenance) in settings.items():
        _check_request(dataset, config, seeds, task)
        learned = algos.get(method).prepare(shown, config)
        run = Run.plan(
            out, dataset, learned, config, method=method, seeds=seeds, task=task, provenance=provenance,
            held_out=hold_out,
        )  # fmt: skip
        planned.append(_Planned(run, config))
    return planned, learned


def fit_to_task(dataset: Dataset, task: Task | None) -> Dataset:
    """The data with the bounds of the task's actions, [-1, 1].

    Its simulator clips, so a file may hold what a policy drew before that; other units are refused.
    """
    if task is None or dataset.action_bounds.are_unit:
        return dataset
    return dataset.bound_actions(Bounds(), slack=LARGEST_DRAW)


def _train(module: Method, learned: Dataset, planned: Sequence[_Planned], trackers: Sequence[str],
           interim: Interim | None, on_progress: Callable[[Progress], None] | None) -> tuple[Any, ...]:  # fmt: skip
    """From the last checkpoint to the last update; returns each run's states, stacked by seed."""
    runs, configs = zip(*planned, strict=True)
    spec, seeds, total = Spec.of(learned), runs[0].seeds, configs[0].steps
    method = SweepMethod(module)
    chunk = make_chunk(method, spec, configs)
    states, step = _restore(planned, lambda config: init_states(module, spec, config, seeds))
    source = make_source(method, getattr(module, "table", base.table)(learned, configs[0]), spec, configs, seeds)
    # The states too: what a chunk returns lies where its table does, and for states elsewhere it is compiled again.
    states, table = lanes.replicate((states, source.resident), len(seeds))
    told: set[str] = set()
    with _stop_requests() as stop, _open_logs(runs, trackers, step) as logs:
        while step < total:
            # Up to a multiple of CHUNK: a run that was extended has the borders it would have had at once.
            length, began = min(CHUNK - step % CHUNK, total - step), time.perf_counter()
            drawn = source.ask(step, total)
            states, on_device = chunk(
                states, jnp.asarray(seeds), table, jnp.asarray(step), length=length, drawn=drawn
            )
            metrics = [{name: np.asarray(values).tolist() for name, values in each.items()} for each in on_device]
            stop.begun.set()
            speed = length / (time.perf_counter() - began)
            step += length
            for run, config, state, values in zip(runs, configs, states, metrics, strict=True):
                _stop_if_diverged(run, state, values, module.metric_bounds(spec, config), step)
            for run, state, values, log in zip(runs, states, metrics, logs, strict=True):
                log(_lines(values, step, seeds))
                if interim and (step // interim.every > (step - length) // interim.every or step == total):
                    _measure(interim, module, run, state, step)
                _save(run, state, step)
            found = _find_alarms(planned, metrics, module, spec, step, is_last=step == total)
            alarms = tuple(alarm for alarm in found if alarm not in told)
            told.update(alarms)
            if on_progress:
                means = {name: float(np.mean(values)) for name, values in metrics[0].items()}
                on_progress(Progress(step, total, means, speed, alarms))
            else:
                for alarm in alarms:
                    warnings.warn(alarm, stacklevel=2)
            if stop.asked.is_set() and step < total:
                raise Interrupted(
                    f"stopped at update {step} of {total}, all saved; run the same command again to continue"
                )
    return states


def _find_alarms(
    planned: Sequence[_Planned],
    metrics: Sequence[dict[str, list[float]]],
    module: Method,
    spec: Spec,
    step: int,
    *,
    is_last: bool,
) -> Iterator[str]:
    """Parts that know nothing, although they had the time and the data to learn something."""
    if step < health.OLD_ENOUGH:
        return
    for (run, config), values in zip(planned, metrics, strict=True):
        for alarm in health.find_dead_critics(values, module.metric_bounds(spec, config), spec, run.seeds):
            yield f"{run.path.name}, {alarm}; do not trust this policy: train another seed"
        for alarm in health.find_weak_signals(values, run.seeds) if is_last else ():
            yield f"{run.path.name}, {alarm}: the critics cannot tell which action is better"
        for alarm in health.find_ignored_latents(values, run.seeds) if is_last else ():
            yield f"{run.path.name}, {alarm}; try --zero-share 0.25"


def _lines(metrics: dict[str, list[float]], step: int, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One line of metrics per seed."""
    return [
        {"step": step, "seed": seed, **{name: values[i] for name, values in metrics.items()}}
        for i, seed in enumerate(seeds)
    ]


def _stop_if_diverged(
    run: Run, states: Any, metrics: dict[str, list[float]], bounds: dict[str, float], step: int
) -> None:
    reason = health.find_divergence(metrics, bounds, run.seeds) or health.find_broken_weights(states)
    if reason:
        raise UserError(health.explain_divergence(reason, step, run.checkpoint_paths()))


def _measure(interim: Interim, module: Method, run: Run, states: Any, step: int) -> None:
    for seed, state in _split_seeds(states, run.seeds):
        if records := interim.measure(run, module.policy(state), seed, step):
            record.append(run.path / layout.CURVE, records)


def _save_policies(module: Method, run: Run, states: Any) -> None:
    for seed, state in _split_seeds(states, run.seeds):
        card = {**run.describe(), "training_seed": seed}
        policy.save(layout.policy_folder(run.path, seed), module.policy(state), card)


def _split_seeds(states: Any, seeds: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Each seed's state, on the default device whichever one it was trained on."""
    gathered = jax.tree.map(np.asarray, states)
    for i, seed in enumerate(seeds):
        yield seed, jax.tree.map(lambda leaf, i=i: jax.device_put(leaf[i]), gathered)


@contextmanager
def _open_logs(runs: Sequence[Run], trackers: Sequence[str], step: int) -> Generator[list[tracking.Log]]:
    with ExitStack() as stack:
        yield [stack.enter_context(tracking.open_trackers(trackers, run.path, run.describe(), step)) for run in runs]


@contextmanager
def _stop_requests() -> Generator[_Stop]:
    """Ctrl-C or SIGTERM asks the loop to stop at the next chunk border; a second one stops at once.

    So does the first as long as there is nothing to save, while JAX compiles, if somebody has set what Ctrl-C does:
    an exception would be swallowed there, or crash.
    """
    stop = _Stop(threading.Event(), threading.Event())

    def ask(number: int, frame: Any) -> None:
        own, hasty = before[number], stop.asked.is_set() or not stop.begun.is_set()
        if hasty and callable(own) and own is not signal.default_int_handler:
            own(number, frame)
        elif stop.asked.is_set():
            raise Interrupted("stopped at once; run the same command again to continue from the last checkpoint")
        else:
            stop.asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: dict[int, Any] = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_request(dataset: Dataset, config: Any, seeds: Sequence[int], task: Task | None) -> None:
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= 2**31:
        raise UserError(f"seeds {list(seeds)}: give one or more different whole numbers from 0 to 2**31 - 1")
    for name in ("steps", "batch_size"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} is {getattr(config, name)}; it must be 1 or more")
    sizes = dataset.observation_dim, dataset.action_dim
    if task and sizes != (task.observation_dim, task.action_dim):
        raise UserError(
            f"{dataset.source}: observations and actions of size {sizes[0]} and {sizes[1]}, but {task.name} has "
            f"{task.observation_dim} and {task.action_dim}; is it the data of another task?"
        )


def _save(run: Run, states: Any, step: int) -> None:
    checkpoints.write(layout.checkpoint_path(run.path, step), states, {"step": step})
    for old in run.checkpoint_paths()[:-CHECKPOINTS_KEPT]:
        old.unlink()


def _restore(planned: Sequence[_Planned], make: Callable[[Any], Any]) -> tuple[tuple[Any, ...], int]:
    """The newest sound checkpoints that all runs have, with everything later removed; new states if there are none.

    A damaged one is told and passed over: the one before it is seconds of work away.
    """
    found = [{step: path for path in run.checkpoint_paths() if (step := _read_step(path))} for run, _ in planned]
    for step in sorted(set.intersection(*(set(paths) for paths in found)), reverse=True):
        try:
            states = tuple(
                checkpoints.read(paths[step], eqx.filter_eval_shape(lambda config=config: make(config)))
                for (_, config), paths in zip(planned, found, strict=True)
            )
        except UserError as error:
            if any(earlier < step for paths in found for earlier in paths):
                warnings.warn(f"{error}; continuing from the checkpoint before it", stacklevel=2)
                continue
            raise
        break
    else:
        step, states = 0, tuple(make(config) for _, config in planned)
    for (run, _), paths in zip(planned, found, strict=True):
        for path in (path for later, path in paths.items() if later > step):
            path.unlink()
        curve = run.path / layout.CURVE
        if curve.exists():
            record.write(curve, [each for each in run.records(layout.CURVE) if each.updates <= step])
    return states, step


def _read_step(path: Path) -> int | None:
    """How many updates a checkpoint is of; none, and a warning, if it is damaged."""
    try:
        step = checkpoints.read_facts(path).get("step")
        if isinstance(step, int) and path == layout.checkpoint_path(path.parent, step):
            return step
        warnings.warn(f"{path}: damaged, it claims to be of update {step}; passed over", stacklevel=2)
    except UserError as error:
        warnings.warn(f"{error}; passed over", stacklevel=2)
    return None
