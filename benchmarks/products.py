"""The matrix products that an update is made of, each beside the best product of two large matrices; one thread.

    python benchmarks/products.py --json results/products.json

XLA's and NumPy's (OpenBLAS) are timed in turn, in processor time, and the best of some turns counts.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lspc import algos, files
from lspc.version import __version__

LARGE = 1024
TURNS = 8
OPERATIONS = 4e8
"""Of one timed turn, so that starting a product takes a small part of it."""
KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "forward": lambda x, weight: x @ weight,
    "gradient of the input": lambda back, weight: back @ weight.T,
    "gradient of the weights": lambda x, back: x.T @ back,
}


def measure(kind: str, batch: int, width: int) -> dict[str, float]:
    """Billions of operations per second, by XLA and by NumPy."""
    rng = np.random.default_rng(0)
    second = (batch, width) if kind == "gradient of the weights" else (width, width)
    factors = [rng.standard_normal(shape, np.float32) for shape in ((batch, width), second)]
    on_device, compiled = [jnp.asarray(factor) for factor in factors], jax.jit(KINDS[kind])
    ways: dict[str, Callable[[], Any]] = {
        "xla": lambda: compiled(*on_device).block_until_ready(),
        "numpy": lambda: KINDS[kind](*factors),
    }
    operations = 2 * batch * width * width
    repeats = max(1, round(OPERATIONS / operations))
    best = dict.fromkeys(ways, np.inf)
    for _ in range(TURNS):
        for name, way in ways.items():
            way()
            began = time.process_time()
            for _ in range(repeats):
                way()
            best[name] = min(best[name], time.process_time() - began)
    return {name: repeats * operations / 1e9 / seconds for name, seconds in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    limit = max(measure("forward", LARGE, LARGE).values())
    width = algos.get("lspc").Config().hidden[0]
    found = {
        f"batch {batch}, {kind}": {
            name: round(speed / limit, 3) for name, speed in measure(kind, batch, width).items()
        }
        for batch in (1024, 256)
        for kind in KINDS
    }
    record = {
        "lspc_version": __version__, "command": "python benchmarks/products.py --json results/products.json",
        "width": width, "limit_gflops": round(limit, 1), "share_of_the_limit": found,
    }  # fmt: skip
    print(json.dumps(record, indent=2))
    if chosen.json:
        files.write_json(chosen.json, record)


if __name__ == "__main__":
    main()
