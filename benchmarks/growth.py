"""How time and memory grow with the data, the networks, the seeds and the tasks: measured points, fitted exponents.

    make growth      (or: python benchmarks/growth.py --json results/growth.json --plot docs/figures/growth.png)

Each point is a process of its own with one thread: LSPC on made-up transitions of BallCircle's sizes. Time is that of
the processor, so other programs disturb it little; memory is the largest the process ever had, less that of one which
trains on next to nothing.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import json
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

AXES: dict[str, tuple[float, ...]] = {
    "rows": (1e4, 1e5, 1e6, 1e7),
    "width": (64, 256, 512),
    "seeds": (1, 2, 4),
    "tasks": (1, 2),
}
USUAL = {"rows": 1e4, "width": 64, "seeds": 1, "tasks": 1}
UPDATES = 20


def make_dataset(rows: int, observation_dim: int, action_dim: int) -> Any:
    from lspc.data import Dataset

    rng, length = np.random.default_rng(0), 200
    ends = np.zeros(rows, bool)
    ends[length - 1 :: length] = True
    ends[-1] = True
    observations = rng.standard_normal((rows, observation_dim), dtype=np.float32)
    return Dataset(
        observations=observations,
        actions=np.tanh(rng.standard_normal((rows, action_dim), dtype=np.float32)),
        rewards=rng.standard_normal(rows, dtype=np.float32),
        costs=(rng.random(rows) < 0.05).astype(np.float32),
        next_observations=observations,  # nobody looks whether they continue
        terminated=np.zeros(rows, bool),
        truncated=ends,
    )


def measure(rows: float, width: float, seeds: float, tasks: float) -> dict[str, float]:
    """In this process: processor seconds of preparing, compiling and updating, and the largest memory in MB."""
    import jax
    import jax.numpy as jnp

    from lspc import algos, training
    from lspc.algos import base
    from lspc.algos.base import Spec

    method, found = algos.get("lspc"), dict.fromkeys(("prepare", "compile", "update"), 0.0)
    config = method.Config(hidden=(int(width), int(width)))
    numbers = jnp.arange(int(seeds))
    for task in range(int(tasks)):
        dataset = make_dataset(int(rows), 8 + task, 2)
        began = time.process_time()
        spec = Spec.of(dataset)
        table = jax.block_until_ready(jax.device_put(getattr(method, "table", base.table)(dataset, config)))
        found["prepare"] += time.process_time() - began
        began = time.process_time()
        states = training.init_states(method, spec, config, range(int(seeds)))
        chunk = training.make_chunk(method, spec, config)
        states, metrics = chunk(states, numbers, table, jnp.asarray(0), length=jnp.asarray(1))
        jax.block_until_ready(metrics)
        found["compile"] += time.process_time() - began
        began = time.process_time()
        _, metrics = chunk(states, numbers, table, jnp.asarray(1), length=jnp.asarray(UPDATES))
        jax.block_until_ready(metrics)
        found["update"] += (time.process_time() - began) / UPDATES
    return {**found, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def in_new_process(**sizes: float) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--measure", json.dumps(sizes)], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def fit_exponent(sizes: list[float], values: list[float]) -> float:
    """x of size^x between the two largest sizes: at small ones constants rule."""
    (a, b), (first, last) = sizes[-2:], np.maximum(values[-2:], 1e-9)
    return float(np.log(last / first) / np.log(b / a))


def draw(points: list[dict[str, Any]], exponents: dict[str, float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    quantities = {"prepare": "preparing the data (s)", "update": "one update (s)", "compile": "compiling (s)",
                  "memory": "memory above the least (MB)"}  # fmt: skip
    figure, axes = pyplot.subplots(1, len(AXES), figsize=(3.4 * len(AXES), 3.4), constrained_layout=True)
    for axis, place in zip(AXES, axes, strict=True):
        for quantity, label in quantities.items():
            along = [point for point in points if point["axis"] == axis]
            x = exponents[f"{quantity} with {axis}"]
            sizes = [point["size"] for point in along]
            place.loglog(sizes, [max(point[quantity], 1e-4) for point in along], "o-", label=f"{label}, x = {x:.2f}")
        place.set_xlabel(axis)
        if axis != "rows":
            place.set_xticks(AXES[axis], [f"{size:g}" for size in AXES[axis]])
            place.minorticks_off()
        place.legend(fontsize=6, frameon=False)
        place.set_ylim(1e-4, 2e4)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--json", help="write the points and exponents to this file")
    parser.add_argument("--plot", type=Path, help="draw them into this file")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(**json.loads(options.measure))))
        return
    least = in_new_process(**{**USUAL, "rows": 1000})["memory"]
    usual = in_new_process(**USUAL)
    points = []
    for axis in options.axes:
        for size in AXES[axis]:
            found = usual if size == USUAL[axis] else in_new_process(**{**USUAL, axis: size})
            points.append({"axis": axis, "size": size, **found, "memory": found["memory"] - least})
            print({name: value if isinstance(value, str) else round(value, 4) for name, value in points[-1].items()})
    exponents = {
        f"{quantity} with {axis}": fit_exponent(
            [point["size"] for point in points if point["axis"] == axis],
            [point[quantity] for point in points if point["axis"] == axis],
        )
        for axis in options.axes
        for quantity in ("prepare", "compile", "update", "memory")
    }
    for name, value in exponents.items():
        print(f"{name:<24} size^{value:.2f}")
    if options.plot:
        draw(points, exponents, options.plot)
    if options.json:
        from lspc import files
        from lspc.version import __version__

        command = shlex.join(["python", *sys.argv])
        kept = {"least_memory_mb": least, "points": points, "exponents": exponents}
        files.write_json(options.json, {"lspc_version": __version__, "command": command, **kept})


if __name__ == "__main__":
    main()
