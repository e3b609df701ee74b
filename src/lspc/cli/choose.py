"""`lspc choose`: among policies of any runs and methods, the one for a budget, from data alone."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from lspc.cli.common import AS_NAMED, Opening, Switch, open_dataset, print_json, shown


def choose(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, shown("RUN ...")],
    budget: float,
    data: Annotated[Path | None, shown("FILE", "the one the runs learned from")] = None,
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED,
    seed: Annotated[int | None, shown("INT", "each run's first")] = None,
    updates: int = 6_000,
    json: Switch = False,
) -> None:
    """Choose among runs of any methods for a cost budget, from logged data alone.

    All are tried in the same models of the plant, LSPC-O at every eps.

    Of those estimated to keep the budget, it names the most rewarding.

    Args:
        runs: Folders of finished runs that learned from the same data.
        budget: The most that an episode may cost on average.
        data: The dataset.
        seed: Which training seed's policies.
        updates: Gradient updates of the models.
        json: Print JSON instead of a table.
    """
    from lspc.calibration.comparing import choose_policy
    from lspc.report import terminal

    dataset = open_dataset(data, opening) if data else None
    with terminal.progress() as bars:
        found = choose_policy(
            runs, budget, dataset, seed=seed, updates=updates,
            on_progress=lambda what, done, total: bars.show("choosing", done, total, what), on_warning=bars.warn,
        )  # fmt: skip
    if json:
        print_json(asdict(found))
        return
    terminal.output().print(terminal.comparison_table(found))
    terminal.say(found.why)
