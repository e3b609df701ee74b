"""`lspc export`: a policy as a file that runs elsewhere."""

from pathlib import Path
from typing import Annotated

import tyro

from lspc.cli.common import shown


def export(
    run: Annotated[Path, tyro.conf.Positional, shown("RUN")],
    out: Annotated[Path, shown("ONNX", "RUN/policy.onnx")] = Path(),
    budget: Annotated[float | None, shown("COST", "none: eps stays an input")] = None,
    risk: Annotated[float | None, shown("CHANCE")] = None,
    seed: Annotated[int | None, shown("INT", "the run's first")] = None,
) -> None:
    """Write a policy as one ONNX file, with a card that says what it is.

    Args:
        run: The folder of a finished run, of any method but cdt, which depends on the episode's history.
        out: The file to write; its card gets the same name with .md.
        budget: LSPC only: fix the eps that `lspc calibrate` chose for this cost of an episode.
        risk: Bound the chance that an episode exceeds the budget, such as 0.05, instead of the mean.
        seed: Which training seed's policy.
    """
    from lspc.deploy.export import export as write
    from lspc.report import terminal

    model, card = write(run, run / "policy.onnx" if out == Path() else out, budget=budget, risk=risk, seed=seed)
    terminal.say(f"policy: {model}\ncard:   {card}")
