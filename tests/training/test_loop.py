"""The loop: a run that was killed ends where an uninterrupted one ends, and trouble is told, not hidden."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cli import LSPC, Cli, contents
from helpers.data import small_dataset
from helpers.environment import READ_ONLY

import lspc
from lspc import algos, checkpoints, files, training
from lspc.algos import base
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.runs import Run, layout
from lspc.tasks import get_task
from lspc.training import health, loop
from lspc.training.chunk import SweepMethod

TINY = ["--hidden", "8", "8", "--batch-size", "32", "--seeds", "4"]
# (options, updates): behaviour cloning is quick, so it can be killed often; LSPC has much more to remember.
RUNS = {"bc": (["--algo", "bc", *TINY], 20_000), "lspc": (["--latent-dim", "4", *TINY], 3000)}


Uninterrupted = Callable[[str], dict[str, bytes]]
"""Gives the files of a method's run that nobody disturbed."""


def command(method: str, data_file: Path, out: Path) -> list[str]:
    options, steps = RUNS[method]
    return ["train", "--data", str(data_file), "--out", str(out), "--steps", str(steps), *options]


@pytest.fixture(scope="module")
def uninterrupted(cli: Cli, data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Uninterrupted:
    done: dict[str, dict[str, bytes]] = {}

    def get(method: str) -> dict[str, bytes]:
        if method not in done:
            out = tmp_path_factory.mktemp("uninterrupted") / "run"
            finished = cli(*command(method, data_file, out))
            assert finished.returncode == 0, finished.stderr
            done[method] = contents(out)
        return done[method]

    return get


def start_and_signal(
    arguments: list[str], out: Path, number: signal.Signals, *, awaited: str = "checkpoint-*", delay: float = 0.0
) -> tuple[int, str, list[Path]]:
    """Run the command, wait until one of the awaited files is new in its folder, then send the signal."""
    before = set(out.glob(awaited))
    environment = {**os.environ, **READ_ONLY}
    with subprocess.Popen([*LSPC, *arguments], stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        deadline = time.monotonic() + 120
        while set(out.glob(awaited)) <= before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(delay)
        process.send_signal(number)
        said = process.stderr.read()
    return process.returncode, said, layout.checkpoint_paths(out)


@pytest.mark.process
@pytest.mark.parametrize("method", ["bc", "lspc"])
def test_a_killed_run_ends_bit_for_bit_where_an_uninterrupted_one_ends(
    cli: Cli, data_file: Path, tmp_path: Path, uninterrupted: Uninterrupted, method: str
) -> None:
    expected, out = uninterrupted(method), tmp_path / "run"
    arguments = command(method, data_file, out)
    code, _, left = start_and_signal(arguments, out, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert left
    if method == "bc":
        start_and_signal(arguments, out, signal.SIGKILL, delay=0.02)
    finished = cli(*arguments)
    assert finished.returncode == 0, finished.stderr
    assert contents(out) == expected


@pytest.mark.process
def test_ctrl_c_saves_and_says_how_to_go_on(
    cli: Cli, data_file: Path, tmp_path: Path, uninterrupted: Uninterrupted
) -> None:
    """So does a scheduler's SIGTERM; and a kill before the first checkpoint has lost nothing."""
    out = tmp_path / "run"
    arguments = command("bc", data_file, out)
    code, _, left = start_and_signal(arguments, out, signal.SIGKILL, awaited="config.json")
    assert code == -signal.SIGKILL
    for number in (signal.SIGINT, signal.SIGTERM):
        code, said, left = start_and_signal(arguments, out, number)
        assert code == 130
        assert "Traceback" not in said
        stopped = re.search(
            r"stopped at update (\d+) of \d+, all saved; run the same command again to continue", said
        )
        assert stopped
        assert checkpoints.read_facts(left[-1]) == {"step": int(stopped[1])}
        assert files.read_jsonl(out / "metrics.jsonl")[-1]["step"] == int(stopped[1])
    assert cli(*arguments).returncode == 0
    assert contents(out) == uninterrupted("bc")


def test_ctrl_c_is_whose_it_was_until_there_is_something_to_save_and_the_second_time() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with loop._stop_requests() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert (heard, stop.asked.is_set()) == ([signal.SIGINT], False)
            stop.begun.set()
            os.kill(os.getpid(), signal.SIGINT)
            assert (heard, stop.asked.is_set()) == ([signal.SIGINT], True)
            os.kill(os.getpid(), signal.SIGINT)
            assert heard == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_such_a_one_the_first_only_asks() -> None:
    with loop._stop_requests() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked.is_set()
        with pytest.raises(training.Interrupted, match="stopped at once"):
            os.kill(os.getpid(), signal.SIGINT)


def run(dataset: Dataset, out: Path, method: str = "bc", seeds: tuple[int, ...] = (0,), **settings: Any) -> Path:
    defaults = {"steps": 500, "batch_size": 32, "hidden": (8, 8)}
    extra = {"latent_dim": 4} if method == "lspc" else {}
    config = algos.get(method).Config(**{**defaults, **extra, **settings})
    return training.train(dataset, out, config, method=method, seeds=seeds)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bc", "lspc"])
def test_several_seeds_at_once_are_each_the_same_as_alone(dataset: Dataset, tmp_path: Path, method: str) -> None:
    both = run(dataset, tmp_path / "both", method, seeds=(3, 5))
    alone = run(dataset, tmp_path / "alone", method, seeds=(5,))
    weights = [(folder / "policy" / "seed-5" / "weights.safetensors").read_bytes() for folder in (both, alone)]
    assert weights[0] == weights[1]
    together = files.read_jsonl(both / "metrics.jsonl")
    assert [row for row in together if row["seed"] == 5] == files.read_jsonl(alone / "metrics.jsonl")
    other = (both / "policy" / "seed-3" / "weights.safetensors").read_bytes()
    assert other != weights[0]


def test_the_same_seed_twice_gives_the_same_run(dataset: Dataset, tmp_path: Path) -> None:
    folders = [run(dataset, tmp_path / name / "run", steps=300) for name in ("a", "b")]
    assert contents(folders[0]) == contents(folders[1])


def test_a_run_is_compiled_once(dataset: Dataset, tmp_path: Path) -> None:
    """Here a quick method; helpers/methods.py has the same for each."""
    config = algos.get("bc").Config(steps=750, batch_size=16, hidden=(9, 9))
    training.train(dataset, tmp_path, config, method="bc")
    chunk: Any = training.make_chunk(cast(Any, SweepMethod(algos.get("bc"))), base.Spec.of(dataset), (config,))
    assert chunk._cache_size() == 1


def test_a_run_folder_holds_what_it_should(dataset: Dataset, tmp_path: Path) -> None:
    seen: list[training.Progress] = []
    config = algos.get("bc").Config(steps=600, batch_size=32, hidden=(8, 8))
    out = training.train(dataset, tmp_path, config, method="bc", seeds=(0, 2), on_progress=seen.append)
    assert [path.name for path in layout.checkpoint_paths(out)] == [
        "checkpoint-000000500.safetensors",
        "checkpoint-000000600.safetensors",
    ]
    rows = files.read_jsonl(out / "metrics.jsonl")
    assert [(row["step"], row["seed"]) for row in rows] == [(s, k) for s in (250, 500, 600) for k in (0, 2)]
    assert [now.step for now in seen] == [250, 500, 600]
    assert all(now.total == 600 and now.updates_per_second > 0 for now in seen)
    assert seen[0].metrics["policy/loss"] == pytest.approx(np.mean([row["policy/loss"] for row in rows[:2]]))
    described = Run.open(out)
    assert described.dataset.fingerprint == dataset.fingerprint
    assert described.dataset.transitions_used == dataset.transitions
    assert rows[-1]["policy/loss"] < rows[0]["policy/loss"]


def test_a_batch_is_unpacked_as_it_was_packed(dataset: Dataset) -> None:
    batch = base.unpack(jnp.asarray(base.table(dataset, None)[10:90]), base.Spec.of(dataset))
    for name, part in batch._asdict().items():
        np.testing.assert_array_equal(part, getattr(dataset, name)[10:90].astype(np.float32))


def test_a_finished_run_returns_at_once_untouched(dataset: Dataset, tmp_path: Path) -> None:
    run(dataset, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.name != ".lock"}
    run(dataset, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.name != ".lock"} == before


def test_a_policy_lost_after_the_last_checkpoint_is_left_again(dataset: Dataset, tmp_path: Path) -> None:
    run(dataset, tmp_path, seeds=(0, 1))
    before = contents(tmp_path)
    (tmp_path / "policy" / "seed-1" / "card.json").unlink()
    run(dataset, tmp_path, seeds=(0, 1))
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"learning_rate": 0.5}, "learning_rate is 0.001 there, 0.5 now"),
        ({"hidden": (8, 9)}, r"hidden is \[8, 8\] there, \[8, 9\] now"),
        ({"seeds": (0, 1)}, r"seeds is \[0\] there, \[0, 1\] now"),
        ({"method": "lspc"}, "method is bc there, lspc now"),
        ({"dataset": 1}, r"dataset is \w{64} there, \w{64} now"),
    ],
)
def test_a_folder_with_another_run_is_refused(
    dataset: Dataset, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    run(dataset, tmp_path, steps=10, learning_rate=0.001)
    before = contents(tmp_path)
    data = small_dataset(seed=change.pop("dataset")) if "dataset" in change else dataset
    settings: dict[str, Any] = {"steps": 10, "learning_rate": 0.001, **change}
    with pytest.raises(UserError, match=f"holds another run .{told}.; choose another --out or delete"):
        run(data, tmp_path, **settings)
    assert contents(tmp_path) == before


def test_a_setting_this_version_does_not_know_is_named(dataset: Dataset, tmp_path: Path) -> None:
    run(dataset, tmp_path, steps=10)
    described = Run.open(tmp_path).describe()
    described["config"]["forgotten"] = 1
    files.write_json(tmp_path / "config.json", files.seal(described))
    with pytest.raises(UserError, match="forgotten is 1 there, None now"):
        run(dataset, tmp_path, steps=10)


def test_checkpoints_without_their_description_are_not_taken_over(dataset: Dataset, tmp_path: Path) -> None:
    run(dataset, tmp_path, steps=10)
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match=r"has checkpoints but no config\.json"):
        run(dataset, tmp_path, steps=10)


def unfinished(dataset: Dataset, out: Path) -> Path:
    """A run as a kill leaves it: two checkpoints, no policy. Returns the newer checkpoint."""

    def stop(now: training.Progress) -> None:
        if now.step == 500:
            raise ZeroDivisionError

    config = algos.get("bc").Config(steps=750, batch_size=32, hidden=(8, 8))
    with pytest.raises(ZeroDivisionError):
        training.train(dataset, out, config, method="bc", on_progress=stop)
    return layout.checkpoint_paths(out)[-1]


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_serves(dataset: Dataset, tmp_path: Path) -> None:
    complete = contents(run(dataset, tmp_path / "complete", steps=750))
    newest = unfinished(dataset, tmp_path / "run")
    newest.write_bytes(newest.read_bytes()[:-3])
    with pytest.warns(UserWarning, match=r"checkpoint-000000500\.safetensors: damaged.*; passed over"):
        assert contents(run(dataset, tmp_path / "run", steps=750)) == complete


def test_torn_metrics_and_half_files_of_a_kill_are_cleared(dataset: Dataset, tmp_path: Path) -> None:
    complete = contents(run(dataset, tmp_path / "complete", steps=750))
    out = tmp_path / "run"
    unfinished(dataset, out)
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 750, "seed": 0, "policy/loss": 1.0}\n{"step": 750, "se')
    (out / f"{files.UNFINISHED}checkpoint-000000750.safetensors.x").write_text("half")
    policy = layout.policy_folder(out, 0)
    policy.mkdir(parents=True)
    (policy / f"{files.UNFINISHED}card.json.x").write_text("half")
    assert contents(run(dataset, out, steps=750)) == complete


@pytest.mark.slow
def test_exploding_values_stop_with_the_metric_named(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"diverged before update 250: \w+/\w+ of seed 0 is .*no checkpoint was written"
    ):
        run(dataset, tmp_path, "lspc", learning_rate=1e6, steps=250)
    assert not layout.checkpoint_paths(tmp_path)
    assert not (tmp_path / "policy").exists()


@pytest.mark.slow
def test_critics_that_died_are_told_once(
    dataset: Dataset, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    """The released code's clamp never lets a V_c come back that has fallen below zero everywhere."""
    method, real = algos.get("lspc"), algos.get("lspc").init

    def fallen(*arguments: Any) -> Any:
        state = real(*arguments)
        return eqx.tree_at(lambda s: s.cost.value.net.layers[-1].bias, state, replace_fn=lambda bias: bias - 50.0)

    monkeypatch.setattr(method, "init", fallen)
    monkeypatch.setattr(health, "OLD_ENOUGH", 4)
    monkeypatch.setattr(health, "LEAST_SIGNAL", 0.0)
    monkeypatch.setattr(loop, "CHUNK", 2)
    with pytest.warns(UserWarning, match=r"a, seed 0: V_c is zero or below in every state") as told:
        run(dataset, tmp_path / "a", "lspc", steps=8, released_critics=True)
    assert len(told) == 1
    tiny = ["--steps", "8", "--batch-size", "32", "--hidden", "8", "8", "--latent-dim", "4", "--released-critics"]
    done = cli("train", "--data", data_file, "--out", tmp_path / "b", *tiny)
    assert done.returncode == 0
    assert done.stderr.count("V_c is zero or below in every state") == 1
    monkeypatch.setattr(health, "OLD_ENOUGH", 10)
    run(dataset, tmp_path / "young", "lspc", steps=8, released_critics=True)


def test_a_constant_critic_is_told_where_there_is_something_to_learn(dataset: Dataset) -> None:
    values = {"reward/value_spread": [0.5, 1e-9], "reward/value_max": [1.0, 1.0]}
    spec, bounds = base.Spec.of(dataset), {"reward/value_max": 1000.0}
    told = health.find_dead_critics(values, bounds, spec, (3, 4))
    assert told == ["seed 4: V_r is the same in every state"]  # the same words each time, so that they are told once
    assert not health.find_dead_critics(values, bounds, replace(spec, reward_spread=0.0), (3, 4))
    assert not health.find_dead_critics(values, {}, spec, (3, 4))
    free = {"cost/value_spread": [0.0], "cost/value_max": [0.0]}
    assert health.find_dead_critics(free, {"cost/value_max": 1.0}, spec, (0,))
    assert not health.find_dead_critics(free, {"cost/value_max": 1.0}, replace(spec, largest_cost=0.0), (0,))


def test_divergence_keeps_the_last_good_checkpoint(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss goes wrong in the third chunk; what was learned before it stays and can be read."""
    real = loop.make_chunk

    def poisoned(*arguments: Any) -> Callable[..., Any]:
        chunk = real(*arguments)

        def call(states: Any, seeds: Any, rows: Any, start: Any, **options: Any) -> Any:
            states, metrics = chunk(states, seeds, rows, start, **options)
            broken = np.nan if start >= 500 else 1.0
            return states, tuple({name: values * broken for name, values in each.items()} for each in metrics)

        return call

    monkeypatch.setattr(loop, "make_chunk", poisoned)
    with pytest.raises(UserError) as caught:
        run(dataset, tmp_path, steps=1000)
    last = tmp_path / "checkpoint-000000500.safetensors"
    assert f"before update 750: policy/loss of seed 0 is nan; the last good checkpoint is {last}" in str(caught.value)
    assert layout.checkpoint_paths(tmp_path)[-1] == last
    assert checkpoints.read_facts(last) == {"step": 500}
    monkeypatch.undo()
    run(dataset, tmp_path, steps=1000)
    assert files.read_jsonl(tmp_path / "metrics.jsonl")[-1]["step"] == 1000


def test_weights_broken_by_the_last_update_are_not_saved(dataset: Dataset, tmp_path: Path) -> None:
    """No metric has seen them yet, and there may be no next chunk to see them."""
    with pytest.raises(UserError, match=r"learner\.net\.layers\.0\.weight holds NaN or infinity"):
        run(dataset, tmp_path, steps=1, learning_rate=float("inf"))
    assert not layout.checkpoint_paths(tmp_path)


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,), (2**31,)])
def test_bad_seeds_are_refused(dataset: Dataset, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="different whole numbers"):
        run(dataset, tmp_path, seeds=seeds)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("settings", [{"steps": 0}, {"batch_size": 0}])
def test_nothing_to_do_is_refused(dataset: Dataset, tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="must be 1 or more"):
        run(dataset, tmp_path, **settings)


def test_the_data_of_another_task_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    config = algos.get("bc").Config(steps=1)
    with pytest.raises(UserError, match="size 7 and 2, but BallCircle has 8 and 2"):
        training.train(dataset, tmp_path, config, method="bc", task=get_task("BallCircle"))


def test_bc_safe_learns_from_cheap_episodes_only(dataset: Dataset, tmp_path: Path) -> None:
    run(dataset, tmp_path, steps=1, budget=20.0)
    used = Run.open(tmp_path).dataset
    assert used.episodes_used == (dataset.cost_returns <= 20).sum() < used.episodes == 20


def test_the_library_takes_settings_by_name(dataset: Dataset, tmp_path: Path) -> None:
    out = lspc.train(dataset, tmp_path / "run", algo="bc", preset="cpu", task="BallRun", steps=10, hidden=[8, 8])
    described = Run.open(out)
    assert described.config["hidden"] == [8, 8]
    assert described.provenance == {"steps": "user", "batch_size": "preset cpu", "hidden": "user"}
    assert lspc.load_policy(out).act(dataset.observations[0]).shape == (2,)
    with pytest.raises(UserError, match="unknown setting 'step'"):
        lspc.train(dataset, tmp_path / "other", step=10)


def test_data_that_moved_are_the_same_data(dataset: Dataset, tmp_path: Path) -> None:
    """A run goes on, and keeps its description, wherever its file lies now; what changed is refused elsewhere."""
    complete = contents(run(dataset, tmp_path / "complete", steps=750))
    unfinished(dataset, tmp_path / "run")
    moved = replace(dataset, source="elsewhere.hdf5")
    assert moved.source != dataset.source
    assert contents(run(moved, tmp_path / "run", steps=750)).keys() == complete.keys()
    for name in ("config.json", "metrics.jsonl", "policy/seed-0/weights.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == complete[name]


def test_nothing_in_the_package_can_unpickle() -> None:
    source = Path(lspc.__file__).parent
    for path in source.rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"^\s*(import|from)\s+(pickle|dill|cloudpickle|joblib|shelve)\b", text, re.M), path
        assert not re.search(r"allow_pickle\s*=\s*True", text), path
        for call in re.findall(r"np\.load\([^)]*\)", text):
            assert "allow_pickle=False" in call, path


def test_critics_whose_word_is_noise_are_told() -> None:
    told = health.find_weak_signals({"reward/signal": [1.1, 9.0], "cost/signal": [3.0, 0.9]}, (3, 4))
    assert [line.split(" differs")[0] for line in told] == ["seed 3: Q_r", "seed 4: Q_c"]
    assert not health.find_weak_signals({"loss": [1.0, 2.0]}, (3, 4))


def test_a_decoder_that_ignores_its_latent_is_told() -> None:
    told = health.find_ignored_latents({"encoder/loss": [1.0, 1.0], "cvae/kl": [1e-5, 0.1]}, (3, 4))
    assert len(told) == 1
    assert "seed 3" in told[0]
    assert not health.find_ignored_latents({"cvae/kl": [0.0]}, (3,))  # of a method without a latent encoder
