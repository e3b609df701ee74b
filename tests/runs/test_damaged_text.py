"""A run with changed bytes in its texts: what is asked of it works, or our own error names the file."""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.attacks import change_bytes
from helpers.calibrated import add_calibration
from helpers.exported import leave_run
from helpers.made_runs import make_record

from lspc import files, policy
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.runs import Run, layout, record

MUTATIONS = 60
POLICY = "policy/seed-0"
QUESTIONS: dict[str, Callable[[Path], object]] = {
    layout.CONFIG: lambda run: Run.open(run).method_config(),
    layout.METRICS: lambda run: files.read_jsonl(run / layout.METRICS),
    layout.EVALUATIONS: lambda run: Run.open(run).records(),
    f"{POLICY}/{layout.CARD}": lambda run: policy._read_card(run / POLICY),
    f"{POLICY}/{layout.CALIBRATION}": lambda run: policy.calibration.load(run / POLICY),
}
SEALED = (layout.CONFIG, f"{POLICY}/{layout.CARD}", f"{POLICY}/{layout.CALIBRATION}")


@pytest.fixture(scope="module")
def finished(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = leave_run(tmp_path_factory.mktemp("runs") / "run", "lspc", dataset)
    add_calibration(out, dataset)
    files.write_jsonl(out / layout.METRICS, [{"step": step, "seed": 0, "loss": step / 7} for step in range(20)])
    record.write(out / layout.EVALUATIONS, [make_record(reward, 2.0) for reward in range(10)])
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
