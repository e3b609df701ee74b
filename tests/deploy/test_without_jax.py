"""The example of docs/deploy.md where the robot is: NumPy, onnxruntime, and nothing else that could be imported."""

import re
import subprocess
import sys
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.calibrated import add_calibration, finished_run, observations
from helpers.exported import FEED_FORWARD, leave_run, untrained_policy

from lspc.data import Dataset
from lspc.deploy import onnx_graph, onnx_policies
from lspc.deploy.export import export
from lspc.policy import load_policy

pytestmark = pytest.mark.process
DOCS = Path(__file__).parents[2] / "docs" / "deploy.md"
LOOK = """
import importlib.util
print(*(name for name in ("jax", "equinox", "onnx", "lspc") if importlib.util.find_spec(name)))
try:
    import jax
except ModuleNotFoundError:
    print("no jax")
"""
DRIVE = """
seen = np.load("observations.npy")
np.save("actions.npy", np.stack([act(row, *EPS) for row in seen]))
try:
    act(np.full_like(seen[0], np.nan))
except ValueError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def run(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = finished_run(dataset, tmp_path_factory.mktemp("runs") / "tiny")
    add_calibration(out, dataset)
    return out


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages as `pip install onnxruntime` would leave it."""
    folder = tmp_path_factory.mktemp("bare")
    declared = [re.split(r"[^\w.-]", line)[0] for line in requires("onnxruntime") or [] if "extra" not in line]
    for name in ("numpy", "onnxruntime", *({"protobuf": "google"}.get(name, name) for name in declared)):
        found = find_spec(name)
        places = list(found.submodule_search_locations or []) if found else []
        if places and not (folder / name).exists():
            (folder / name).symlink_to(places[0])
            libraries = Path(places[0]).with_name(f"{name}.libs")
            if libraries.exists():
                (folder / libraries.name).symlink_to(libraries)
    return folder


def example() -> str:
    section = DOCS.read_text().partition("\n## Without JAX\n")[2]
    return section.partition("```python\n")[2].partition("```")[0]


def drive(code: str, bare: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """Run code in `place` with the standard library and the bare folder to import from."""
    (place / "program.py").write_text(f"import sys\nsys.path.append({str(bare)!r})\n{code}")
    command = [sys.executable, "-I", "-S", "-W", "error", "program.py"]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)


def test_there_is_nothing_but_numpy_and_onnxruntime(bare: Path, tmp_path: Path) -> None:
    done = drive(LOOK, bare, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["", "no jax", ""]


@pytest.mark.parametrize(("budget", "eps"), [(None, None), (None, 0.25), (12.0, None)])
def test_the_example_acts_as_the_jax_policy_does(
    run: Path, bare: Path, dataset: Dataset, tmp_path: Path, budget: float | None, eps: float | None
) -> None:
    export(run, tmp_path / "policy.onnx", budget=budget)
    seen = observations(200, dataset)
    np.save(tmp_path / "observations.npy", seen)
    given = () if eps is None else (eps,)
    done = drive(f"{example()}\nEPS = {given}\n{DRIVE}", bare, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # the example silences what onnxruntime says about optional inputs
    assert "refusing to act" in done.stdout
    wanted = load_policy(run, restriction=eps).act(seen, budget=budget)
    np.testing.assert_allclose(np.load(tmp_path / "actions.npy"), wanted, rtol=0, atol=1e-5)


def test_the_example_says_when_eps_is_fixed(run: Path, bare: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "policy.onnx", budget=12.0)
    done = drive(f"{example()}\nact(np.zeros(7), eps=2.0)", bare, tmp_path)
    assert "this file's eps is fixed" in done.stderr


def test_the_example_acts_for_every_method(bare: Path, dataset: Dataset, tmp_path: Path) -> None:
    """One program for all: in each method's folder the example opens policy.onnx and acts."""
    seen, runs = observations(50, dataset), {}
    for method in FEED_FORWARD:
        runs[method] = leave_run(tmp_path / "runs" / method, method, dataset)
        export(runs[method], tmp_path / method / "policy.onnx")
        np.save(tmp_path / method / "observations.npy", seen)
    each = f"import os\nfor method in {FEED_FORWARD}:\n    os.chdir(method)\n    exec(CODE)\n    os.chdir('..')\n"
    done = drive(f"CODE = {f'{example()}{DRIVE}'.replace('*EPS', '')!r}\n{each}", bare, tmp_path)
    assert done.returncode == 0, done.stderr
    for method, run in runs.items():
        wanted = load_policy(run).act(seen)
        np.testing.assert_allclose(np.load(tmp_path / method / "actions.npy"), wanted, rtol=0, atol=1e-5)


def test_the_docs_name_the_inputs_and_outputs_there_are(dataset: Dataset) -> None:
    text = DOCS.read_text()
    for method in FEED_FORWARD:
        graph = onnx_policies.build(untrained_policy(method, dataset)[0], facts={}).graph
        for tensor in (*graph.input, *graph.output):
            assert f"`{tensor.name}`" in text
    assert f"opset {onnx_graph.OPSET}, IR version {onnx_graph.IR_VERSION}" in text
