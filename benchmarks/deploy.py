"""Microseconds for one action where the robot is: onnxruntime beside JAX and plain NumPy, measured in one run.

    python benchmarks/deploy.py            (--json FILE keeps the figures)

Batch 1, one thread, LSPC-O's deterministic action, networks of the default size (256 x 256, latent 32), observations
and actions of BallCircle (8 and 2). All ways take turns in small rounds, so that other jobs slow them alike.
"""

import os

# Before JAX and NumPy start their threads.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import shlex
import sys
import time
from collections.abc import Callable

import jax
import numpy as np
import onnxruntime

from lspc import algos, files
from lspc.algos.base import Spec
from lspc.algos.lspc import LspcPolicy
from lspc.deploy import onnx_policies
from lspc.nets import MLP
from lspc.policy import TrainedPolicy
from lspc.tasks import get_task
from lspc.training.settings import resolve
from lspc.version import __version__

ROUND = 200
"""Calls of one way before the next has its turn."""
Act = Callable[[np.ndarray], np.ndarray]


def untrained() -> LspcPolicy:
    task, method = get_task("BallCircle"), algos.get("lspc")
    o = task.observation_dim
    spec = Spec(o, task.action_dim, (0.1,) * o, (2.0,) * o, 0.0, 1.0, 1.0, 1.0, task.episode_length)
    policy = method.policy(method.init(jax.random.key(0), spec, resolve(method, "default", task).config))
    assert isinstance(policy, LspcPolicy)
    return policy


def session(policy: LspcPolicy, *, fixed: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    content = onnx_policies.build(policy, fixed=fixed, facts={}).SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def by_onnxruntime(policy: LspcPolicy, *, eps: bool, fixed: bool, judge: bool = False) -> Act:
    opened = session(policy, fixed=fixed)
    wanted = ["action", "cost"] if judge else ["action"]
    more = {"eps": np.array([float(policy.restriction)], np.float32)} if eps else {}
    more |= {"judge": np.array(True)} if judge else {}
    return lambda observation: opened.run(wanted, {"observation": observation[None], **more})[0][0]  # pyrefly: ignore [bad-index]


def by_numpy(policy: LspcPolicy) -> Act:
    """The two networks of LSPC-O written out, weights as NumPy has them fastest."""
    assert policy.config.restriction_range is not None

    def weights(net: MLP) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(np.ascontiguousarray(layer.weight), np.asarray(layer.bias)) for layer in net.layers]

    def run(layers: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
        for weight, bias in layers[:-1]:
            x = np.maximum(x @ weight + bias, 0.0)
        return x @ layers[-1][0] + layers[-1][1]

    encoder, decoder = weights(policy.encoder), weights(policy.decoder)
    mean, std = np.asarray(policy.normaliser.mean), np.asarray(policy.normaliser.std)
    eps, size = np.float32(policy.restriction), policy.config.latent_dim
    box = max(eps, np.float32(policy.config.smallest_box))
    told = np.array([2.0 * eps / policy.config.restriction_range[1] - 1.0], np.float32)

    def act(observation: np.ndarray) -> np.ndarray:
        seen = (observation - mean) / std
        latent = box * np.tanh(run(encoder, np.concatenate([seen, told]))[:size])
        return np.tanh(run(decoder, np.concatenate([seen, latent])))

    return act


def by_policy(policy: LspcPolicy) -> Act:
    """`policy.act`, checks included."""
    size = policy.normaliser.mean.shape[0]
    return TrainedPolicy(policy, "LSPC-O", {"spec": {"observation_dim": size}}).act


def by_jax(policy: LspcPolicy) -> Act:
    """The program that `policy.act` uses for batches, with a batch of one."""
    act = by_policy(policy)
    return lambda observation: act(observation[None])[0]


def measure(ways: dict[str, Act], observations: np.ndarray, rounds: int) -> dict[str, dict[str, float]]:
    """Median and best of single calls, in microseconds."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for act in ways.values():
        for observation in observations[:50]:
            act(observation)
    for _ in range(rounds):
        for name, act in ways.items():
            for observation in observations:
                began = time.perf_counter()
                act(observation)
                times[name].append(time.perf_counter() - began)
    return {
        name: {"median": 1e6 * float(np.median(taken)), "best": 1e6 * min(taken)} for name, taken in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=50, help=f"rounds of {ROUND} calls of each way")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()

    policy = untrained()
    ways = {
        "onnxruntime, eps fixed": by_onnxruntime(policy, eps=False, fixed=True),
        "onnxruntime, eps given": by_onnxruntime(policy, eps=True, fixed=False),
        "onnxruntime, eps given, with Q": by_onnxruntime(policy, eps=True, fixed=False, judge=True),
        "NumPy": by_numpy(policy),
        "policy.act": by_policy(policy),
        "policy.act, a batch of one": by_jax(policy),
    }
    size = policy.normaliser.mean.shape[0]
    observations = np.random.default_rng(0).standard_normal((ROUND, size), dtype=np.float32)
    wanted = ways["policy.act, a batch of one"](observations[0])
    for name, act in ways.items():
        np.testing.assert_allclose(act(observations[0]), wanted, atol=1e-5, err_msg=name)

    figures = measure(ways, observations, options.rounds)
    print(f"{'microseconds per action':<32} {'median':>8} {'best':>8}")
    for name, found in figures.items():
        print(f"{name:<32} {found['median']:8.1f} {found['best']:8.1f}")
    if options.json:
        command = shlex.join(["python", *sys.argv])
        files.write_json(options.json, {"lspc_version": __version__, "command": command, **figures})


if __name__ == "__main__":
    main()
