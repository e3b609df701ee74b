"""Texts of the user are shown as they are: neither rich's markup nor a terminal's escapes in them do anything."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.calibrated import made, with_tails
from helpers.cli import Cli

from lspc import data
from lspc.calibration.check import Truth, Verdict, Verification
from lspc.calibration.choosing import Choice
from lspc.data import Dataset
from lspc.evaluation import behaviour
from lspc.report import terminal
from lspc.runs.statistics import Interval
from lspc.tasks import get_task

NASTY = "c/[/]y[red]\x1b]0;title\x07"


def test_a_path_full_of_markup_is_printed_as_it_is(dataset: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    profile = data.profile(dataset, (10,))
    terminal.output().print(terminal.profile_table({**profile, "problems": [NASTY]}, NASTY))
    terminal.say(NASTY)
    terminal.warn(NASTY)
    with terminal.progress() as bars:
        bars.show(NASTY, 1, 2, NASTY)
        bars.warn(NASTY)
    shown = capsys.readouterr()
    assert shown.out.count("c/[/]y[red]\\x1b]0;title\\x07") >= 3
    assert "c/[/]y[red]\\x1b]0;title\\x07" in shown.err
    assert "\x1b]0" not in shown.out + shown.err
    assert "\x07" not in shown.out + shown.err


def test_such_an_option_is_no_traceback(cli: Cli, tmp_path: Path) -> None:
    done = cli("inspect", tmp_path / "[/]\x1b[31m.hdf5")
    assert done.returncode == 1
    assert "[/]\\x1b[31m.hdf5: there is no such file" in done.stderr


def test_episodes_that_are_all_alike_get_no_interval(dataset: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    several = behaviour(dataset, get_task("BallRun"))
    alone = replace(several, reward=Interval(0.25, 0.25, 0.25), average_cost=Interval(0.5, 0.5, 0.5))
    terminal.output().print(terminal.evaluation_table([several], "BallRun"))
    assert f"[{several.reward.low:.2f},{several.reward.high:.2f}]" in capsys.readouterr().out
    terminal.output().print(terminal.evaluation_table([alone], "BallRun"))
    assert "0.25,0.25" not in capsys.readouterr().out


def test_a_risk_shows_what_it_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    found = made(curve=with_tails())
    verdict = Verdict(12.0, 0.02, 3.0, 2.0, kept=True, best_restriction=0.5, best_reward=50.0, reward_lost=0.96)
    truth = Truth(0.02, 3.0, 2.0, cost_inside=True, reward_inside=True)
    for verified in (None, Verification(50, (truth,), (verdict,), 1.0, 1.0)):
        terminal.output().print(terminal.calibration_table(found, [found.choose(12.0, 0.05)], verified))
        shown = capsys.readouterr().out
        assert "95%: ≤ 9 " in shown
        assert "95%: the most that all but 5% of episodes cost" in " ".join(shown.split())
    terminal.output().print(terminal.calibration_table(found, [found.choose(12.0)]))
    assert "95%" not in capsys.readouterr().out


def test_a_certified_eps_is_named_without_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    choice = Choice(12.0, 0.2, None, None, "eps 0.2: certified with 20 real episodes", certified=True)
    terminal.output().print(terminal.calibration_table(made(), [choice]))
    shown = capsys.readouterr().out
    assert "0.20" in shown
    assert "none" not in shown
    assert "Budget 12: eps 0.2: certified with 20 real episodes." in shown
