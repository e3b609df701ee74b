"""`lspc figure`: one of the paper's figures, or all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.cli.common import AS_NAMED, Opening, open_dataset, shown
from lspc.report.figures import ALL, FIGURES, draw, find
from lspc.tasks import NAMED_IN_DATA


def figure(
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")],
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, shown("[RUN ...]")] = (),
    out: Annotated[Path, shown("PNG", "NAME.png; all: the folder figures/TASK")] = Path(),
    policy: Annotated[str, tyro.conf.arg(metavar="POLICY")] = "LSPC-O",
    data: Annotated[Path | None, shown("LOG", "the one the run learned from")] = None,
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED,
    seeds: Annotated[tuple[int, ...], shown("INT ...", "the run's first; all: 0 1")] = (),
    task: Annotated[str | None, shown("TASK", NAMED_IN_DATA)] = NAMED_IN_DATA,
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "cpu",
) -> None:
    """Draw one of the paper's figures.

    FIGURES

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
    from lspc.report import terminal

    dataset, target = open_dataset(data, opening) if data else None, None if out == Path() else out
    if find(name, len(runs), dataset is not None) is ALL:
        pictures = _draw_all(dataset, target, task, seeds or (0, 1), preset)
    else:
        pictures = [draw(name, target, runs=runs, dataset=dataset, policy=policy, seed=seeds[0] if seeds else None)]
    for picture in pictures:
        terminal.say(f"picture: {picture}")


def _draw_all(dataset: Any, out: Path | None, task: str | None, seeds: Sequence[int], preset: str) -> list[Path]:
    from lspc.lanes import use_one_device_per_lane
    from lspc.report import figure_set, terminal

    use_one_device_per_lane(len(seeds))
    with terminal.progress(counted=True) as bars:
        return figure_set.draw_set(
            dataset, out, task=task, preset=preset, seeds=seeds,
            on_stage=lambda now: bars.show("figures", now.done, now.total, now.what),
        )  # fmt: skip


_LINES = [f"{each.takes}: {each.about}." for each in (*FIGURES.values(), ALL)]
figure.__doc__ = (figure.__doc__ or "").replace("FIGURES", "\n\n    ".join(_LINES))
