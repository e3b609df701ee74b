"""A plant's table on the command line: its columns, cost and bounds are said once, and a run finds the data again."""

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers.cli import TINY, Cli
from helpers.tables import Table
from pyarrow import csv, parquet

from lspc.cli import common
from lspc.data import Opening, load
from lspc.errors import UserError
from lspc.runs import Run

ROOT = Path(__file__).parents[2]
EPISODES, STEPS = 20, 30
COLUMNS = ("observations=tank,inflow", "actions=valve", "reward=yield", "episode=batch", "step=t")
COST = "tank > 80"
OPENING = ("--columns", *COLUMNS, "--cost", COST, "--action-bounds", "0", "100")


def tank_log() -> Table:
    """A heated tank under operators of whom some are too hot; the rows as a database gives them, in no order."""
    rng = np.random.default_rng(0)
    rows: list[tuple[str, int, float, float, float]] = []
    for episode in range(EPISODES):
        tank, wanted = 50.0, rng.uniform(55, 95)
        for step in range(STEPS):
            valve = float(np.clip(4 * (wanted - tank) + 40 + rng.normal(0, 10), 0, 100))
            rows.append((f"B{episode:02}", step, tank, 15.0 + rng.normal(), valve))
            tank += 0.15 * valve - 0.1 * (tank - 15)
    batch, t, tank, inflow, valve = (np.array(column) for column in zip(*rows, strict=True))
    order = rng.permutation(len(t))
    log = {"batch": batch, "t": t, "tank": tank, "inflow": inflow, "valve": valve, "yield": tank / 100}
    return {name: column[order] for name, column in log.items()}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "tank.parquet"
    parquet.write_table(pa.table(tank_log()), path)
    return path


@pytest.fixture(scope="module")
def trained(cli: Cli, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "tank"
    done = cli("train", "--data", log, *OPENING, "--out", out, *TINY)
    assert done.returncode == 0, done.stderr
    assert "done; next: lspc calibrate" in done.stderr
    return out


def test_inspect_speaks_of_the_columns_of_the_log(cli: Cli, log: Path) -> None:
    done = cli("inspect", log, *OPENING, "--json")
    assert done.returncode == 0, done.stderr
    profile = json.loads(done.stdout)
    assert [column["name"] for column in profile["columns"]] == ["tank", "inflow", "valve", "yield", COST]
    assert profile["action_bounds"] == {"low": [0.0], "high": [100.0]}
    assert (profile["episodes"], profile["transitions"]) == (EPISODES, EPISODES * (STEPS - 1))
    hot = (tank_log()["tank"] > 80) & (tank_log()["t"] < STEPS - 1)
    assert profile["costs"]["mean"] == pytest.approx(hot.sum() / EPISODES)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "no column is called observations"),
        (("--columns", *COLUMNS), 'no column is called cost; add --columns cost=COLUMN, or --cost "COLUMN > LIMIT"'),
        (("--columns", "observations=nothing_*", *COLUMNS[1:], "--cost", COST), "there is no column 'nothing_*'"),
        (("--columns", "state=tank"), "'state' is not a role"),
        (("--columns", *COLUMNS, "--cost", "__import__('os')"), "cost"),
        (("--columns", *COLUMNS, "--cost", COST, "--action-bounds", "0", "10"), "actions lie outside [0, 10]"),
        (("--columns", *COLUMNS, "--cost", COST, "--action-bounds", "0"), "not pairs of low and high"),
        (("--columns", *COLUMNS, "cost=yield", "--cost", COST), "give only one of them"),
    ],
)
def test_what_is_said_wrongly_is_told_in_one_line(cli: Cli, log: Path, options: tuple[str, ...], told: str) -> None:
    done = cli("inspect", log, *options)
    assert done.returncode == 1
    assert done.stdout == ""
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_proposal_is_written_mended_and_used(cli: Cli, log: Path, tmp_path: Path) -> None:
    toml = tmp_path / "log.toml"
    done = cli("inspect", log, "--write-columns", toml)
    assert (done.returncode, done.stdout) == (0, f"columns: {toml}\n")
    proposal = toml.read_text(encoding="utf-8")
    proposed = tomllib.loads(proposal)
    assert (proposed["actions"], proposed["reward"], proposed["episode"]) == (["valve"], "yield", "batch")
    assert proposed["observations"] == ["tank", "inflow"]
    assert "cost" not in proposed  # nothing is guessed about what is unsafe
    toml.write_text(proposal.replace('# cost = ""', f'cost = "{COST}"'), encoding="utf-8")
    told = [cli("inspect", log, *options, "--action-bounds", "0", "100", "--json").stdout
            for options in (("--columns", toml), ("--columns", *COLUMNS, "--cost", COST))]  # fmt: skip
    assert json.loads(told[0])["fingerprint"] == json.loads(told[1])["fingerprint"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".hdf5", ".npz"])
def test_convert_keeps_every_number(cli: Cli, log: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"converted{suffix}"
    done = cli("convert", log, out, *OPENING)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}: {EPISODES} episodes, {EPISODES * (STEPS - 1)} transitions\n"
    first = load(log, columns=COLUMNS, cost=COST, action_bounds=(0, 100))
    # CSV has no place for the bounds; the others name them, so they open without a word.
    again = load(out, action_bounds=(0, 100) if suffix == ".csv" else None)
    assert again.fingerprint == first.fingerprint


def test_convert_goes_through_every_format_and_back(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    path = data_file
    for suffix in (".npz", ".parquet", ".csv", ".hdf5"):
        target = tmp_path / f"data{suffix}"
        assert cli("convert", path, target).returncode == 0
        path = target
    assert load(path).fingerprint == load(data_file).fingerprint


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("out.txt", OPENING, "unknown file type '.txt'"),
        ("out.csv", (), "no column is called observations"),
    ],
)
def test_convert_that_fails_writes_nothing(
    cli: Cli, log: Path, tmp_path: Path, name: str, options: tuple[str, ...], told: str
) -> None:
    done = cli("convert", log, tmp_path / name, *options)
    assert done.returncode == 1
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_cost_can_be_said_of_arrays_too(cli: Cli, data_file: Path) -> None:
    done = cli("inspect", data_file, "--cost", "observations_0 > 0.5", "--json")
    assert done.returncode == 0, done.stderr
    dataset = load(data_file, cost="observations_0 > 0.5")
    assert json.loads(done.stdout)["fingerprint"] == dataset.fingerprint
    np.testing.assert_array_equal(dataset.costs, dataset.observations[:, 0] > 0.5)


def test_the_same_command_goes_on_with_the_run_and_another_cost_is_another_run(
    cli: Cli, log: Path, trained: Path
) -> None:
    written = (trained / "metrics.jsonl").read_bytes()
    again = cli("train", "--data", log, *OPENING, "--out", trained, *TINY)
    assert again.returncode == 0, again.stderr
    assert (trained / "metrics.jsonl").read_bytes() == written
    for changed in (("--cost", "tank > 70"), ("--action-bounds", "0", "120")):
        other = cli("train", "--data", log, *OPENING, *changed, "--out", trained, *TINY)
        assert other.returncode == 1
        assert "holds another run (dataset" in " ".join(other.stderr.split())


@pytest.mark.slow
def test_calibrate_finds_the_data_again_without_a_word(cli: Cli, trained: Path) -> None:
    done = cli("calibrate", trained, "--budget", "3", "--updates", "20", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["choices"][0]["budget"] == 3.0
    dataset = Run.open(trained).require_dataset()
    assert str(dataset.action_bounds) == "[0, 100]"
    assert dataset.opened["columns"]["cost"] == COST


def test_evaluate_finds_the_data_again_and_compares_with_them(
    cli: Cli, log: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    asked = ("--on", "heated_tank:HeatedTank", "--horizon", "5", "--episodes", "1", "--policies", "LSPC-S",
             "--actions", "deterministic", "--workers", "0", "--json")  # fmt: skip
    done = cli("evaluate", trained, *asked)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["policy"], row["episodes"]) for row in rows] == [("data", EPISODES), ("LSPC-S", 1)]
    given = cli("evaluate", trained, *asked, "--data", log, *OPENING)
    assert given.returncode == 0, given.stderr
    assert json.loads(given.stdout)[0] == rows[0]


def test_a_log_that_has_changed_is_not_taken_for_the_data_of_the_run(trained: Path, tmp_path: Path) -> None:
    changed = tmp_path / "tank.csv"
    csv.write_csv(pa.table({**tank_log(), "tank": tank_log()["tank"] + 1}), changed)
    with pytest.raises(UserError, match="not the data that the policy learned from"):
        Run.open(trained).require_dataset(changed)


def test_figures_take_a_table(cli: Cli, log: Path, tmp_path: Path) -> None:
    picture = tmp_path / "profile.png"
    done = cli("figure", "dataset-profile", "--data", log, *OPENING, "--out", picture)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert re.search(r"--columns .*--cost", " ".join(cli("figure", "--help").stdout.split()))


def test_the_options_of_every_verb_are_the_fields_of_one_type() -> None:
    assert [field.name for field in fields(common.Opening)] == [field.name for field in fields(Opening)]
    assert Opening(**common.AS_NAMED.options()).describe() == {}
