"""`lspc figure`: one of the paper's figures, or all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lspc.cli.common import open_dataset, shown
from lspc.errors import UserError
from lspc.tasks import DEFAULT_BUDGETS, NAMED_IN_DATA, task_of


def figure(
    name: Annotated[
        Literal[
            "training-curves",
            "action-space",
            "restriction-sweep",
            "converse",
            "lambda",
            "expectile",
            "transfer",
            "maps",
            "dataset-profile",
            "all",
        ],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="NAME"),
    ],
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, shown("[RUN ...]")] = (),
    out: Annotated[Path, shown("PNG", "NAME.png; all: the folder figures/TASK")] = Path(),
    policy: Annotated[str, tyro.conf.arg(metavar="POLICY")] = "LSPC-O",
    data: Annotated[Path | None, shown("FILE", "the one the run learned from")] = None,
    seeds: Annotated[tuple[int, ...], shown("INT ...", "the run's first; all: 0 1")] = (),
    task: Annotated[str | None, shown("TASK", "the one named in the data")] = NAMED_IN_DATA,
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "cpu",
) -> None:
    """Draw one of the paper's figures.

    training-curves RUN ...: reward and cost against updates.

    action-space RUN: what CVAE, LSPC-S and LSPC-O do in one state.

    restriction-sweep RUN: reward and cost of LSPC-O over eps.

    converse RUN CONVERSE_RUN: LSPC-O and converse LSPC-O over eps.

    lambda RUN ...: runs that differ in cost_temperature alone.

    expectile RUN ...: runs that differ in expectile alone.

    transfer RUN ...: reward and cost on every task they were evaluated on.

    maps: the roads of MetaDrive's easy, medium and hard tasks.

    dataset-profile --data FILE: cost and reward of a dataset's episodes.

    all [--data FILE]: train what is needed; draw all but transfer and maps.

    Args:
        name: One of the names above.
        runs: The run folders a figure is made from.
        out: The picture to write.
        policy: Which of the runs' policies (transfer).
        data: The dataset (action-space, dataset-profile, all; without it all takes the bundled BallCircle data).
        seeds: Which training seed's policy (action-space), or the seeds to train (all).
        task: The task to measure on (all).
        preset: The settings to train with (all).
    """
    from lspc.report import figures, terminal

    takes = {"maps": 0, "dataset-profile": 0, "all": 0, "action-space": 1, "restriction-sweep": 1, "converse": 2}
    if len(runs) != takes.get(name, len(runs)):
        usage = {0: "", 1: " RUN", 2: " RUN CONVERSE_RUN"}[takes[name]]
        usage += " --data FILE" if takes[name] == 0 and name != "maps" else ""
        raise UserError(f"{name} was given {len(runs)} runs; the command is: lspc figure {name}{usage}")
    picture = Path(f"{name}.png") if out == Path() else out
    if name == "all":
        _figure_set(task, data, out, seeds or (0, 1), preset)
        return
    if name == "maps":
        figures.maps_figure(picture)
    elif name == "dataset-profile":
        if data is None:
            raise UserError("name the dataset: lspc figure dataset-profile --data FILE")
        dataset = open_dataset(data)
        known = task_of(dataset.metadata)
        budgets = known.thresholds if known else DEFAULT_BUDGETS
        figures.dataset_profile_figure(dataset, budgets, picture, title=known.name if known else data.name)
    elif name == "transfer":
        from lspc.report.transfer import transfer_figure

        transfer_figure(runs, picture, policy)
    elif name == "training-curves":
        from lspc.report.curves import training_curves_figure

        training_curves_figure(runs, picture)
    elif name == "action-space":
        from lspc.report.actions import action_space_figure
        from lspc.runs import Run

        dataset = open_dataset(data) if data else Run.open(runs[0]).require_dataset()
        action_space_figure(runs[0], dataset, picture, seeds[0] if seeds else None)
    else:
        from lspc.report import sweeps

        if name == "restriction-sweep":
            sweeps.restriction_sweep_figure(runs[0], picture)
        elif name == "converse":
            sweeps.converse_figure(runs[0], runs[1], picture)
        else:
            sweeps.setting_figure(runs, {"lambda": "cost_temperature"}.get(name, name), picture)
    terminal.console.print(f"picture: {picture}", highlight=False, soft_wrap=True)


def _figure_set(name: str | None, data: Path | None, out: Path, seeds: Sequence[int], preset: str) -> None:
    from lspc.data import bundled_file
    from lspc.report import figure_set, terminal
    from lspc.training import devices

    path = data or bundled_file()
    dataset = open_dataset(path)
    known = task_of(dataset.metadata, name)
    if known is None:
        raise UserError(f"{path} does not say of which task it is: add --task TASK (see `lspc tasks`)")
    if data is None and known != task_of(dataset.metadata):
        raise UserError(f"name the dataset: lspc figure all --task {known.name} --data FILE")
    devices.use_one_device_per_seed(len(seeds))
    with terminal.progress(counted=True) as display:
        bar = display.add_task("figures", total=None, note="compiling")

        def show(stage: figure_set.Stage) -> None:
            display.update(bar, completed=stage.done, total=stage.total, note=stage.what)

        folder = Path("figures") / known.name if out == Path() else out
        pictures = figure_set.figure_set(known, dataset, folder, preset=preset, seeds=seeds, on_stage=show)
    for picture in pictures:
        terminal.console.print(f"picture: {picture}", highlight=False, soft_wrap=True)
