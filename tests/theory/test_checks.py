"""The sweep finds what is known to hold and to fail; samples and figures work at a small size."""

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from lspc import theory
from lspc.theory.cmdp import occupancy
from lspc.theory.samples import SIZES, counted, imitated, random_problems

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows() -> list[theory.Row]:
    return theory.check(count=320, seed=5)


@pytest.fixture(scope="module")
def samples() -> theory.Samples:
    return theory.sample_complexity(SIZES[:7], cmdps=150, repeats=4, seed=1)


def test_corrected_forms_hold_everywhere_and_known_errors_show(rows: list[theory.Row]) -> None:
    broken = {(row.statement, row.form) for row in rows if not row.correct}
    assert broken == {
        ("Lemma 2", "printed: R_m = max r"),
        ("Lemma 3", "printed, eps' mean in d_b"),
        ("Theorem 2", "printed, pi* = best reward"),
        ("Eq. 17, step", "printed"),
        ("Eq. 17, ends", "printed"),
        ("Eq. 20", "printed: KL(pi_s || pi*)"),
        ("Theorem 3", "LSPC, endless data: no gap"),
        ("Theorem 4", "LSPC, endless data: safe"),
        ("Remark", "pi_s nearer pi* than pi_b"),
        ("Remark", "pi_s nearer pi than pi_b"),
    }
    step = next(row for row in rows if row.statement == "Eq. 17, step")
    assert 0.3 < step.holds / step.cases < 0.7


def test_a_row_holds_exactly_when_its_worst_ratio_allows(rows: list[theory.Row]) -> None:
    for row in rows:
        if row.worst is not None:
            assert row.correct == (row.worst <= 1 + 1e-6), row


def test_the_seed_decides_and_progress_is_told() -> None:
    told: list[int] = []
    first, again, other = theory.check(70, 3, told.append), theory.check(70, 3), theory.check(70, 4)
    assert told == [50, 70]
    assert [row.record() for row in first] == [row.record() for row in again]
    assert [row.record() for row in first] != [row.record() for row in other]


def test_counting_converges_to_the_truth() -> None:
    rng = np.random.default_rng(0)
    cmdp, behaviour, optimum, _ = random_problems(rng, 4, 0.9)
    model, policy = counted(rng, cmdp, behaviour, 100_000_000)
    seen = occupancy(cmdp, behaviour) > 1e-3
    np.testing.assert_allclose(policy[seen], behaviour[seen], atol=0.01)
    np.testing.assert_allclose(model.transition[seen], cmdp.transition[seen], atol=0.02)
    np.testing.assert_allclose(imitated(rng, cmdp, behaviour, optimum, 100_000_000)[seen], optimum[seen], atol=0.01)


def test_what_was_never_seen_is_not_known() -> None:
    rng = np.random.default_rng(0)
    cmdp, behaviour, _, _ = random_problems(rng, 3, 0.9)
    model, policy = counted(rng, cmdp, behaviour, 1)
    for i in range(3):
        (state,) = np.flatnonzero(policy[i].max(-1) == 1)
        action = policy[i, state].argmax()
        assert model.reward[i, state, action] == cmdp.reward[i, state, action]
        assert np.count_nonzero(model.reward[i]) <= 1
        assert model.transition[i, state, action].max() == 1


def test_errors_fall_as_one_over_the_root_and_the_gap_stays(samples: theory.Samples) -> None:
    rate = {slope.quantity: slope for slope in theory.slopes(samples)}
    for quantity in ("imitator_tv", "imitator_reward", "imitator_cost"):
        assert rate[quantity].rate == pytest.approx(0.5, abs=0.05)
    assert rate["learnt_reward"].rate == pytest.approx(0.5, abs=0.2)
    assert rate["gap_reward"].rate == pytest.approx(0, abs=0.02)
    assert all(slope.low <= slope.rate <= slope.high for slope in rate.values())


def test_the_folder_holds_records_and_figures(
    tmp_path: Path, rows: list[theory.Row], samples: theory.Samples
) -> None:
    theory.save_checks(rows, tmp_path, count=320, seed=5)
    bounds = theory.vacuity(discounts=(0.9,), restrictions=(0.25, 1), sizes=(100, 1000), cmdps=10)
    theory.save_samples(samples, bounds, tmp_path)
    figures = {path.name for path in tmp_path.glob("*.png") if path.read_bytes().endswith(b"IEND\xaeB`\x82")}
    assert figures == {f"theory-{name}.png" for name in ("ratios", "door", "samples", "vacuity")}
    stored = json.loads((tmp_path / "checks.json").read_text())
    json.dumps(stored, allow_nan=False)
    assert stored["rows"] == [row.record() for row in rows]
    assert json.loads((tmp_path / "samples.json").read_text())["sizes"] == list(samples.sizes)
    assert len((tmp_path / "vacuity.jsonl").read_text().splitlines()) == 4


def test_tables_fit_80_columns(rows: list[theory.Row], samples: theory.Samples) -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(theory.checks_table(rows))
        console.print(theory.slopes_table(theory.slopes(samples), samples))
    text = captured.get()
    for row in rows:
        assert any(row.statement in line and row.form in line for line in text.splitlines()), row
