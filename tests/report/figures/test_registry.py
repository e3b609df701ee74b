"""The registry of figures: every entry has its file, and nothing heavy is imported to list them."""

import importlib
import subprocess
import sys

import pytest

from lspc.errors import UserError
from lspc.report import figure_set
from lspc.report.figures import ALL, FIGURES, find


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_file_that_draws_it(name: str) -> None:
    module = importlib.import_module(f"lspc.report.figures.{FIGURES[name].file}")
    assert callable(module.draw)


def test_the_set_trains_every_run_that_a_figure_of_it_is_drawn_from() -> None:
    trained = {*figure_set.TOGETHER, *figure_set.ALONE}
    wanted = {run for figure in FIGURES.values() for run in figure.set_runs or ()}
    assert wanted == trained
    for figure in FIGURES.values():
        if figure.set_runs is not None:
            assert find(figure.name, len(figure.set_runs), has_data=True) is figure


def test_the_wrong_number_of_runs_and_missing_data_are_refused() -> None:
    for name, runs, has_data, told in [
        ("converse", 1, False, "converse was given 1 runs; the command is: lspc figure converse RUN CONVERSE_RUN"),
        ("transfer", 0, False, "transfer was given 0 runs; the command is: lspc figure transfer RUN ..."),
        ("maps", 2, False, "maps was given 2 runs; the command is: lspc figure maps"),
        ("all", 1, True, "all was given 1 runs; the command is: lspc figure all [--data FILE]"),
        ("dataset-profile", 0, False, "name the dataset: lspc figure dataset-profile --data FILE"),
        ("portrait", 0, False, f"unknown figure 'portrait': choose one of {', '.join(FIGURES)}, all"),
    ]:
        with pytest.raises(UserError) as refused:
            find(name, runs, has_data)
        assert str(refused.value) == told
    assert find("all", 0, has_data=False) is ALL
    assert find("transfer", 3, has_data=False) is FIGURES["transfer"]


@pytest.mark.process
def test_listing_them_needs_neither_matplotlib_nor_jax() -> None:
    look = "import sys, lspc.cli.figure; print(sorted({'jax', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
