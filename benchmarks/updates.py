"""LSPC's updates beside the best large matrix product and beside PyTorch, eager and compiled, all on one thread.

    python benchmarks/updates.py --torch .venv-bench/bin/python --json results/updates.json

All take turns within one run, and what counts is processor time: other programs on the machine disturb it little.
Without `--torch` (an environment with torch==2.13.0 and numpy) the comparison with PyTorch is left out.
"""

import os

# Before JAX and NumPy start their threads.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from work import update_gflop

from lspc import algos, data, files, training
from lspc.algos import base
from lspc.algos.base import Spec
from lspc.tasks import get_task
from lspc.training.settings import resolve
from lspc.version import __version__

LSPC = algos.get("lspc")
CASES = {"paper": ("paper", 1024, 100), "paper, batch 256": ("paper", 256, 250), "default": ("default", 256, 250)}
"""Preset, batch size, and how many updates one turn takes: what a chunk of 250 does only once must not count."""
SIZE, REPEATS = 1024, 20
"""Of the square matrices whose product is the limit, and how many products one turn takes."""


class Ours:
    """Chunks of updates of one seed, as `lspc train` runs them."""

    def __init__(self, preset: str, batch: int) -> None:
        self.dataset = data.load(data.bundled_file())
        self.config = replace(resolve(LSPC, preset, get_task("BallCircle")).config, batch_size=batch)
        self.spec = Spec.of(self.dataset)
        self.chunk = training.make_chunk(LSPC, self.spec, self.config)
        self.rows = jax.device_put(getattr(LSPC, "table", base.table)(self.dataset, self.config))
        self.states = training.init_states(LSPC, self.spec, self.config, [0])

    def run(self, updates: int) -> float:
        began = time.process_time()
        self.states, metrics = self.chunk(
            self.states, jnp.asarray([0]), self.rows, jnp.asarray(0), length=jnp.asarray(updates)
        )
        jax.block_until_ready(metrics)
        return time.process_time() - began


class Torch:
    """The program in torch_lspc.py, in its own environment."""

    def __init__(self, python: str, ours: Ours, folder: Path) -> None:
        config, spec, dataset = ours.config, ours.spec, ours.dataset
        names = ("observations", "actions", "rewards", "costs", "next_observations", "terminated")
        np.savez(folder / "data.npz", **{name: np.asarray(getattr(dataset, name), np.float32) for name in names})  # pyrefly: ignore [bad-argument-type]
        wanted = (
            "batch_size", "hidden", "latent_dim", "learning_rate", "discount", "target_rate", "expectile",
            "cost_temperature", "reward_temperature", "max_weight", "kl_weight", "restriction",
        )  # fmt: skip
        state = LSPC.init(jax.random.key(0), spec, config)
        settings = {name: getattr(config, name) for name in wanted} | {
            "data": str(folder / "data.npz"), "observation_dim": spec.observation_dim, "action_dim": spec.action_dim,
            "reward_largest": float(state.reward_units.largest), "cost_largest": float(state.cost_units.largest),
        }  # fmt: skip
        self.process = subprocess.Popen(
            [python, str(Path(__file__).with_name("torch_lspc.py"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self._say(settings)
        self.folder = folder

    def _say(self, line: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def ask(self, **asked: Any) -> dict[str, Any]:
        self._say(asked)
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def run(self, kind: str, updates: int) -> float:
        return self.ask(kind=kind, updates=updates)["cpu"]

    def check(self, ours: Ours, kind: str) -> float:
        """The largest difference after one update from the same weights, batch and noise."""
        config, key = ours.config, jax.random.key(3)
        state = LSPC.init(jax.random.key(1), ours.spec, config)
        batch = base.draw(ours.rows, jax.random.key(2), ours.spec, config)
        after, _ = LSPC.update(state, batch, key)
        shape = (config.batch_size, config.latent_dim)
        noises = [np.asarray(jax.random.normal(each, shape)) for each in jax.random.split(key, 3)[:2]]
        given = {f"w:{name}": value for name, value in as_torch(state).items()}
        given |= {f"b:{name}": np.asarray(value) for name, value in batch._asdict().items() if name != "truncated"}
        given |= {"n:first": noises[0], "n:second": noises[1]}
        np.savez(self.folder / "given.npz", **given)  # pyrefly: ignore [bad-argument-type]
        self.ask(given=str(self.folder / "given.npz"), kind=kind, answer=str(self.folder / "answer.npz"))
        found, wanted = np.load(self.folder / "answer.npz"), as_torch(after)
        assert set(found) == set(wanted)
        return max(float(np.abs(found[name] - wanted[name]).max()) for name in wanted)


def as_torch(state: Any) -> dict[str, np.ndarray]:
    """The weights under torch_lspc.py's names."""
    nets = {"alpha": state.cvae.net.encoder, "beta": state.cvae.net.decoder, "delta": state.encoder.net}
    for name in ("reward", "cost"):
        critic = getattr(state, name)
        nets |= {f"{name}_v": critic.value.net, f"{name}_q1": critic.q.net[0], f"{name}_q2": critic.q.net[1]}
        nets |= {f"{name}_slow1": critic.target_q[0], f"{name}_slow2": critic.target_q[1]}
    return {
        f"{name}.{2 * place}.{kind}": np.ascontiguousarray(getattr(layer, kind).T)
        for name, net in nets.items()
        for place, layer in enumerate(net.layers)
        for kind in ("weight", "bias")
    }


def matmul_gflops() -> float:
    """By the faster of NumPy and JAX, of products that take long enough to hide how they start."""
    left = np.random.default_rng(0).standard_normal((SIZE, SIZE), dtype=np.float32)
    found = []
    for multiply in (lambda: left @ left, lambda: _product(left).block_until_ready()):
        multiply()
        began = time.process_time()
        for _ in range(REPEATS):
            multiply()
        found.append(REPEATS * 2 * SIZE**3 / 1e9 / (time.process_time() - began))
    return max(found)


@jax.jit
def _product(x: Any) -> Any:
    return x @ x


def measure(case: str, python: str | None, kinds: list[str], rounds: int) -> dict[str, float]:
    preset, batch, updates = CASES[case]
    ours = Ours(preset, batch)
    ways: dict[str, Callable[[int], float]] = {"ours": ours.run}
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        torch = Torch(python, ours, Path(folder)) if python and preset == "paper" else None
        if torch:
            ways |= {kind: lambda n, kind=kind: torch.run(kind, n) for kind in kinds}
            difference = torch.check(ours, "eager")
            assert difference < 2e-3, f"PyTorch's update differs from ours by {difference}: it is another one"
        for run in ways.values():
            run(2)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        limits: list[float] = []
        for _ in range(rounds):
            limits.append(matmul_gflops())
            for name, run in ways.items():
                seconds[name].append(run(updates) / updates)
        if torch:
            torch.process.terminate()
            torch.process.wait()
    gflop = update_gflop(ours.spec, ours.config)
    shares = [gflop / each / limit for each, limit in zip(seconds["ours"], limits, strict=True)]
    figures[f"{case}: updates per second of processor time"] = float(1 / np.median(seconds["ours"]))
    figures[f"{case}: share of the best matrix product"] = float(np.median(shares))
    for name in [name for name in ways if name != "ours"]:
        times = [theirs / mine for theirs, mine in zip(seconds[name], seconds["ours"], strict=True)]
        figures[f"{case}: times PyTorch {name}"] = float(np.median(times))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--torch", help="the python of an environment that has PyTorch")
    parser.add_argument("--kinds", nargs="+", choices=("eager", "compile"), default=["eager", "compile"])
    parser.add_argument("--rounds", type=int, default=15, help="turns of each")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    figures: dict[str, float] = {}
    for case in options.cases:
        figures |= measure(case, options.torch, options.kinds, options.rounds)
    for name, value in figures.items():
        print(f"{name:<60} {value:8.3g}")
    if options.json:
        command = shlex.join(["python", *sys.argv])
        files.write_json(options.json, {"lspc_version": __version__, "command": command, **figures})


if __name__ == "__main__":
    main()
