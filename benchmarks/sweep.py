"""What a sweep costs beside one run of LSPC's default preset on the bundled data, as ratios measured in one process.

    python benchmarks/sweep.py --json results/sweep.json

`eps as input` is the default encoder, trained for every eps at once; the others train k settings together, with the
critics (and for eps and zeta the CVAE) learned once. The fastest of the alternating chunks of each counts.
"""

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from lspc import data, files, training
from lspc.algos import base, lspc
from lspc.algos.base import Spec
from lspc.training.chunk import SweepMethod
from lspc.version import __version__

LENGTH = 25
FIXED = replace(lspc.Config(), restriction_range=None, cost_share=None, reward_share=None)
EIGHT = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
SWEEPS: dict[str, tuple[lspc.Config, ...]] = {
    "one run": (FIXED,),
    "every eps as input": (replace(FIXED, restriction_range=(0.02, 2.0)),),
    "8 fixed eps": tuple(replace(FIXED, restriction=eps) for eps in EIGHT),
    "3 zetas": tuple(replace(FIXED, reward_temperature=zeta) for zeta in (1.0, 2.0, 4.0)),
    "3 lambdas": tuple(replace(FIXED, cost_temperature=value) for value in (1.0, 2.0, 4.0)),
    "8 lambdas": tuple(replace(FIXED, cost_temperature=value / 2) for value in range(1, 9)),
}


def chunk_of(configs: tuple[lspc.Config, ...], spec: Spec, table: Any) -> Callable[[], None]:
    method = SweepMethod(lspc)
    chunk = training.make_chunk(method, spec, configs)
    holder = {"states": training.init_states(method, spec, configs, [0])}

    def work() -> None:
        holder["states"], metrics = chunk(holder["states"], jnp.asarray([0]), table, jnp.asarray(0), length=LENGTH)
        jax.block_until_ready(metrics)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=20, help="chunks of each kind")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    dataset = data.load(data.bundled_file())
    spec, table = Spec.of(dataset), jax.device_put(base.table(dataset, FIXED))
    works = {name: chunk_of(configs, spec, table) for name, configs in SWEEPS.items()}
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    for _ in range(options.rounds):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - began)
    figures = {
        name: {"seconds_per_update": best[name] / LENGTH, "ratio": best[name] / best["one run"]} for name in best
    }
    for name, found in figures.items():
        print(f"{name:<22} {1e3 * found['seconds_per_update']:8.2f} ms per update  {found['ratio']:6.2f} x one run")
    if options.json:
        command = shlex.join(["python", *sys.argv])
        files.write_json(options.json, {"lspc_version": __version__, "command": command, **figures})


if __name__ == "__main__":
    main()
