"""The command line as a user meets it: in processes of its own, by what it prints and how it ends."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers.cli import Cli

from lspc import files
from lspc.data import Dataset, save
from lspc.runs import Run

VERBS = [
    "inspect", "collect", "train", "evaluate", "calibrate", "export", "render", "report", "bench", "figure", "theory",
    "algos", "tasks", "doctor",
]  # fmt: skip
TINY = ["--hidden", "8", "8", "--latent-dim", "4", "--batch-size", "32", "--steps", "10"]


@pytest.mark.process
def test_help_needs_neither_jax_nor_numpy() -> None:
    look = (
        "import sys; from lspc.cli import main; main(['--help']); "
        "print(sorted({'jax', 'numpy', 'h5py', 'rich.table', 'pybullet'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"\n  {verb} " in done.stdout for verb in VERBS)


@pytest.mark.process
def test_listing_tasks_needs_no_jax() -> None:
    look = "import sys; from lspc.cli import main; main(['tasks']); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_within_80_columns(cli: Cli, verb: str) -> None:
    done = cli(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert f"usage: lspc {verb}" in done.stdout
    lines = done.stdout.splitlines()
    assert [line for line in lines[1:] if len(line) > 80] == []
    assert "{None}|STR" not in done.stdout
    assert "options options" not in done.stdout


def test_the_help_of_train_shows_the_presets_values(cli: Cli) -> None:
    def shown(*arguments: object) -> dict[str, str]:
        text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", cli("train", "--help", *arguments).stdout).split())
        return dict(re.findall(r"--([\w-]+) (?:(?! --\w).)*?\(default: ([^)]*)\)", text))

    paper = shown("--preset", "paper", "--task", "BallRun")
    assert paper["steps"] == "1000000"
    assert paper["batch-size"] == "1024"
    assert paper["restriction"] == "0.6"
    assert shown("--preset", "paper", "--task", "AntRun")["restriction"] == "0.25"
    assert shown("--preset", "paper", "--task", "easymean")["cost-mask"] == "0.02"
    assert "budget" in shown("--algo", "bc")
    assert "latent-dim" not in shown("--algo", "bc")


def test_version_and_no_arguments(cli: Cli) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", cli("--version").stdout)
    assert "usage: lspc VERB" in cli().stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["fly"],
            f"unknown verb 'fly': choose one of {', '.join(VERBS)}",
        ),
        (["collect", "--task", "BallRum", "--out", "a.hdf5"], "unknown task 'BallRum': did you mean BallRun"),
        (["collect", "--task", "BallRun", "--out", "a.csv"], "a.csv: give it a name that ends in .hdf5 or .npz"),
        (["train", "--task", "Nothing"], "unknown task 'Nothing'"),
        (["train", "--preset", "huge"], "unknown preset 'huge': choose one of default, cpu, paper, official"),
        (["train", "--algo", "magic"], "unknown method 'magic': choose one of lspc, bc"),
        (["train", "--data", "nowhere.hdf5"], "nowhere.hdf5: there is no such file"),
        (["evaluate"], "name at least one run folder"),
        (["evaluate", "nowhere"], "nowhere is not a run folder: it has no config.json"),
        (["calibrate", "nowhere"], "nowhere is not a run folder: it has no config.json"),
        (["export", "nowhere"], "nowhere holds no policy: is it the folder of a run?"),
        (["export", "nowhere", "--out", "policy.pt"], "policy.pt: name a file that ends in .onnx"),
        (["inspect", "nowhere.hdf5"], "nowhere.hdf5: there is no such file"),
    ],
)
def test_a_mistake_gives_one_line_and_exit_code_1(cli: Cli, arguments: list[str], told: str) -> None:
    done = cli(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("lspc: ")
    assert told in line


def test_a_misspelt_option_is_not_ignored(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    done = cli("train", "--data", data_file, "--out", tmp_path / "run", "--learning-rte", "1")
    assert done.returncode == 2
    assert "learning-rte" in done.stderr + done.stdout
    assert not (tmp_path / "run").exists()


def test_tasks(cli: Cli) -> None:
    tasks = json.loads(cli("tasks", "--json").stdout)
    assert len(tasks) == 38
    keys = (
        "name suite episode_length observation_dim action_dim reward_min reward_max thresholds dataset_file installed"
    )
    assert all(list(task) == keys.split() for task in tasks)
    ball = next(task for task in tasks if task["name"] == "BallRun")
    assert ball["installed"] is True
    assert ball["thresholds"] == [10, 20, 40]
    table = cli("tasks").stdout
    assert all(task["name"] in table for task in tasks)
    assert "…" not in table


def test_doctor(cli: Cli) -> None:
    done = cli("doctor", "--json")
    assert done.returncode == 0
    assert {"python", "jax", "simulator: bullet"} <= {check["name"] for check in json.loads(done.stdout)}
    assert "BallRun runs" in " ".join(cli("doctor", columns=120).stdout.split())


def test_inspect(cli: Cli, dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "logs.hdf5"
    save(dataset, path, metadata={"task": "BallRun"})
    done = cli("inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    profile = json.loads(done.stdout)
    wanted = "episodes transitions observation_dim action_dim returns costs within_threshold problems"
    assert set(wanted.split()) <= set(profile)
    assert (profile["episodes"], profile["transitions"]) == (20, 1000)
    assert list(profile["within_threshold"]) == ["10", "20", "40"]
    assert profile["problems"] == []
    assert (tmp_path / "logs.profile.png").read_bytes().startswith(b"\x89PNG")
    picture = tmp_path / "pictures" / "mine.png"
    told = cli("inspect", path, "--thresholds", "5", "--figure", picture).stdout
    assert "cost within 5" in told
    assert "cost within 10 " not in told
    assert dataset.fingerprint in "".join(re.sub(r"[│\s]", "", told))
    assert picture.exists()


def test_a_file_that_names_a_task_of_its_own_is_no_fault(cli: Cli, dataset: Dataset, tmp_path: Path) -> None:
    save(dataset, tmp_path / "logs.npz", metadata={"task": "MyRobot"})
    assert cli("inspect", tmp_path / "logs.npz").returncode == 0


def bad_file(folder: Path, kind: str, dataset: Dataset) -> Path:
    path = folder / "bad.hdf5"
    save(dataset, path)
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:3000])
    elif kind == "text":
        path.write_text("time,speed\n0,1\n")
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        with h5py.File(path, "r+") as file:
            if kind in ("missing", "two"):
                del file["costs"]
            if kind in ("nan", "two"):
                values = np.asarray(file["rewards"])
                values[17] = np.nan
                file["rewards"][...] = values  # pyright: ignore[reportIndexIssue]
    return path


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("cut", ["not an HDF5 file, or damaged or cut off"]),
        ("text", ["not an HDF5 file, or damaged or cut off"]),
        ("empty", ["the file is empty"]),
        ("missing", ["costs"]),
        ("nan", ["17"]),
        ("two", ["costs", "rewards"]),
    ],
)
def test_a_bad_file_gives_one_line_per_problem(
    cli: Cli, dataset: Dataset, tmp_path: Path, kind: str, told: list[str]
) -> None:
    path = bad_file(tmp_path, kind, dataset)
    done = cli("inspect", path)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == len(told)
    assert all(line.startswith(f"lspc: {path}: ") for line in lines)
    assert all(any(words in line for line in lines) for words in told)
    assert not list(tmp_path.glob("*.png"))


def test_training_on_a_bad_file_leaves_no_run(cli: Cli, dataset: Dataset, tmp_path: Path) -> None:
    done = cli("train", "--data", bad_file(tmp_path, "nan", dataset), "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "rewards" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def trained(cli: Cli, data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A tiny run and what was said while it was made."""
    out = tmp_path_factory.mktemp("runs") / "tiny"
    done = cli("train", "--data", data_file, "--out", out, "--preset", "paper", "--seeds", "0", "2", *TINY)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return out, done.stderr


def test_train_says_where_each_setting_came_from(trained: tuple[Path, str]) -> None:
    out, said = trained
    assert "  steps = 10  (user)" in said
    assert "  restriction = 0.6  (task BallRun)" in said
    assert "  scale_rewards = False  (preset paper)" in said
    assert "done: lspc evaluate" in said
    described = Run.open(out)
    assert described.task == "BallRun"
    assert described.seeds == (0, 2)
    assert described.provenance["latent_dim"] == "user"


def test_evaluate_prints_the_table_and_json(cli: Cli, trained: tuple[Path, str]) -> None:
    out, _ = trained
    done = cli("evaluate", out, "--episodes", "2", "--actions", "deterministic", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["policy"] for row in rows] == ["data", "LSPC-O", "LSPC-S", "CVAE"]
    assert all(set(row["cost"]) == {"10", "20", "40"} for row in rows)
    assert [row["episodes"] for row in rows] == [20, 4, 4, 4]
    assert rows[0]["reached"]["10"] is not None
    assert len(files.read_jsonl(out / "evaluations.jsonl")) == 12
    table = cli("evaluate", out, "--episodes", "1", "--policies", "LSPC-S", "--actions", "sampled", "--workers", "0")
    assert table.returncode == 0
    lines = table.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in table.stdout
    assert [line.split()[0] for line in lines if line.startswith((" data", " LSPC", " sampled"))] == [
        "data", "LSPC-S", "sampled",
    ]  # fmt: skip
    assert len(files.read_jsonl(out / "evaluations.jsonl")) == 14


def test_a_policy_is_measured_on_another_task_and_filmed(cli: Cli, trained: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = trained
    few = ("--episodes", "1", "--policies", "LSPC-O", "--actions", "deterministic")
    done = cli("evaluate", out, "--on", "BallRun", "CarRun", *few, "--json")
    assert done.returncode == 0, done.stderr
    tables = json.loads(done.stdout)
    assert [row["policy"] for row in tables["BallRun"]] == ["data", "LSPC-O"]
    assert [row["policy"] for row in tables["CarRun"]] == ["LSPC-O"]  # the data says nothing about another task
    records = files.read_jsonl(out / "evaluations.jsonl")
    assert {(r["task"], r["trained_on"]) for r in records} >= {("BallRun", "BallRun"), ("CarRun", "BallRun")}

    picture = tmp_path / "transfer.png"
    done = cli("figure", "transfer", out, "--out", picture)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["picture:", str(picture)]
    assert picture.read_bytes().startswith(b"\x89PNG")

    clip = tmp_path / "clip.gif"
    done = cli("render", out, "--episodes", "1", "--policy", "LSPC-S", "--seed", "2", "--out", clip)
    assert done.returncode == 0, done.stderr
    assert clip.read_bytes().startswith(b"GIF89a")


def test_figures_and_clips_refuse_what_they_cannot_do(cli: Cli, trained: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = trained
    bare = tmp_path / "bare"
    files.write_json(bare / "config.json", Run.open(out).describe())
    for arguments, told in [
        (["figure", "transfer"], "name the runs to compare"),
        (["figure", "transfer", bare], "has no evaluations.jsonl: measure it first"),
        (["figure", "transfer", out, "--policy", "BC"], "holds nothing about BC"),
        (["render", out, "--out", "clip.avi"], "clip.avi: give it a name that ends in .gif or .mp4"),
        (["render", out, "--on", "PointGoal1"], "observations of size 7, PointGoal1 has 60"),
        (["render", out, "--episodes", "0"], "a clip needs 1 episode or more, not 0"),
    ]:
        done = cli(*arguments)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert told in done.stderr.splitlines()[-1]


def test_evaluate_refuses_what_it_cannot_do(cli: Cli, trained: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = trained
    half = tmp_path / "half"
    files.write_json(half / "config.json", Run.open(out).describe())
    other = tmp_path / "other"
    files.write_json(other / "config.json", {**Run.open(out).describe(), "task": "CarRun"})
    for arguments, told in [
        ([half], "training has not finished"),
        ([out, other], "was trained for CarRun"),
        ([out, "--policies", "BC"], "has no policy 'BC': choose one of LSPC-O, LSPC-S, CVAE"),
        ([out, "--on", "BallCircle"], "observations of size 7, BallCircle has 8"),
        ([out, "--on", "PointGoal1"], "observations of size 7"),
    ]:
        done = cli("evaluate", *arguments)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert told in done.stderr.splitlines()[-1]
    assert cli("evaluate", out, "--actions", "guessed").returncode == 2


@pytest.fixture(scope="module")
def calibrated(
    cli: Cli, data_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A tiny run trained over a range of eps, and what calibrating it said."""
    out = tmp_path_factory.mktemp("runs") / "calibrated"
    done = cli("train", "--data", data_file, "--out", out, *TINY)
    assert done.returncode == 0, done.stderr
    done = cli("calibrate", out, "--budget", "1", "1e6", "--updates", "20", "--json")
    return out, done


def test_calibrate_tells_every_budget_its_eps(calibrated: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    out, done = calibrated
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told) == {"choices", "calibration"}
    refused, chosen = told["choices"]
    assert (refused["budget"], refused["restriction"], refused["cost"]) == (1.0, None, None)
    assert "the data cannot tell" in refused["why"]
    assert (chosen["budget"], chosen["restriction"]) == (1e6, 2.0)
    assert chosen["cost"]["low"] <= chosen["cost"]["mean"] <= chosen["cost"]["high"]
    eps = [point["restriction"] for point in told["calibration"]["curve"]]
    assert (eps[0], eps[-1]) == (0.02, 2.0)
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG")
    assert files.read_json(out / "policy" / "seed-0" / "calibration.json") == told["calibration"]


def test_calibrate_prints_a_table_that_fits_and_verifies(
    cli: Cli, calibrated: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    picture = tmp_path / "pictures" / "curve.png"
    done = cli("calibrate", calibrated[0], "--updates", "20", "--verify", "--episodes", "1", "--figure", picture)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert "…" not in done.stdout
    words = " ".join(done.stdout.split())
    assert "reward lost" in words
    assert "intervals" in words
    assert [line.split()[0] for line in lines if re.match(r" +\d+ ", line)][-3:] == ["10", "20", "40"]
    assert done.stdout.split()[-2:] == ["picture:", str(picture)]
    assert picture.read_bytes().startswith(b"\x89PNG")
    records = files.read_jsonl(calibrated[0] / "verification.jsonl")
    assert len(records) == len({record["restriction"] for record in records}) > 10


def test_export_writes_policy_and_card(
    cli: Cli, calibrated: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    out = calibrated[0]
    done = cli("export", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["policy:", str(out / "policy.onnx"), "card:", str(out / "policy.md")]
    assert "with eps, the restriction, as an input" in (out / "policy.md").read_text()
    done = cli("export", out, "--budget", "1e6", "--out", tmp_path / "new" / "fixed.onnx")
    assert done.returncode == 0, done.stderr
    assert "a cost of at most 1e+06 per episode" in (tmp_path / "new" / "fixed.md").read_text()


def test_calibrate_and_export_refuse_what_they_cannot_do(
    cli: Cli,
    calibrated: tuple[Path, subprocess.CompletedProcess[str]],
    trained: tuple[Path, str],
    dataset: Dataset,
    tmp_path: Path,
) -> None:
    out = calibrated[0]
    other, few, lost = tmp_path / "other.hdf5", tmp_path / "few.hdf5", tmp_path / "lost"
    save(dataset.select(range(1, 20)), other, metadata={"task": "BallRun"})
    description = Run.open(out).describe()
    described = {**description, "dataset": {**description["dataset"], "source": str(tmp_path / "gone.hdf5")}}
    shutil.copytree(out, lost)
    files.write_json(lost / "config.json", described)
    nameless = tmp_path / "nameless"
    shutil.copytree(out, nameless)
    files.write_json(nameless / "config.json", {**description, "task": None})
    few_run = tmp_path / "few"
    save(dataset.select(range(5)), few, metadata={"task": "BallRun"})
    assert cli("train", "--data", few, "--out", few_run, *TINY).returncode == 0
    cloned = tmp_path / "bc"
    data = description["dataset"]["source"]
    small = ("--hidden", "8", "8", "--batch-size", "32", "--steps", "2")
    assert cli("train", "--data", data, "--out", cloned, "--algo", "bc", *small).returncode == 0
    onnx = tmp_path / "policy.onnx"
    for arguments, told in [
        (["calibrate", out, "--data", other, "--updates", "2"], "is not the data that the policy learned from"),
        (["calibrate", out, "--data", "nowhere.hdf5"], "nowhere.hdf5: there is no such file"),
        (["calibrate", lost], "gone.hdf5 any more: say --data FILE"),
        (["calibrate", nameless, "--verify"], "was not trained for a task: there is no simulator to verify it in"),
        (["calibrate", few_run, "--updates", "2"], "5 episodes cannot support a calibration; 20 can"),
        (["calibrate", cloned, "--updates", "2"], "only LSPC has an eps to choose, and this is a policy of bc"),
        (["calibrate", out, "--seed", "4"], "has no seed 4: it has 0"),
        (["export", trained[0], "--budget", "10", "--out", onnx], "has no calibration: run `lspc calibrate`"),
        (["export", out, "--budget", "1", "--out", onnx], "budget 1: the data cannot tell"),
        (["export", out, "--budget", "-1", "--out", onnx], "a budget must be a number of 0 or more, not -1"),
        (["export", cloned, "--budget", "9", "--out", onnx], "a policy of bc has none to fix; export it without one"),
    ]:
        done = cli(*arguments)
        assert done.returncode == 1, arguments
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith("lspc: ")
        assert told in done.stderr.splitlines()[-1]
        assert done.stdout == ""
    assert not list(tmp_path.glob("policy*"))


def test_a_folder_with_another_run_is_refused(cli: Cli, trained: tuple[Path, str], data_file: Path) -> None:
    done = cli("train", "--data", data_file, "--out", trained[0], "--seeds", "0", "2", *TINY)
    assert done.returncode == 1
    assert "holds another run" in done.stderr.splitlines()[-1]


@pytest.mark.process
def test_output_into_a_closed_pipe_is_no_disaster() -> None:
    done = subprocess.run(
        f"{sys.executable} -m lspc.cli tasks --json | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[\n"
    assert done.stderr == ""


def test_a_path_that_cannot_be_written_is_one_line(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cli("train", "--data", data_file, "--out", tmp_path / "file", "--algo", "bc", "--steps", "1")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "file") in done.stderr.splitlines()[-1]


def test_theory_prints_its_table_and_keeps_its_records(cli: Cli, tmp_path: Path) -> None:
    done = cli("theory", "--count", "20", "--out", tmp_path / "theory")
    assert done.returncode == 0, done.stderr
    assert "Theorem 2" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80 + len(str(tmp_path))
    assert files.read_json(tmp_path / "theory" / "checks.json")["count"] == 20
    assert (tmp_path / "theory" / "theory-ratios.png").read_bytes().startswith(b"\x89PNG")
    refused = cli("theory", "--count", "0")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
    assert "count must be 1 or more" in refused.stderr


def test_algos_lists_every_method(cli: Cli) -> None:
    named = [row["name"] for row in json.loads(cli("algos", "--json").stdout)]
    assert {"lspc", "bc", "cdt"} <= set(named)
    table = cli("algos").stdout
    assert all(name in table for name in named)
