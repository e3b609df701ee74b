"""The picture of a calibration is a whole PNG, whatever was chosen; the terminal's table says the same in words."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from helpers.calibrated import UPPER, made, point
from rich.console import Console

from lspc.calibration.check import Truth, Verdict, Verification
from lspc.calibration.choosing import Calibration
from lspc.report import calibration as pictures
from lspc.report.calibration import calibration_figure
from lspc.report.terminal import calibration_table

TRUTHS = tuple(Truth(eps, high / 2, 100 * eps, True, True) for eps, high in UPPER.items())


def verified(*verdicts: Verdict, truths: tuple[Truth, ...] = TRUTHS) -> Verification:
    return Verification(50, truths, verdicts, 0.75, 1.0)


@pytest.mark.parametrize(
    ("calibration", "budgets", "truths"),
    [
        (made(), [5.0, 12.0, 40.0], None),
        (made(), [12.0], TRUTHS),
        (made(), [], None),
        (made(), [0.0], TRUTHS),
        (made(curve=(point(0.6, 10.0),)), [12.0], None),
        (made(episode_costs=(500.0,) * 30), [12.0], None),
    ],
)
def test_it_draws(
    tmp_path: Path, calibration: Calibration, budgets: list[float], truths: tuple[Truth, ...] | None
) -> None:
    path = tmp_path / "new" / "calibration.png"
    choices = [calibration.choose(budget) for budget in budgets]
    calibration_figure(calibration, choices, verified(truths=truths) if truths else None, path, "BallRun")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert content.endswith(b"IEND\xaeB`\x82")
    assert list(path.parent.iterdir()) == [path]


def test_the_same_calibration_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        calibration_figure(made(), [made().choose(12.0)], None, tmp_path / name, "BallRun")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The curve, the truth beside it, each budget's line with its words, a mark where an eps was chosen."""
    drawn = []
    monkeypatch.setattr(pictures, "save", lambda figure, path: drawn.append(figure))
    found = made()
    choices = [found.choose(budget) for budget in (5.0, 12.0)]
    calibration_figure(found, choices, verified(), tmp_path / "unused.png", "BallRun")
    cost, reward = drawn[0].axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in cost.get_lines()]
    assert (list(UPPER), [high / 2 for high in UPPER.values()]) in lines  # both the prediction and the truth
    assert sum(pair == (list(UPPER), [high / 2 for high in UPPER.values()]) for pair in lines) == 2
    assert {ys[0] for _, ys in lines if len(set(ys)) == 1 and len(ys) == 2} == {5.0, 12.0}
    assert ([0.5], [12.0]) in lines
    assert [text.get_text() for text in cost.texts] == ["budget 5: none fits", "budget 12: eps 0.5"]
    named = [text.get_text() for text in cost.get_legend().get_texts()]
    assert "50 episodes" in named[1]
    assert named[2:] == ["upper bound at the chosen eps"]
    assert [list(line.get_ydata()) for line in reward.get_lines()] == [[100 * eps for eps in UPPER]] * 2


def printed(*arguments: Any, width: int = 80) -> str:
    console = Console(width=width, color_system=None, file=StringIO())
    with console.capture() as captured:
        console.print(calibration_table(*arguments))
    return captured.get()


def test_the_table_says_what_was_chosen_and_why_not() -> None:
    found = made()
    text = printed(found, [found.choose(budget) for budget in (5.0, 12.0, 2.0)])
    words = " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "none" in words
    assert "at most 12" in words
    assert "[45, 55]" in words
    assert "true cost" not in words
    assert "are meant to hold 90% of the time: estimates, not guarantees" in words
    assert "for 2 groups that cost 10.0 to 30.0 per episode, predictions were off by at most 3.0" in words
    whole = printed(found, [found.choose(5.0), found.choose(2.0)], width=300)
    assert found.choose(5.0).why in whole
    assert found.choose(2.0).why in whole


def test_the_table_of_a_verification_has_the_truth_beside() -> None:
    found = made()
    kept = Verdict(12.0, 0.5, 9.5, 50.0, True, 1.0, 80.0, 0.375)
    none = Verdict(5.0, None, None, None, True, None, None, None)
    text = printed(found, [found.choose(12.0), found.choose(5.0)], verified(kept, none), width=120)
    words = " ".join(text.split())
    row = next(line.split() for line in text.splitlines() if line.split()[:1] == ["12"])
    assert row[-3:] == ["9.5", "1.00", "38%"]
    assert "75% of the 4 costs are within their bound and 100% of the rewards in their interval" in words
