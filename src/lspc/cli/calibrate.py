"""`lspc calibrate`: eps for a budget, from data alone."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from lspc.cli.common import BUDGETS, Json, open_dataset, print_json, shown
from lspc.errors import UserError
from lspc.tasks import DEFAULT_BUDGETS, get_task


def calibrate(
    run: Annotated[Path, tyro.conf.Positional, shown("RUN")],
    budget: Annotated[tuple[float, ...], shown("COST ...", f"the task's thresholds, else {BUDGETS}")] = (),
    data: Annotated[Path | None, shown("FILE", "the one the run learned from")] = None,
    seed: Annotated[int | None, shown("INT", "the run's first")] = None,
    updates: int = 6_000,
    figure: Annotated[Path | None, shown("PNG", "RUN/calibration.png")] = None,
    verify: Json = False,
    episodes: int = 50,
    json: Json = False,
) -> None:
    """Choose eps for a cost budget, from logged data alone.

    It learns dynamics models from the data and tries LSPC-O in them.

    Held-out episodes tell how far they can be trusted; no simulator is needed.

    The result stays with the policy: policy.act(observation, budget=10).

    Args:
        run: The folder of a finished LSPC run.
        budget: The cost an episode may have; one or several.
        data: The dataset.
        seed: Which training seed's policy.
        updates: Gradient updates of the predicting networks.
        figure: Where to save the picture of the curve.
        verify: Also try every eps in the simulator and compare.
        episodes: Episodes for each eps when verifying.
        json: Print JSON instead of a table.
    """
    from lspc import calibration
    from lspc.calibration import check, dynamics, fitted_q
    from lspc.policy import load_policy
    from lspc.report import terminal
    from lspc.report.calibration import calibration_figure
    from lspc.runs import Run

    opened = Run.open(run)
    policy = load_policy(run, seed=seed)
    dataset = open_dataset(data) if data else opened.require_dataset()
    task = get_task(opened.task) if opened.task else None
    if verify and task is None:
        raise UserError(f"{run} was not trained for a task: there is no simulator to verify it in")
    budgets = budget or (task.thresholds if task else DEFAULT_BUDGETS)
    with terminal.progress() as display:
        bar = display.add_task("predicting", total=updates, note="compiling")
        found = calibration.calibrate_policy(
            policy, dataset, dynamics_config=dynamics.Config(updates=updates),
            fitted_q_config=fitted_q.Config(updates=updates),
            on_progress=lambda what, done, all_of_it: display.update(bar, completed=done, total=all_of_it, note=what),
        )  # fmt: skip
        verified = None
        if verify and task is not None:
            bar = display.add_task("verifying", total=None, note="")
            verified = check.verify(
                run, task, found, budgets, episodes=episodes,
                on_start=lambda what, count: display.reset(bar, total=count, note=what),
                on_episode=lambda: display.advance(bar),
            )  # fmt: skip
    choices = [found.choose(asked) for asked in budgets]
    picture = figure or run / "calibration.png"
    calibration_figure(found, choices, verified, picture, task.name if task else run.name)
    if json:
        told = {"choices": [asdict(choice) for choice in choices], "calibration": asdict(found)}
        print_json({**told, "verification": asdict(verified)} if verified else told)
        return
    terminal.console.print(terminal.calibration_table(found, choices, verified))
    terminal.console.print(f"picture: {picture}", highlight=False, soft_wrap=True)
