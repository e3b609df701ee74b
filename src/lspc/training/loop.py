"""The loop: data on the device, chunks of updates in one compiled scan, everything else at chunk borders.

A run is a folder. Every random draw is a function of (seed, step), so a run that was killed goes on from its last
checkpoint and ends bit for bit where an uninterrupted one ends. Seeds are shared out among the devices; runs that
differ in a few settings can be trained together, so that what they have in common is computed once.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lspc import algos, checkpoints, files, policy
from lspc.algos import base
from lspc.algos.base import Method, Metrics, Policy, Spec
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.tasks import Task
from lspc.training import devices
from lspc.training.settings import Resolved
from lspc.version import __version__

CHUNK = 250
"""Updates per compiled call: seconds of work, so that Ctrl-C and the progress display feel alive."""
CHECKPOINTS_KEPT = 2


class Interrupted(KeyboardInterrupt):
    """The user (or the scheduler) asked the run to stop; everything is saved and the message says how to go on."""


class Progress(NamedTuple):
    step: int
    total: int
    metrics: dict[str, float]
    """Means over the last chunk and over the seeds."""
    updates_per_second: float


def init_states(method: Method, spec: Spec, config: Any, seeds: Sequence[int]) -> Any:
    """One state per seed, stacked along a new first axis."""
    states = [method.init(jax.random.fold_in(jax.random.key(seed), 0), spec, config) for seed in seeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


@lru_cache(maxsize=8)
def make_chunk(method: Method, spec: Spec, config: Any) -> Callable[..., tuple[Any, Metrics]]:
    """A compiled function that takes every seed `length` updates further and returns each metric's mean per seed.

    It is remembered, so that runs of the same shape in one process compile once.
    """

    draw = getattr(method, "draw", base.draw)

    def one_seed(state: Any, seed: Array, table: Any, start: Array, length: int) -> tuple[Any, Metrics]:
        key = jax.random.fold_in(jax.random.key(seed), 1)

        def one_update(state: Any, step: Array) -> tuple[Any, Metrics]:
            draw_key, update_key = jax.random.split(jax.random.fold_in(key, step))
            return method.update(state, draw(table, draw_key, spec, config), update_key)

        state, metrics = jax.lax.scan(one_update, state, start + jnp.arange(length))
        return state, jax.tree.map(jnp.mean, metrics)

    def chunk(states: Any, seeds: Array, table: Any, start: Array, length: int) -> tuple[Any, Metrics]:
        def all_seeds(states: Any, seeds: Array, table: Any, start: Array) -> tuple[Any, Metrics]:
            def run(state: Any, seed: Array) -> tuple[Any, Metrics]:
                return one_seed(state, seed, table, start, length)

            # One seed after the other keeps a CPU's caches warm; an accelerator has room for all of them at once.
            if jax.default_backend() == "cpu":
                return jax.lax.map(lambda pair: run(*pair), (states, seeds))
            return jax.vmap(run)(states, seeds)

        return devices.shared_out(all_seeds, seeds.size)(states, seeds, table, start)

    return jax.jit(chunk, static_argnames="length", donate_argnums=0)


class Together(NamedTuple):
    """Several settings of one method as a method of its own: its config, state and metrics are tuples of theirs."""

    method: Any

    def init(self, key: Any, spec: Spec, configs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.method.init(key, spec, config) for config in configs)

    def draw(self, table: Any, key: Any, spec: Spec, configs: tuple[Any, ...]) -> Any:
        return getattr(self.method, "draw", base.draw)(table, key, spec, configs[0])

    def update(self, states: tuple[Any, ...], batch: Any, key: Any) -> tuple[tuple[Any, ...], tuple[Metrics, ...]]:
        return self.method.update_sweep(states, batch, key)


class Interim(NamedTuple):
    """Measuring a run while it is trained, into its curve.jsonl."""

    every: int
    """Updates between measurements, rounded up to the end of a chunk."""
    measure: Callable[[Path, dict[str, Any], Policy, int, int], list[dict[str, Any]]]
    """The records of (run, its description, policy, training seed, updates so far)."""


CURVE = "curve.jsonl"


class _Run(NamedTuple):
    out: Path
    config: Any
    description: dict[str, Any]

    def finished(self) -> bool:
        return all((_policy_folder(self.out, seed) / policy.CARD).exists() for seed in self.description["seeds"])


def train(
    dataset: Dataset,
    out: str | Path,
    config: Any,
    *,
    method: str = "lspc",
    seeds: Sequence[int] = (0,),
    task: Task | None = None,
    provenance: dict[str, str] | None = None,
    tensorboard: bool = False,
    interim: Interim | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Train `method` on `dataset` in the folder `out`, or go on with the run that is there; returns the folder.

    The folder holds config.json, metrics.jsonl, the last checkpoints and, at the end, policy/seed-N.
    """
    resolved = Resolved(config, provenance or {})
    train_together(
        dataset, {Path(out): resolved}, method=method, seeds=seeds, task=task, tensorboard=tensorboard,
        interim=interim, on_progress=on_progress,
    )  # fmt: skip
    return Path(out)


def train_together(
    dataset: Dataset,
    runs: Mapping[Path, Resolved],
    *,
    method: str = "lspc",
    seeds: Sequence[int] = (0,),
    task: Task | None = None,
    tensorboard: bool = False,
    interim: Interim | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Train one run for each folder, as if each were alone, in the time of one and a part of the others.

    Their settings may differ only in what the method can share the rest of (its POLICY_SETTINGS).
    """
    module = algos.get(method)
    if name := apart(method, [config for config, _ in runs.values()]):
        raise UserError(f"runs of {method} that differ in {name} cannot be trained together: train them one by one")
    planned, learned, spec = [], dataset, None
    for out, (config, provenance) in runs.items():
        _check_request(dataset, config, seeds, task)
        learned = module.prepare(dataset, config)
        spec = Spec.of(learned)
        planned.append(_Run(out, config, _describe(dataset, learned, config, method, seeds, task, provenance, spec)))
    with ExitStack() as stack:
        for run in planned:
            stack.enter_context(files.locked(run.out))
            _claim(run.out, run.description)
        left = [run for run in planned if not run.finished()]
        if not left or spec is None:
            return
        tracks = [stack.enter_context(_tensorboard(run.out if tensorboard else None)) for run in left]
        states = _train(module, learned, spec, left, tracks, interim, on_progress)
        for run, stacked in zip(left, states, strict=True):
            for seed, state in _by_seed(stacked, seeds):
                policy.save(
                    _policy_folder(run.out, seed), module.policy(state), {**run.description, "training_seed": seed}
                )


def apart(method: str, configs: Sequence[Any]) -> str | None:
    """The first setting whose difference forbids that these runs are trained together."""
    can_differ = getattr(algos.get(method), "POLICY_SETTINGS", ())
    for config in configs[1:]:
        for name, value in asdict(config).items():
            if value != getattr(configs[0], name) and name not in can_differ:
                return name
    return None


def _by_seed(stacked: Any, seeds: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Each seed's state, on the default device whichever one it was trained on."""
    gathered = jax.tree.map(np.asarray, stacked)
    for i, seed in enumerate(seeds):
        yield seed, jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), gathered)


def _train(module: Method, learned: Dataset, spec: Spec, runs: Sequence[_Run], tracks: Sequence["Track"],
           interim: Interim | None, on_progress: Callable[[Progress], None] | None) -> tuple[Any, ...]:  # fmt: skip
    """From the last checkpoint to the last update; returns each run's states, stacked by seed."""
    configs, seeds = tuple(run.config for run in runs), runs[0].description["seeds"]
    alone, total = len(runs) == 1, configs[0].steps
    made = make_chunk(module, spec, configs[0]) if alone else make_chunk(Together(module), spec, configs)

    def chunk(states: tuple[Any, ...], start: int, length: int) -> tuple[Any, Any]:
        """Tuples, one part for each run."""
        given = states[0] if alone else states
        after, metrics = made(given, jnp.asarray(seeds), table, jnp.asarray(start), length=length)
        return ((after,), (metrics,)) if alone else (after, metrics)

    states, step = _restore(runs, lambda config: init_states(module, spec, config, seeds))
    table = getattr(module, "table", base.table)(learned, configs[0])
    table = jax.device_put(table, devices.everywhere(len(seeds)))
    with _stop_requests() as stop:
        while step < total:
            length, began = min(CHUNK, total - step), time.perf_counter()
            states, metrics = chunk(states, step, length)
            found = [{name: np.asarray(values).tolist() for name, values in each.items()} for each in metrics]
            took = time.perf_counter() - began
            step += length
            for run, state, per_seed in zip(runs, states, found, strict=True):
                bounds = module.metric_bounds(spec, run.config)
                if ill := _illness(per_seed, bounds, seeds) or _broken_weights(state):
                    raise UserError(_divergence(ill, run.out, step))
            for run, state, per_seed, track in zip(runs, states, found, tracks, strict=True):
                lines = [
                    {"step": step, "seed": seed, **{name: values[i] for name, values in per_seed.items()}}
                    for i, seed in enumerate(seeds)
                ]
                files.append_jsonl(run.out / "metrics.jsonl", lines)
                track(lines)
                if interim and (step // interim.every > (step - length) // interim.every or step == total):
                    for seed, one in _by_seed(state, seeds):
                        if records := interim.measure(run.out, run.description, module.policy(one), seed, step):
                            files.append_jsonl(run.out / CURVE, records)
                _save(run.out, state, step)
            if on_progress:
                means = {name: float(np.mean(values)) for name, values in found[0].items()}
                on_progress(Progress(step, total, means, length / took))
            if stop.is_set() and step < total:
                raise Interrupted(
                    f"stopped at update {step} of {total}, all saved; run the same command again to go on"
                )
    return states


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


def _describe(dataset: Dataset, learned: Dataset, config: Any, method: str, seeds: Sequence[int], task: Task | None,
              provenance: dict[str, str], spec: Spec) -> dict[str, Any]:  # fmt: skip
    return {
        "lspc_version": __version__,
        "method": method,
        "task": task.name if task else None,
        "seeds": list(seeds),
        "config": asdict(config),
        "provenance": provenance,
        "dataset": {
            "source": dataset.source,
            "fingerprint": dataset.fingerprint,
            "episodes": len(dataset.episodes),
            "episodes_used": len(learned.episodes),
            "transitions_used": learned.transitions,
        },
        "spec": asdict(spec),
    }


def _claim(out: Path, description: dict[str, Any]) -> None:
    """Take a fresh folder, or make sure that the run in it is the same one."""
    path = out / "config.json"
    wanted = files.as_json(description)
    if not path.exists():
        if checkpoint_paths(out):
            raise UserError(f"{out} has checkpoints but no config.json; choose another --out or delete that folder")
        files.write_json(path, wanted)
        return
    there, now = _identity(files.read_json(path)), _identity(wanted)
    for name in {**now, **there}:
        if there.get(name) != now.get(name):
            detail = f"{name} is {there.get(name)} there, {now.get(name)} now"
            raise UserError(f"{out} holds another run ({detail}); choose another --out or delete that folder")


def _identity(description: dict[str, Any]) -> dict[str, Any]:
    """All that decides a run's numbers, flat, so that a difference can be named."""
    data = description.get("dataset", {}).get("fingerprint")
    outer = {"method": description.get("method"), "seeds": description.get("seeds"), "dataset": data}
    return {**outer, **description.get("config", {})}


def checkpoint_paths(out: Path) -> list[Path]:
    return sorted(out.glob("checkpoint-*.safetensors"))


def _save(out: Path, states: Any, step: int) -> None:
    checkpoints.write(out / f"checkpoint-{step:09d}.safetensors", states, {"step": step})
    for old in checkpoint_paths(out)[:-CHECKPOINTS_KEPT]:
        old.unlink()


def _restore(runs: Sequence[_Run], fresh: Callable[[Any], Any]) -> tuple[tuple[Any, ...], int]:
    """The newest checkpoints that all runs have, with everything later removed; fresh states if there are none."""
    paths = [{checkpoints.read_facts(path)["step"]: path for path in checkpoint_paths(run.out)} for run in runs]
    step: int = max(set.intersection(*(set(there) for there in paths)), default=0)
    if step:
        states = [
            checkpoints.read(there[step], eqx.filter_eval_shape(lambda run=run: fresh(run.config)))
            for run, there in zip(runs, paths, strict=True)
        ]
    else:
        states = [fresh(run.config) for run in runs]
    for run, there in zip(runs, paths, strict=True):
        for path in (path for later, path in there.items() if later > step):
            path.unlink()
        for name, count in (("metrics.jsonl", "step"), (CURVE, "updates")):
            if (run.out / name).exists():
                kept = [row for row in files.read_jsonl(run.out / name) if row[count] <= step]
                files.write_jsonl(run.out / name, kept)
    return tuple(states), step


def _illness(metrics: dict[str, list[float]], bounds: dict[str, float], seeds: Sequence[int]) -> str | None:
    """The first metric that shows that training has diverged."""
    for name, values in metrics.items():
        for seed, value in zip(seeds, values, strict=True):
            if not np.isfinite(value):
                return f"{name} of seed {seed} is {value}"
            if abs(value) > bounds.get(name, np.inf):
                return f"{name} of seed {seed} is {value:.3g}, beyond what the data allow ({bounds[name]:.3g})"
    return None


def _broken_weights(states: Any) -> str | None:
    """What the chunk's last update broke, which no metric has seen yet."""
    for name, leaf in checkpoints.named(states).items():
        if not np.isfinite(np.asarray(leaf)).all():
            return f"{name} holds NaN or infinity"
    return None


def _divergence(reason: str, out: Path, step: int) -> str:
    kept = checkpoint_paths(out)
    where = f"the last good checkpoint is {kept[-1]}" if kept else "no checkpoint was written yet"
    return (
        f"training diverged before update {step}: {reason}; {where}. "
        "Try a smaller --learning-rate, or --scale-rewards / --normalise-observations if they are off"
    )


def _policy_folder(out: Path, seed: int) -> Path:
    return out / "policy" / f"seed-{seed}"


@contextmanager
def _stop_requests() -> Iterator[threading.Event]:
    """The first Ctrl-C or SIGTERM asks the loop to stop at the next chunk border; a second one stops at once."""
    stop = threading.Event()

    def ask(number: int, frame: Any) -> None:
        if stop.is_set():
            raise Interrupted("stopped at once; run the same command again to go on from the last checkpoint")
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Track = Callable[[list[dict[str, Any]]], None]
"""Takes one line of metrics per seed."""


@contextmanager
def _tensorboard(folder: Path | None) -> Iterator[Track]:
    """A function that passes metric lines on to TensorBoard, one curve per seed; it does nothing without a folder."""
    if folder is None:
        yield lambda lines: None
        return
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise UserError("tensorboard is not installed: pip install 'lspc[track]'") from error
    writers: dict[int, EventFileWriter] = {}

    def track(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            seed, step = line["seed"], line["step"]
            if seed not in writers:
                writers[seed] = EventFileWriter(str(folder / "tensorboard" / f"seed-{seed}"))
            values = [Summary.Value(tag=k, simple_value=v) for k, v in line.items() if k not in ("step", "seed")]
            writers[seed].add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    try:
        yield track
    finally:
        for writer in writers.values():
            writer.close()
