"""A changed byte is noticed: weights, cards and calibrations carry hashes; what does not match is refused by name."""

import json
import re
import shutil
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.calibrated import add_calibration, guard_models, made
from helpers.exported import leave_run

from lspc import calibration, files
from lspc.algos.base import Spec
from lspc.calibration import fitted_q
from lspc.calibration import run as calibration_run
from lspc.calibration.certificate import run_pilot
from lspc.calibration.choosing import RULES
from lspc.data import Dataset
from lspc.deploy.export import export
from lspc.errors import UserError
from lspc.fitting import Fitted
from lspc.policy import load_policy
from lspc.runs import Run, layout
from lspc.version import __version__


@pytest.fixture
def finished(tmp_path: Path, dataset: Dataset) -> Path:
    out = leave_run(tmp_path / "run", "lspc", dataset)
    add_calibration(out, dataset)
    return out


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def drop(path: Path, *names: str) -> None:
    path.write_text(
        json.dumps({name: each for name, each in json.loads(path.read_text()).items() if name not in names})
    )


def test_every_changed_byte_of_the_weights_is_refused(finished: Path) -> None:
    path = layout.policy_folder(finished, 0) / layout.WEIGHTS
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for place in rng.integers(0, len(content), 50):
        changed = bytearray(content)
        changed[place] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        with pytest.raises(UserError, match=r"weights\.safetensors: not the weights that card\.json was written for"):
            load_policy(finished)
    path.write_bytes(content)
    assert load_policy(finished).variant == "LSPC-O"


def test_a_changed_card_is_refused(finished: Path) -> None:
    edit(layout.policy_folder(finished, 0) / layout.CARD, training_seed=3)
    with pytest.raises(UserError, match=r"card\.json: changed since it was written"):
        load_policy(finished)


def test_a_policy_of_an_earlier_version_opens_with_a_warning(finished: Path) -> None:
    drop(layout.policy_folder(finished, 0) / layout.CARD, "sha256", "weights_sha256")
    with pytest.warns(UserWarning, match=r"card\.json: no SHA-256 of its content"):
        assert load_policy(finished).variant == "LSPC-O"


def test_an_edited_bound_is_refused(finished: Path) -> None:
    path = layout.policy_folder(finished, 0) / layout.CALIBRATION
    values = json.loads(path.read_text())
    values["curve"][-1]["cost"]["high"] = 0.0
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"calibration\.json: changed since it was written .*calibrate` again"):
        load_policy(finished).for_budget(0)


def test_a_calibration_without_a_hash_asks_for_another(finished: Path) -> None:
    drop(layout.policy_folder(finished, 0) / layout.CALIBRATION, "sha256")
    with pytest.raises(UserError, match=r"calibration\.json: carries no SHA-256 .*calibrate` again"):
        load_policy(finished).for_budget(12)


def test_a_calibration_of_other_weights_is_refused(finished: Path, tmp_path: Path, dataset: Dataset) -> None:
    other = leave_run(tmp_path / "other", "lspc", dataset, scale=3.0)
    mine, theirs = (layout.policy_folder(run, 0) for run in (finished, other))
    for name in (layout.CALIBRATION, layout.FITTED_Q):
        shutil.copy(mine / name, theirs / name)
    with pytest.raises(UserError, match=r"calibration\.json: made for another weights\.safetensors"):
        load_policy(other).for_budget(12)


@pytest.mark.parametrize("change", [{"dataset": "e" * 64}, {"training_seed": 5}])
def test_a_calibration_of_another_data_set_or_seed_is_refused(
    finished: Path, dataset: Dataset, change: dict[str, Any]
) -> None:
    found = made(**({"dataset": dataset.fingerprint} | change))
    calibration.save(layout.policy_folder(finished, 0), found, guard_models(Spec.of(dataset)))
    with pytest.raises(UserError, match=r"calibration\.json: made for another data set or training seed"):
        load_policy(finished).for_budget(12)


def test_a_calibration_by_other_rules_is_told_once(finished: Path, dataset: Dataset, tmp_path: Path) -> None:
    add_calibration(finished, dataset, rules=RULES - 1)
    told = (
        rf"calibration\.json: made by other rules than this version's \({RULES - 1}, not {RULES}\).*`lspc calibrate`"
    )
    policy, seen = load_policy(finished), dataset.observations[0]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            policy.act(seen, budget=12.0)
            policy.act(seen, budget=12.0, budget_left=5.0, steps_left=5)
            export(finished, tmp_path / "policy.onnx", budget=12.0)
    (warning,) = [str(each.message) for each in heard if "rules" in str(each.message)]
    assert re.search(told, warning)
    assert "\n" not in warning


def test_a_curve_by_other_rules_is_made_anew(finished: Path, dataset: Dataset) -> None:
    settings = asdict(fitted_q.Config(updates=20))
    for rules in (RULES, RULES - 1, 0):
        made = add_calibration(finished, dataset, rules=rules, settings=settings, lspc_version=__version__)
        found = calibration_run._find_stored(load_policy(finished), dataset, 20)
        assert (found is not None and found.rules == made.rules) == (rules == RULES)


def test_the_guards_networks_must_be_those_of_the_calibration(
    finished: Path, tmp_path: Path, dataset: Dataset
) -> None:
    calibration.save(tmp_path, made(), guard_models(Spec.of(dataset), (0.0, 0.0)))
    shutil.copy(tmp_path / layout.FITTED_Q, layout.policy_folder(finished, 0) / layout.FITTED_Q)
    with pytest.raises(UserError, match=r"calibration\.json: made for another fitted_q\.safetensors"):
        _ = load_policy(finished).guard


def certify(run: Path, dataset: Dataset) -> Path:
    """A certificate of eps 0.5 for a budget of 10, where the calibration names none."""
    log = dataset.select(range(20))
    actions = load_policy(run, restriction=0.5).act(log.observations)
    free = replace(log, actions=actions, costs=np.zeros_like(log.costs))
    return run_pilot(run, 10.0, logs={0.5: free})[1]


def test_an_edited_certificate_is_refused(finished: Path, dataset: Dataset) -> None:
    path = certify(finished, dataset)
    assert load_policy(finished).certified(10.0) == 0.5
    edit(path, restriction=2.0)
    with pytest.raises(UserError, match=r"certificate-10\.json: changed since it was written .*pilot` again"):
        load_policy(finished).for_budget(10)
    with pytest.raises(UserError, match=r"certificate-10\.json: changed since it was written"):
        load_policy(finished).act(dataset.observations[0], budget=10.0)


def test_what_was_fitted_is_called_certified_only_if_it_is(finished: Path, dataset: Dataset) -> None:
    path, policy = certify(finished, dataset), load_policy(finished)
    fitted = Fitted(finished, policy, policy.calibration.choose(10.0))
    assert fitted.certificate is not None
    assert "certified" in repr(fitted)
    files.write_json(path, files.seal({**files.read_json(path), "restriction": None}))
    assert "certified" not in repr(fitted)
    edit(path, restriction=2.0)
    assert "certified" not in repr(fitted)
    with pytest.raises(UserError, match=r"certificate-10\.json: changed since it was written"):
        _ = fitted.certificate


def test_a_certificate_of_an_earlier_version_holds_with_a_warning(finished: Path, dataset: Dataset) -> None:
    path = certify(finished, dataset)
    drop(path, "sha256")
    with pytest.warns(UserWarning, match=r"certificate-10\.json: no SHA-256 of its content .*pilot` again"):
        assert load_policy(finished).certified(10.0) == 0.5


def test_a_card_that_lost_its_hash_still_knows_its_weights(finished: Path) -> None:
    folder = layout.policy_folder(finished, 0)
    drop(folder / layout.CARD, "sha256")
    with pytest.warns(UserWarning, match=r"card\.json: no SHA-256 of its content"):
        load_policy(finished)
    content = bytearray((folder / layout.WEIGHTS).read_bytes())
    content[-1] ^= 1
    (folder / layout.WEIGHTS).write_bytes(content)
    with (
        pytest.warns(UserWarning, match=r"card\.json: no SHA-256 of its content"),
        pytest.raises(UserError, match=r"weights\.safetensors: not the weights that card\.json was written for"),
    ):
        load_policy(finished)


def test_a_description_without_a_hash_opens_with_a_warning(finished: Path) -> None:
    drop(finished / layout.CONFIG, "sha256")
    with pytest.warns(UserWarning, match=r"config\.json: no SHA-256 of its content"):
        assert Run.open(finished).seeds == (0,)


def test_a_changed_description_of_a_run_is_refused(finished: Path) -> None:
    edit(finished / layout.CONFIG, seeds=[1])
    with pytest.raises(UserError, match=r"config\.json: changed since it was written"):
        Run.open(finished)
