"""Trackers, with the real packages: they hold what metrics.jsonl holds, after an interruption too."""

import csv
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cli import Cli

from lspc import algos, files, training
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.runs import Run, layout
from lspc.training import loop
from lspc.training.tracking import TRACKERS, make_trackers, open_trackers

SEEDS = (0, 3)
Row = tuple[int, int, dict[str, float]]
"""(seed, step, metrics)."""


@pytest.fixture(autouse=True)
def _short_chunks_and_a_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHUNK", 2)
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)


def run(dataset: Dataset, out: Path, *trackers: str, **more: Any) -> Path:
    config = algos.get("bc").Config(steps=8, batch_size=32, hidden=(8, 8))
    return training.train(dataset, out, config, method="bc", seeds=SEEDS, trackers=trackers, **more)


def interrupt(dataset: Dataset, out: Path, *trackers: str, at: int = 4) -> None:
    """A run that Ctrl-C stopped, and whose last checkpoint was lost: its trackers are ahead of it."""

    def press(now: training.Progress) -> None:
        if now.step == at:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(training.Interrupted, match=f"stopped at update {at} of 8"):
        run(dataset, out, *trackers, on_progress=press)
    layout.checkpoint_paths(out)[-1].unlink()
    if "tensorboard" in trackers:
        time.sleep(1 - time.time() % 1)  # its files are ordered by the second of their making


def rows_of_json_lines(out: Path) -> list[Row]:
    rows = files.read_jsonl(out / "metrics.jsonl")
    return sorted((row.pop("seed"), row.pop("step"), row) for row in rows)


def rows_of_csv(out: Path) -> list[Row]:
    with (out / "metrics.csv").open(newline="") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return sorted((int(row.pop("seed")), int(row.pop("step")), row) for row in rows)


def rows_of_tensorboard(out: Path) -> list[Row]:
    """As TensorBoard itself loads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows: list[Row] = []
    for seed in SEEDS:
        loaded = EventAccumulator(str(out / "tensorboard" / f"seed-{seed}")).Reload()
        tags: dict[str, Any] = loaded.Tags()
        points = {name: loaded.Scalars(name) for name in tags["scalars"]}
        for place, step in enumerate(point.step for point in points["policy/loss"]):
            rows.append((seed, step, {name: some[place].value for name, some in points.items()}))
    return rows


def rows_of_wandb(out: Path) -> list[Row]:
    """From the file that `wandb sync` uploads; its process may still be writing when the run has ended."""
    for _ in range(60):
        rows = read_rows_of_wandb(out)
        if {seed for seed, _, _ in rows} == set(SEEDS):
            break
        time.sleep(0.5)
    return rows


def read_rows_of_wandb(out: Path) -> list[Row]:
    """Exactly one file for each seed."""
    rows: list[Row] = []
    for seed in SEEDS:
        (path,) = out.glob(f"wandb/offline-run-*-seed-{seed}/*.wandb")
        for record in read_wandb(path):
            if record.HasField("history"):
                items = {"/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
                metrics = {name: value for name, value in items.items() if not name.startswith("_")}
                rows.append((seed, items["_step"], metrics))
    return rows


def read_wandb(path: Path) -> Iterator[Any]:
    """Records of W&B's log, LevelDB's format: blocks of 32 kB, in which a record may come in fragments."""
    from wandb.proto import wandb_internal_pb2

    content, place, whole = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, fragment = struct.unpack("<IHB", content[place : place + 7])
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if fragment in (1, 4):  # a full record, or the last fragment of one
            yield wandb_internal_pb2.Record.FromString(whole)  # pyrefly: ignore [missing-attribute]
            whole = b""


READERS: dict[str, Callable[[Path], list[Row]]] = {
    "csv": rows_of_csv, "tensorboard": rows_of_tensorboard, "wandb": rows_of_wandb,
}  # fmt: skip
NAMES = [
    "csv",
    "tensorboard",
    pytest.param("wandb", marks=pytest.mark.process),
]  # it writes in a process


def assert_same(found: list[Row], expected: list[Row]) -> None:
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    for (_, _, ours), (_, _, theirs) in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            assert np.float32(value) == np.float32(theirs[name])


def test_every_tracker_is_tested_here() -> None:
    assert READERS.keys() == TRACKERS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_it_holds_the_metrics_and_loses_what_a_resumed_run_logs_again(
    dataset: Dataset, tmp_path: Path, name: str
) -> None:
    expected = rows_of_json_lines(run(dataset, tmp_path / "alone"))
    assert [row[:2] for row in expected] == [(seed, step) for seed in SEEDS for step in (2, 4, 6, 8)]
    out = tmp_path / "run"
    interrupt(dataset, out, name)
    assert_same(READERS[name](out), [row for row in expected if row[1] <= 4])
    run(dataset, out, name)
    assert rows_of_json_lines(out) == expected
    assert_same(READERS[name](out), expected)


@pytest.mark.parametrize("name", NAMES)
def test_one_asked_for_late_has_the_whole_history(dataset: Dataset, tmp_path: Path, name: str) -> None:
    interrupt(dataset, tmp_path)
    run(dataset, tmp_path, name)
    assert_same(READERS[name](tmp_path), rows_of_json_lines(tmp_path))


def test_several_at_once_are_named_once_each(dataset: Dataset, tmp_path: Path) -> None:
    run(dataset, tmp_path, "csv", "tensorboard", "csv")
    for name in ("csv", "tensorboard"):
        assert_same(READERS[name](tmp_path), rows_of_json_lines(tmp_path))


def test_a_torn_row_of_the_csv_file_is_mended(dataset: Dataset, tmp_path: Path) -> None:
    interrupt(dataset, tmp_path, "csv")
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("6,0,0.1\n6,")
    run(dataset, tmp_path, "csv")
    assert_same(rows_of_csv(tmp_path), rows_of_json_lines(tmp_path))


def test_a_watching_tensorboard_forgets_what_is_logged_again(dataset: Dataset, tmp_path: Path) -> None:
    """It read the interrupted attempt, update 4 included, before the run went on from update 2."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    interrupt(dataset, tmp_path, "tensorboard")
    watching = EventAccumulator(str(tmp_path / "tensorboard" / "seed-0")).Reload()
    assert [point.step for point in watching.Scalars("policy/loss")] == [2, 4]
    run(dataset, tmp_path, "tensorboard")
    assert [point.step for point in watching.Reload().Scalars("policy/loss")] == [2, 4, 6, 8]


@pytest.mark.process
def test_wandb_goes_on_with_the_same_run(dataset: Dataset, tmp_path: Path) -> None:
    def ids(out: Path) -> list[str]:
        return sorted(path.stem.removeprefix("run-") for path in out.glob("wandb/offline-run-*/*.wandb"))

    interrupt(dataset, tmp_path / "run", "wandb")
    before = ids(tmp_path / "run")
    stored = (tmp_path / "run" / "wandb" / "run-id").read_text().strip()
    assert before == [f"{stored}-seed-{seed}" for seed in SEEDS]
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    assert ids(run(dataset, moved, "wandb")) == before
    assert ids(run(dataset, tmp_path / "other", "wandb")) != before


@pytest.mark.process
def test_wandb_knows_the_settings_and_the_group(dataset: Dataset, tmp_path: Path) -> None:
    out = run(dataset, tmp_path / "first", "wandb")
    (path,) = out.glob("wandb/offline-run-*-seed-3/*.wandb")
    (told,) = [record.run for record in read_wandb(path) if record.HasField("run")]
    assert (told.project, told.run_group, told.display_name) == ("lspc", "first", "first-seed-3")
    config = {item.key: json.loads(item.value_json) for item in told.config.update if item.key}
    assert config["training_seed"] == 3
    assert config["config"] == Run.open(out).config


class Server:
    """W&B's server as far as a resumed run can tell: it has history up to a step, and refuses earlier ones."""

    def __init__(self, step: int) -> None:
        self.step, self.logged = step, []

    def log(self, metrics: dict[str, float], step: int, commit: bool) -> None:
        assert step >= self.step
        self.logged.append(step)
        self.step = step + 1

    def finish(self) -> None:
        self.logged.append("finished")


def test_wandb_online_is_sent_only_what_it_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    asked: list[dict[str, Any]] = []
    server = Server(5)

    def init(**options: Any) -> Server:
        asked.append(options)
        return server

    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setattr(wandb, "init", init)
    files.write_jsonl(tmp_path / "metrics.jsonl", [{"step": step, "seed": 0, "loss": 1.0} for step in (2, 4, 6)])
    with open_trackers(["wandb"], tmp_path, {"seeds": [0]}, 2) as log:
        for step in (4, 6, 8):
            log([{"step": step, "seed": 0, "loss": 1.0}])
    assert server.logged == [6, 8, "finished"]
    assert (asked[0]["mode"], asked[0]["resume"]) == ("online", "allow")


def test_wandb_that_cannot_start_is_told_in_a_line(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb
    from wandb.errors import UsageError

    def refuse(**_: Any) -> None:
        raise UsageError("No API key configured.")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(UserError, match=r"wandb cannot start .No API key configured\..; WANDB_MODE=offline needs no"):
        run(dataset, tmp_path, "wandb")


ALONE = """
import sys
import time
from pathlib import Path
from lspc.training.tracking import open_trackers
with open_trackers(["wandb"], Path(sys.argv[1]), {"seeds": [0]}, 0) as log:
    log([{"step": 1, "seed": 0, "loss": 1.0}])
"""


@pytest.mark.process
def test_wandb_offline_writes_in_the_run_folder_only(tmp_path: Path) -> None:
    """A home, a working folder and a folder for temporary files that are empty before and after."""
    homes = {name: tmp_path / name for name in ("HOME", "TMPDIR", "PWD")}
    for folder in (*homes.values(), tmp_path / "run"):
        folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "WANDB_"))}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "run")], cwd=homes["PWD"], capture_output=True, text=True,
        env={**environment, **{name: str(folder) for name, folder in homes.items()}}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("run/wandb/offline-run-*/*.wandb"))
    assert [path for folder in homes.values() for path in folder.rglob("*")] == []


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "tensorboard.compat.proto"), ("wandb", "wandb")])
def test_a_missing_package_is_told_before_anything_is_written(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"^{name} is not installed: pip install 'lspc\[track\]'$"):
        run(dataset, tmp_path, name)
    assert not list(tmp_path.iterdir())


def test_an_unknown_one_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="unknown tracker 'comet': choose among tensorboard, wandb, csv"):
        make_trackers(["csv", "comet"])


def test_all_are_closed_when_training_fails(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And when one of them cannot even be opened."""
    happened: list[str] = []

    class Watched:
        def open(self, folder: Path, description: Any, history: Any) -> None:
            happened.append("opened")

        def log(self, lines: Any) -> None:
            happened.append("logged")

        def close(self) -> None:
            happened.append("closed")

    class Broken(Watched):
        def open(self, folder: Path, description: Any, history: Any) -> None:
            raise ZeroDivisionError

    def fail(now: training.Progress) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(TRACKERS, "watched", Watched)
    monkeypatch.setitem(TRACKERS, "broken", Broken)
    with pytest.raises(ZeroDivisionError):
        run(dataset, tmp_path / "a", "watched", on_progress=fail)
    assert happened == ["opened", "logged", "closed"]
    happened.clear()
    with pytest.raises(ZeroDivisionError):
        run(dataset, tmp_path / "b", "watched", "broken")
    assert happened == ["opened", "closed"]


def test_the_command_line_tracks(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    small = ["--algo", "bc", "--data", data_file, "--steps", "4", "--batch-size", "32", "--hidden", "8", "8"]
    done = cli("train", *small, "--out", tmp_path / "run", "--track", "tensorboard", "csv", "--seeds", "0", "3")
    assert done.returncode == 0, done.stderr
    for name in ("csv", "tensorboard"):
        assert_same(READERS[name](tmp_path / "run"), rows_of_json_lines(tmp_path / "run"))
    failed = cli("train", *small, "--out", tmp_path / "other", "--track", "comet")
    assert failed.returncode == 1
    assert "unknown tracker 'comet'" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "other").exists()
    shown = cli("train", "--help", columns=200).stdout
    assert "Also send the metrics to: " + ", ".join(TRACKERS) in shown
