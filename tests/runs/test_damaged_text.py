"""A run with changed bytes in its texts: what is asked of it works, or our own error names the file."""

import shutil
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers.attacks import change_bytes
from helpers.calibrated import add_calibration
from helpers.exported import leave_run
from helpers.made_runs import make_record

from lspc import files, fitting, policy
from lspc.bench import grid, running
from lspc.calibration import certificate
from lspc.calibration.certificate import Certificate
from lspc.calibration.pilot import Claim, Stage
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.report import gather
from lspc.runs import Run, layout, metrics, record

MUTATIONS = 60
POLICY = "policy/seed-0"
CERTIFICATE = f"{POLICY}/{layout.CERTIFICATE}10.json"
QUESTIONS: dict[str, Callable[[Path], object]] = {
    layout.CONFIG: lambda run: Run.open(run).method_config(),
    layout.METRICS: lambda run: metrics.read(run / layout.METRICS),
    layout.EVALUATIONS: lambda run: Run.open(run).records(),
    f"{POLICY}/{layout.CARD}": lambda run: policy._read_card(run / POLICY),
    f"{POLICY}/{layout.CALIBRATION}": lambda run: policy.calibration.load(run / POLICY),
    CERTIFICATE: lambda run: certificate.read(run / CERTIFICATE),
    layout.BUDGETS: lambda run: Run.open(run).budgets(None),
    fitting.DONE: lambda run: fitting._read_asked(run),
    grid.PLAN: grid.read_plan,
    running.MEASURED: running.read_measured,
}
SEALED = (layout.CONFIG, f"{POLICY}/{layout.CARD}", f"{POLICY}/{layout.CALIBRATION}", CERTIFICATE)
OTHERS = ("5", "null", '"a"', "[5]", '["a"]', "[null]", "[NaN]", "[-1]", "[true]", '{"stages": 5}', '{"bc": 5}')
"""JSON, but nothing that any of them holds."""


@pytest.fixture(scope="module")
def finished(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = leave_run(tmp_path_factory.mktemp("runs") / "run", "lspc", dataset)
    add_calibration(out, dataset)
    files.write_jsonl(out / layout.METRICS, [{"step": step, "seed": 0, "loss": step / 7} for step in range(20)])
    record.write(out / layout.EVALUATIONS, [make_record(reward, 2.0) for reward in range(10)])
    claim = Claim(10.0, 100.0, "stated with --bound", 0.9, "betting")
    stage = Stage(0.5, (0.0,) * 4, (1.0,) * 4, True, 0.01, 6.0, False, None)
    proof = Certificate(claim, 0.5, (stage,), (), "simulator", (), 0, "f", "w", "0.3.0", "lspc pilot")
    certificate.save(out / POLICY, proof)
    Run.open(out).remember_budgets((10.0, 20.0, 40.0))
    files.write_json(out / fitting.DONE, {"budget": 10.0, "seed": 0})
    grid.keep_plan(grid.Plan({"BallRun": "f"}, ("bc", "lspc")), out)
    files.write_json(out / running.MEASURED, {"bc": {"rate": 12.5, "memory": 1 << 30}, "lspc": {"rate": 3.5}})
    return out


@pytest.mark.parametrize("name", QUESTIONS)
def test_changed_bytes_give_the_truth_or_our_own_error(finished: Path, tmp_path: Path, name: str) -> None:
    run, rng = tmp_path / "run", np.random.default_rng(0)
    shutil.copytree(finished, run)
    content, ask = (run / name).read_bytes(), QUESTIONS[name]
    truth, refused = ask(run), 0
    for _ in range(MUTATIONS):
        changed = change_bytes(content, rng)
        (run / name).write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a card whose seal lost its name is one of an earlier version
            try:
                answer = ask(run)
            except UserError as error:
                refused += 1
                told = str(error)
                if Path(name).name not in told or "\n" in told:
                    pytest.fail(f"this names no file in one line: {told!r}")
                continue
        if name in SEALED and b'"sha256"' in changed:
            assert repr(answer) == repr(truth)
    assert refused > MUTATIONS / 4


@pytest.mark.filterwarnings("ignore:.*no SHA-256")
@pytest.mark.parametrize(
    ("name", "content"), [case for case in product(QUESTIONS, OTHERS) if case != (layout.BUDGETS, "[5]")]
)
def test_another_content_is_our_own_error(finished: Path, tmp_path: Path, name: str, content: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / name).write_text(content + "\n")
    with pytest.raises(UserError) as told:
        policy.load_policy(run) if name.endswith(layout.CARD) else QUESTIONS[name](run)
    assert Path(name).name in str(told.value)
    assert "\n" not in str(told.value)


def test_what_a_line_of_metrics_must_hold(tmp_path: Path) -> None:
    path = tmp_path / layout.METRICS
    for line, told in (
        ({"step": 1}, "line 1: 'seed' must be a whole number, found None"),
        ({"step": 1.5, "seed": 0}, "line 1: 'step' must be a whole number, found 1.5"),
        ({"step": 1, "seed": 0, "loss": "a"}, "line 1: 'loss' must be a number, found 'a'"),
    ):
        files.write_jsonl(path, [line])
        with pytest.raises(UserError, match=told):
            metrics.read(path)


@pytest.mark.parametrize("content", ["5", "{}", '{"curve": 5}', '{"curve": [{}], "budgets": [{}]}'])
def test_a_report_names_a_damaged_calibration(finished: Path, tmp_path: Path, content: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / POLICY / layout.CALIBRATION).write_text(content)
    with pytest.raises(UserError, match=r"calibration\.json"):
        gather.read_calibrations(Run.open(run))
