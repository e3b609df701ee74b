"""`lspc.fit` and `lspc fit`: from logs to a policy for a budget, going on after a kill at any stage."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cli import Cli

import lspc
from lspc import fitting
from lspc.calibration import certificate
from lspc.calibration.pilot import Claim, Stage
from lspc.data import Dataset, save
from lspc.errors import UserError
from lspc.fitting import Fitted
from lspc.runs import layout

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unlimited_reach")]

SMALL: dict[str, Any] = {
    "steps": 10, "hidden": (8, 8), "latent_dim": 4, "batch_size": 32, "updates": 20, "preset": "default",
}  # fmt: skip
SET = ("--set", "steps=10", "hidden=(8,8)", "latent_dim=4", "batch_size=32", "--updates", "20", "--preset", "default")
BUDGET = 1e6


@pytest.fixture(scope="module")
def logs(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "plant.npz"
    save(dataset, path)
    return path


@pytest.fixture(scope="module")
def fitted(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    return lspc.fit(logs, BUDGET, tmp_path_factory.mktemp("fitted") / "model", **SMALL)


def test_one_call_gives_policy_calibration_onnx_card_and_report(fitted: Fitted, dataset: Dataset) -> None:
    action = fitted.predict(dataset.observations[0])
    eps = fitted.choice.restriction
    assert eps is not None
    expected = lspc.load_policy(fitted.folder, restriction=eps).act(dataset.observations[0])
    np.testing.assert_array_equal(action, expected)
    assert fitted.predict(dataset.observations[:5]).shape == (5, dataset.action_dim)
    assert fitted.onnx is not None
    assert fitted.card is not None
    assert f"{BUDGET:g}" in fitted.card.read_text()
    assert fitted.report.read_text().startswith("<!")
    assert fitted.certificate is None
    assert fitted.calibration.choose(BUDGET) == fitted.choice
    assert re.match(r"Fitted\('.*model', budget 1e\+06: eps [\d.]+: cost estimated from logs", repr(fitted))
    again = Fitted.load(fitted.folder)
    np.testing.assert_array_equal(again.predict(dataset.observations[0]), action)


def contents(folder: Path) -> dict[str, bytes]:
    """All but the report, which tells when it was made."""
    names = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".html")
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


class Killed(BaseException):
    """Like a kill: nobody catches it."""


def killer(stage: str) -> Callable[[str, int, int, str], None]:
    def hear(now: str, done: int, total: int, words: str) -> None:
        if now == stage:
            raise Killed

    return hear


@pytest.mark.parametrize("stage", ["training", "calibrating", "exporting", "reporting"])
def test_what_was_killed_goes_on_and_ends_alike(fitted: Fitted, logs: Path, tmp_path: Path, stage: str) -> None:
    out = tmp_path / "model"
    with pytest.raises(Killed):
        lspc.fit(logs, BUDGET, out, on_stage=killer(stage), **SMALL)
    with pytest.raises(UserError, match="it holds no finished `lspc fit`; run that again to continue"):
        Fitted.load(out)
    stages: list[str] = []
    lspc.fit(logs, BUDGET, out, on_stage=lambda now, done, total, words: stages.append(f"{now}: {words}"), **SMALL)
    assert ("calibrating: stored curve" in stages) == (stage in ("exporting", "reporting"))
    assert contents(out) == contents(fitted.folder)


def test_a_budget_that_allows_no_policy_leaves_none_of_another_budget(
    cli: Cli, logs: Path, dataset: Dataset, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    done = cli("fit", logs, "--budget", BUDGET, "--out", out, *SET)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        f"policy: {out / 'policy.onnx'}", f"card:   {out / 'policy.md'}", f"report: {out / 'report.html'}",
    ]  # fmt: skip
    assert max(len(line) for line in done.stdout.splitlines()[:-3]) <= 80
    assert f"{logs}: {len(dataset.episodes)} episodes, 100 % of them within a cost of 1e+06" in done.stderr
    refused = cli("fit", logs, "--budget", "0", "--out", out, *SET)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert "Budget 0:" in refused.stdout
    assert not (out / "policy.onnx").exists()
    assert not (out / "policy.md").exists()
    assert json.loads((out / fitting.DONE).read_text()) == {"budget": 0.0, "seed": 0}
    with pytest.raises(UserError, match=r"^budget 0: "):
        Fitted.load(out).predict(dataset.observations[0])
    wrong = cli("fit", logs, "--budget", "-1", "--out", tmp_path / "none", *SET)
    assert "a budget must be a number of 0 or more, not -1" in wrong.stderr.splitlines()[-1]
    assert not (tmp_path / "none").exists()


def test_a_pilot_that_failed_takes_the_exported_policy_away(fitted: Fitted, logs: Path, tmp_path: Path) -> None:
    """The logs name an eps for this budget; real episodes prove it and every smaller one too costly."""
    out = Path(shutil.copytree(fitted.folder, tmp_path / "model"))
    folder = layout.policy_folder(out, 0)
    claim = Claim(BUDGET, 2 * BUDGET, "stated with --bound", 0.9, "betting")
    stage = Stage(0.02, (1.5 * BUDGET,) * 40, (1.0,) * 40, False, 1.0, 2 * BUDGET, True, None)
    certificate.save(folder, certificate.Certificate(
        claim, None, (stage,), (), "", (), 0, "f", certificate.hash_weights(folder), "0", ""
    ))  # fmt: skip
    again = lspc.fit(logs, BUDGET, out, **SMALL)
    assert (again.choice.restriction, again.onnx, again.card) == (None, None, None)
    for refused in (again, Fitted.load(out)):
        assert "but a pilot found eps 0.02: mean cost 1.5e+06 in 40 real episodes" in repr(refused)
        with pytest.raises(UserError, match=r"^budget 1e\+06: the logs suggest eps .*, but a pilot found eps 0\.02"):
            refused.predict(np.zeros(7))


def test_a_folder_that_learned_from_all_episodes_is_refused_by_name(logs: Path, tmp_path: Path) -> None:
    """As older versions did: what the policy has seen cannot check it."""
    settings = {name: value for name, value in SMALL.items() if name != "updates"}
    out = lspc.train(logs, tmp_path / "model", **settings)
    with pytest.raises(UserError, match=r"model.*hold_out"):
        lspc.fit(logs, BUDGET, out, **SMALL)
