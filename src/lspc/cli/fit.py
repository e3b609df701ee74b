"""`lspc fit`: from logs to a policy for a budget, in one command."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lspc.cli.common import AS_NAMED, Opening, open_dataset, shown
from lspc.tasks import NAMED_IN_DATA


def fit(
    log: Annotated[Path, tyro.conf.Positional, shown("LOG")],
    budget: Annotated[float, tyro.conf.arg(metavar="COST")],
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("model"),
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED,
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "cpu",
    task: Annotated[str | None, shown("TASK", "the one named in the file")] = NAMED_IN_DATA,
    settings: Annotated[
        tuple[str, ...], tyro.conf.arg(name="set", metavar="NAME=VALUE ...", help_behavior_hint="")
    ] = (),
    seed: int = 0,
    updates: int = 6_000,
    device: Annotated[Literal["cpu", "gpu", "tpu"] | None, shown("KIND", "what JAX finds best")] = None,
) -> None:
    """Learn a policy for a cost budget from logs: train, calibrate, export, report.

    If it is killed, the same command continues; another budget takes seconds.

    If the logs support no policy for the budget, it says why and exits with 1.

    Args:
        log: The dataset, as for `lspc train --data`.
        budget: The most that an episode may cost on average.
        out: The folder: the run, policy.onnx, its card policy.md, and report.html.
        preset: A named group of settings; cpu takes minutes on two cores.
        task: The task, for its settings.
        settings: Settings of LSPC that override the preset's, such as steps=2000.
        seed: The training seed.
        updates: Gradient updates of the calibration's networks.
        device: Where to compute: cpu, gpu or tpu.
    """
    from lspc import api, data
    from lspc.report import terminal
    from lspc.training.settings import parse

    dataset = open_dataset(log, opening)
    profile = data.profile(dataset, (budget,))
    (within,) = profile["within_threshold"].values()
    terminal.note(
        f"{log}: {profile['episodes']:,} episodes, {100 * within:.0f} % of them within a cost of {budget:g}, "
        f"returns {profile['returns']['min']:.4g} to {profile['returns']['max']:.4g}"
    )
    with terminal.progress() as bars:
        fitted = api.fit(
            dataset, budget, out, preset=preset, task=task, seed=seed, updates=updates, device=device,
            on_stage=bars.show, on_warning=bars.warn, **parse(settings),
        )  # fmt: skip
    terminal.output().print(terminal.calibration_table(fitted.calibration, [fitted.choice]))
    for what, path in (("policy", fitted.onnx), ("card", fitted.card), ("report", fitted.report)):
        if path is not None:
            terminal.say(f"{what + ':':<8}{path}")
    if fitted.choice.restriction is None:
        sys.exit(1)
