"""`lspc pilot`: a few real episodes turned into a certificate."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lspc.cli.common import AS_NAMED, Opening, Switch, open_dataset, print_json, shown


def pilot(
    run: Annotated[Path, tyro.conf.Positional, shown("RUN")],
    budget: float,
    on: Annotated[str | None, shown("TASK", "the one the run was trained for")] = None,
    log: Annotated[tuple[str, ...], shown("EPS=FILE ...")] = (),
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED,
    restrictions: Annotated[tuple[float, ...], shown("EPS ...", "up to the calibration's")] = (),
    episodes: int = 100,
    confidence: float = 0.9,
    bound: Annotated[float | None, shown("COST", "steps x largest cost of one")] = None,
    test: Literal["betting", "hoeffding-bentkus"] = "betting",
    seed: Annotated[int | None, shown("INT", "the run's first")] = None,
    workers: Annotated[int | None, shown("INT", "one per core")] = None,
    json: Switch = False,
) -> None:
    """Prove with real episodes that an episode costs at most the budget on average.

    LSPC-O is tried from the smallest eps up to the first that fails.

    The certificate stays with the policy; without one the exit code is 1.

    Args:
        run: The folder of a finished LSPC run.
        budget: The most that an episode may cost on average.
        on: The simulator's task, for episodes that are run now.
        log: Episodes that were recorded elsewhere, one file for each eps; the options below say what is in them.
        restrictions: The eps to try in the simulator.
        episodes: Episodes for each eps at most (betting stops as soon as it can).
        confidence: How sure the certificate has to be.
        bound: The largest cost that a single episode can have.
        test: hoeffding-bentkus is for a number of episodes fixed beforehand.
        seed: Which training seed's policy.
        workers: Simulator processes; 0 runs all episodes in this one.
        json: Print the certificate as JSON.
    """
    from lspc.calibration.certificate import run_pilot
    from lspc.calibration.pilot import parse_logs
    from lspc.report import terminal

    with terminal.progress() as bars:
        found, path = run_pilot(
            run, budget, task=on, logs={eps: open_dataset(file, opening) for eps, file in parse_logs(log).items()},
            restrictions=restrictions, episodes=episodes, confidence=confidence, bound=bound, test=test, seed=seed,
            workers=workers, command=shlex.join(["lspc", *sys.argv[1:]]),
            on_stage=lambda what, done, total: bars.show("pilot", done, total, what),
        )  # fmt: skip
    if json:
        print_json(asdict(found))
    else:
        terminal.output().print(terminal.certificate_table(found))
        terminal.say(f"{found.explain().splitlines()[-1]}\ncertificate: {path}")
    if found.restriction is None:
        sys.exit(1)
