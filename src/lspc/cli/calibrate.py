"""`lspc calibrate`: eps for a budget, from data alone."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from lspc.cli.common import AS_NAMED, BUDGETS, Opening, Switch, open_dataset, print_json, shown


def calibrate(
    run: Annotated[Path, tyro.conf.Positional, shown("RUN")],
    budget: Annotated[tuple[float, ...], shown("COST ...", f"the task's thresholds, else {BUDGETS}")] = (),
    risk: Annotated[float | None, shown("CHANCE")] = None,
    data: Annotated[Path | None, shown("FILE", "the one the run learned from")] = None,
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED,
    seed: Annotated[int | None, shown("INT", "the run's first")] = None,
    updates: int = 6_000,
    figure: Annotated[Path | None, shown("PNG", "RUN/calibration.png")] = None,
    verify: Switch = False,
    episodes: int = 50,
    json: Switch = False,
) -> None:
    """Choose eps for a cost budget, from logged data alone.

    It learns dynamics models from the data and tries LSPC-O in them.

    Held-out episodes show how far to trust them; no simulator is needed.

    The result stays with the policy: policy.act(observation, budget=10).

    Another budget reuses the same curve and takes seconds.

    Args:
        run: The folder of a finished LSPC run.
        budget: The most that an episode may cost on average; one or several.
        risk: Bound the chance that an episode exceeds the budget, such as 0.05, instead of the mean.
        data: The dataset.
        seed: Which training seed's policy.
        updates: Gradient updates of the predicting networks.
        figure: Where to save the picture of the curve.
        verify: Also try every eps in the simulator and compare.
        episodes: Episodes for each eps when verifying.
        json: Print JSON instead of a table.
    """
    from lspc.calibration.run import calibrate_run
    from lspc.report import terminal
    from lspc.report.calibration import calibration_figure

    dataset = open_dataset(data, opening) if data else None
    with terminal.progress() as bars:
        found, choices, verified, task, stored = calibrate_run(
            run, dataset, budgets=budget, risk=risk, seed=seed, updates=updates, verify=verify, episodes=episodes,
            on_stage=lambda what, done, total: bars.show("calibrating", done, total, what), on_warning=bars.warn,
        )  # fmt: skip
    if stored:
        terminal.note("using the stored curve: nothing was learned again")
    picture = figure or run / "calibration.png"
    calibration_figure(found, choices, verified, picture, task.name if task else run.name)
    if json:
        told = {"choices": [asdict(choice) for choice in choices], "calibration": asdict(found)}
        print_json({**told, "verification": asdict(verified)} if verified else told)
        return
    terminal.output().print(terminal.calibration_table(found, choices, verified))
    terminal.say(f"picture: {picture}")
