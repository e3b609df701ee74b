"""Policies of every method to export, untrained, and real onnxruntime to run the files with."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime

from helpers.methods import small
from lspc import algos, policy
from lspc.algos.base import Policy, Spec
from lspc.data import Dataset
from lspc.runs import Run, layout
from lspc.tasks import get_task

FEED_FORWARD = [name for name in algos.METHODS if name != "cdt"]


def shift(dataset: Dataset) -> Dataset:
    """The same data with features of other means and spreads than 0 and 1."""
    scales, means = np.array([0.1, 1, 5, 20, 1, 1, 3]), np.array([1, -2, 30, 0, 0, 4, 0])
    rows, following = (x * scales + means for x in (dataset.observations, dataset.next_observations))
    return replace(dataset, observations=rows, next_observations=following)


def untrained_policy(name: str, dataset: Dataset, *, scale: float = 2.0, **settings: Any) -> tuple[Policy, Any]:
    """A small policy of this method whose actions vary plainly from state to state, and its settings."""
    config = small(algos.get(name), **settings)
    return _scaled_policy(name, Spec.of(dataset), config, scale), config


@cache
def _scaled_policy(name: str, spec: Spec, config: Any, scale: float) -> Policy:
    method = algos.get(name)
    net = method.policy(method.init(jax.random.key(1), spec, config))
    return jax.tree.map(lambda leaf: scale * leaf if leaf.ndim == 2 else leaf, net)


def leave_run(out: Path, name: str, dataset: Dataset, task: str | None = None, **settings: Any) -> Path:
    """A run as training leaves it, as far as export looks at it."""
    net, config = untrained_policy(name, dataset, **settings)
    known = get_task(task) if task else None
    run = Run.plan(out, dataset, dataset, config, method=name, seeds=(0,), task=known, provenance={})
    run.claim()
    policy.save(layout.policy_folder(out, 0), net, {**run.describe(), "training_seed": 0})
    return out


def open_session(model: onnx.ModelProto | Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    content = model if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, names: list[str], inputs: dict[str, Any]) -> list[np.ndarray]:
    return [np.asarray(output) for output in session.run(names, inputs)]
