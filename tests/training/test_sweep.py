"""Runs trained together, on several devices and measured on the way: each is what it would be alone."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cli import Cli, contents

from lspc import algos, checkpoints, evaluation, files, training
from lspc.algos import base, lspc
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import load_policy
from lspc.runs import Run, layout, record
from lspc.sims.pool import Pool
from lspc.tasks import get_task
from lspc.training import loop
from lspc.training.settings import Resolved

BASE = lspc.Config(steps=6, batch_size=32, hidden=(8, 8), latent_dim=4)
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "picky": {"reward_share": 0.1},
    "narrow": {"restriction": 0.3, "restriction_range": None, "cost_share": None, "cost_temperature": 4.0},
    "converse": {"roles": "converse"},
}


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHUNK", 3)


def together(dataset: Dataset, folder: Path, names: list[str], **more: Any) -> list[Path]:
    runs = {folder / name: Resolved(replace(BASE, **SETTINGS[name]), {}) for name in names}
    training.train_sweep(dataset, runs, **more)
    return list(runs)


def weights(run: Path, seed: int) -> dict[str, np.ndarray]:
    return {
        name: np.asarray(leaf) for name, leaf in checkpoints.arrays_by_path(load_policy(run, seed=seed).net).items()
    }


@pytest.mark.slow
def test_together_is_the_same_as_alone(dataset: Dataset, tmp_path: Path) -> None:
    for run in together(dataset, tmp_path, ["plain", "narrow", "converse"], seeds=(4,)):
        config = replace(BASE, **SETTINGS[run.name])
        alone = training.train(dataset, tmp_path / "alone" / run.name, config, seeds=(4,))
        assert Run.open(run).describe() == Run.open(alone).describe()
        ours, theirs = weights(run, 4), weights(alone, 4)
        assert ours.keys() == theirs.keys()
        for name, values in ours.items():
            np.testing.assert_allclose(values, theirs[name], rtol=1e-4, atol=1e-6, err_msg=name)
        rows, expected = (files.read_jsonl(folder / "metrics.jsonl") for folder in (run, alone))
        assert [(row["step"], row["seed"]) for row in rows] == [(3, 4), (6, 4)]
        for row, other in zip(rows, expected, strict=True):
            assert row == pytest.approx(other, rel=1e-3, abs=1e-5)


@pytest.mark.slow
def test_critics_are_learned_once_and_the_cvae_where_it_can_be() -> None:
    """Counted in operations: eight eps with an encoder each, or three lambdas with a CVAE each too."""
    spec = base.Spec(8, 2, (0.0,) * 8, (1.0,) * 8, 0.0, 1.0, 1.0, 1.0, 200)
    batch = base.unpack(jnp.zeros((256, 22)), spec)
    single = replace(lspc.Config(), restriction_range=None)

    def operations(*configs: lspc.Config) -> float:
        states = tuple(eqx.filter_eval_shape(lspc.init, jax.random.key(0), spec, config) for config in configs)
        counted = jax.jit(lspc.update_sweep).lower(states, batch, jax.random.key(1)).cost_analysis()
        assert counted is not None
        return counted["flops"]

    one = operations(single)
    eps = operations(*(replace(single, restriction=0.1 * (i + 1)) for i in range(8)))
    assert eps < 2.6 * one
    fixed = replace(single, cost_share=None)
    lambdas = operations(*(replace(fixed, cost_temperature=value) for value in (1.0, 2.0, 4.0)))
    assert eps < lambdas * 1.6
    assert 1.3 * one < lambdas < 1.8 * one


@pytest.mark.slow
def test_a_killed_sweep_goes_on_and_a_later_value_runs_alone(dataset: Dataset, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(now: training.Progress) -> None:
        raise Killed

    names = ["picky", "plain"]
    together(dataset, tmp_path / "whole", names)
    with pytest.raises(Killed):
        together(dataset, tmp_path / "parts", names, on_progress=kill)
    newest = layout.checkpoint_paths(tmp_path / "parts" / "picky")[-1]
    newest.unlink()  # as if killed between the two runs' checkpoints
    together(dataset, tmp_path / "parts", names)
    for name in names:
        assert contents(tmp_path / "parts" / name) == contents(tmp_path / "whole" / name)
    before = contents(tmp_path / "parts" / "plain")
    seen: list[training.Progress] = []
    together(dataset, tmp_path / "parts", [*names, "narrow"], on_progress=seen.append)
    assert [now.step for now in seen] == [3, 6]
    assert contents(tmp_path / "parts" / "plain") == before
    together(dataset, tmp_path / "parts", [*names, "narrow"], on_progress=kill)


@pytest.mark.parametrize(
    ("method", "change", "told"),
    [
        ("lspc", {"expectile": 0.5}, "of lspc that differ in expectile cannot be trained together"),
        ("bc", {"budget": 40.0}, "of bc that differ in budget cannot be trained together"),
    ],
)
def test_what_cannot_be_shared_is_refused(
    dataset: Dataset, tmp_path: Path, method: str, change: dict[str, Any], told: str
) -> None:
    config = algos.get(method).Config()
    runs = {tmp_path / str(i): Resolved(replace(config, **each), {}) for i, each in enumerate(({}, change))}
    with pytest.raises(UserError, match=told):
        training.train_sweep(dataset, runs, method=method)
    assert not list(tmp_path.iterdir())


@pytest.mark.simulator
def test_measured_on_the_way(dataset: Dataset, tmp_path: Path) -> None:
    """Policies as they are at the time, by the protocol's episodes; cut back with everything else after a kill."""
    task, config = get_task("BallRun"), algos.get("bc").Config(steps=9, batch_size=32, hidden=(8, 8))

    class Killed(Exception):
        pass

    def kill(now: training.Progress) -> None:
        if now.step == 6:
            raise Killed

    with Pool(task, workers=0) as pool:
        interim = training.Interim(5, evaluation.Rollouts(pool, task, 2))
        how: dict[str, Any] = {"method": "bc", "seeds": (0, 1), "task": task, "interim": interim}
        whole = training.train(dataset, tmp_path / "whole", config, **how)
        with pytest.raises(Killed):
            training.train(dataset, tmp_path / "parts", config, **how, on_progress=kill)
        rows = files.read_jsonl(whole / layout.CURVE)
        with (tmp_path / "parts" / layout.CURVE).open("a") as file:
            file.write(json.dumps(rows[-1]) + '\n{"upd')
        parts = training.train(dataset, tmp_path / "parts", config, **how)
    assert [row | {"run": "parts"} for row in rows] == files.read_jsonl(parts / layout.CURVE)
    cells = {(row["updates"], row["training_seed"], row["policy"], row["seed"]) for row in rows}
    first = evaluation.FIRST_EPISODE_SEED
    assert len(rows) == len(cells) == 2 * 2 * 2
    assert {row["updates"] for row in rows} == {6, 9}
    assert {row["seed"] for row in rows} == {first, first + 1}
    assert contents(whole).keys() == contents(parts).keys()
    final = evaluation.evaluate(whole, task, episodes=2, workers=0)
    final = [record.as_json(each) for each in final if each.mode == evaluation.usual_mode(each.policy)]
    last = [row for row in rows if row["updates"] == 9]

    def by_cell(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(records, key=lambda r: (r["training_seed"], r["policy"], r["seed"]))

    assert by_cell(last) == by_cell(final)


ON_TWO = """
import sys
import jax
import numpy as np
from pathlib import Path
from lspc import data, training
from lspc.algos import bc
from lspc.training import loop
dataset, out, steps = data.load(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
config = bc.Config(steps=steps, batch_size=32, hidden=(8, 8))
loop.CHUNK = 2
seen = []
real = loop.make_chunk
def watched(*given):
    chunk = real(*given)
    def call(*arguments, **named):
        seen.append("manual_computation" in chunk.lower(*arguments, **named).as_text())
        return chunk(*arguments, **named)
    return call
loop.make_chunk = watched
training.train(dataset, out, config, method="bc", seeds=(0, 1, 2))
print(len(jax.devices()), all(seen))
"""


@pytest.mark.process
def test_seeds_are_sharded_over_devices(dataset: Dataset, data_file: Path, tmp_path: Path) -> None:
    """Three seeds on two devices: the same three runs as on one."""
    flags = f"--xla_force_host_platform_device_count=2 {os.environ.get('XLA_FLAGS', '')}"
    done = subprocess.run(
        [sys.executable, "-c", ON_TWO, str(data_file), str(tmp_path / "two"), "4"],
        env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "True"]
    config = algos.get("bc").Config(steps=4, batch_size=32, hidden=(8, 8))
    training.train(dataset, tmp_path / "one", config, method="bc", seeds=(0, 1, 2))
    for seed in (0, 1, 2):
        two, one = (weights(tmp_path / name, seed) for name in ("two", "one"))
        for name, values in two.items():
            np.testing.assert_allclose(values, one[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.simulator
@pytest.mark.process
def test_the_command_line_sweeps_and_measures(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    small = ["--steps", "6", "--batch-size", "32", "--hidden", "8", "8", "--latent-dim", "4"]
    arguments = ["train", "--data", data_file, "--task", "BallRun", "--out", out, *small]
    done = cli(*arguments, "--sweep", "reward_share=0.1,0.4", "--evaluate-every", "6", "--evaluate-episodes", "1")
    assert done.returncode == 0, done.stderr
    first, second = (out / f"reward_share={value}" for value in (0.1, 0.4))
    assert f"done; next: lspc evaluate {first} {second}" in done.stderr
    for run, value in ((first, 0.1), (second, 0.4)):
        assert Run.open(run).config == files.as_json(asdict(replace(BASE, reward_share=value)))
        assert Run.open(run).provenance["reward_share"] == "user"
        assert len(files.read_jsonl(run / layout.CURVE)) == 3
    for wrong, told in (
        (["--sweep", "expectil=0.5,0.7"], "unknown setting 'expectil'"),
        (["--evaluate-every", "0"], "must be 1 or more"),
    ):
        failed = cli(*arguments, *wrong)
        assert failed.returncode == 1
        assert told in failed.stderr
        assert "Traceback" not in failed.stderr


def test_what_cannot_be_shared_is_swept_one_by_one(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    small = ["--steps", "4", "--batch-size", "32", "--hidden", "8", "8"]
    done = cli("train", "--algo", "bc", "--data", data_file, "--out", tmp_path, *small, "--sweep", "budget=None,1000")
    assert done.returncode == 0, done.stderr
    opened = [Run.open(tmp_path / f"budget={value}") for value in (None, 1000)]
    assert [each.config["budget"] for each in opened] == [None, 1000.0]
    assert load_policy(tmp_path / "budget=1000").variant == "BC"
