"""The gradient of a layer's weights, x^T g, as XLA computes it by itself and as lspc.nets asks for it, on one thread.

    python benchmarks/products.py --json results/products.json

Both take turns within one run; what counts is processor time.
"""

import os

# Before JAX starts its threads.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lspc import files, nets
from lspc.version import __version__

LAYERS = {"hidden": (256, 256), "first": (10, 256), "decoder's first": (40, 256), "encoder's last": (256, 64)}
"""Inputs and outputs of layers of LSPC's networks on BallCircle."""
REPEATS = 50


def loss(multiply: Callable[[Any, Any], Any], weight: Any, x: Any, gradient: Any) -> Any:
    return jnp.sum(multiply(x, weight) * gradient)


def seconds(function: Callable[..., Any], *arguments: Any) -> float:
    began, found = time.process_time(), None
    for _ in range(REPEATS):
        found = function(*arguments)
    jax.block_until_ready(found)
    return (time.process_time() - began) / REPEATS


def measure(batch: int, rounds: int) -> dict[str, dict[str, float]]:
    rng, found = np.random.default_rng(0), {}
    ways = {"plain": lambda x, weight: x @ weight, "lspc": nets.multiply}
    for name, (inputs, outputs) in LAYERS.items():
        shapes = (inputs, outputs), (batch, inputs), (batch, outputs)
        arrays = [jnp.asarray(rng.standard_normal(shape, np.float32)) for shape in shapes]
        programs = {way: jax.jit(jax.grad(lambda *a, way=way: loss(ways[way], *a))) for way in ways}
        for program in programs.values():
            program(*arrays)
        turns = [[seconds(program, *arrays) for program in programs.values()] for _ in range(rounds)]
        plain, ours = np.median(turns, axis=0) * 1e6
        ratio = float(np.median([before / after for before, after in turns]))
        found[f"{name} layer, {inputs} to {outputs}"] = {
            "plain, microseconds": float(plain), "lspc, microseconds": float(ours), "times as fast": ratio
        }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    figures = measure(options.batch, options.rounds)
    for name, values in figures.items():
        print(f"{name:<40}" + "".join(f"{value:10.3g}" for value in values.values()))
    if options.json:
        command = shlex.join(["python", *sys.argv])
        files.write_json(options.json, {"lspc_version": __version__, "command": command, **figures})


if __name__ == "__main__":
    main()
