"""`lspc train`: the method's settings become options, with the defaults that preset and task give them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, make_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.cli.common import AS_NAMED, Opening, open_dataset, shown
from lspc.errors import UserError
from lspc.tasks import NAMED_IN_DATA, Task, task_of


@dataclass(frozen=True)
class TrainOptions:
    """What to learn from, how, and where to put it."""

    data: Annotated[Path | None, shown("LOG", "the bundled BallCircle data")] = None
    """The dataset: HDF5 in DSRL's layout, NPZ, Parquet, CSV, or a folder of the last two."""
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/latest")
    """The run's folder."""
    algo: Annotated[str, tyro.conf.arg(metavar="METHOD")] = "lspc"
    """The method (`lspc algos` lists them)."""
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "default"
    """A named group of settings; `cpu` makes a good policy in minutes on two cores."""
    task: Annotated[str | None, shown("TASK", "the one named in the file")] = NAMED_IN_DATA
    """The task, for its settings and for evaluation later."""
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT ...")] = (0,)
    """Training seeds; several are trained in one program."""
    sweep: Annotated[str | None, shown("NAME=VALUE,VALUE ...")] = None
    """Train for each value of a setting, into OUT/NAME=VALUE; what LSPC's critics do not depend on shares them."""
    hold_out: float = 0.0
    """Share of the episodes that is not learned from, such as 0.2; `lspc calibrate` checks its predictions on it."""
    evaluate_every: Annotated[int | None, shown("INT")] = None
    """Measure the policies every so many updates, for `lspc figure training-curves`."""
    evaluate_episodes: int = 5
    """Episodes of each such measurement."""
    track: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Also send the metrics to: tensorboard, wandb, csv."""


def train(arguments: Sequence[str]) -> None:
    """Learn a policy from a dataset; interrupted, the same command goes on.

    The method's settings follow, with the values this preset and task give them.
    """
    from lspc import algos, api, data, training
    from lspc.report import terminal
    from lspc.training import devices, settings

    options, task, given = _parse(arguments)
    config, provenance = settings.resolve(algos.get(options.algo), options.preset, task, given)
    devices.use_one_device_per_seed(len(options.seeds))
    opened = open_dataset(options.data or data.bundled_file(), options.opening)
    dataset = training.fit_to_task(opened, task)
    for warning in dataset.warnings[len(opened.warnings) :]:
        terminal.warn(warning)
    terminal.note(
        f"{options.algo} on {dataset.source} ({len(dataset.episodes)} episodes): {config.steps} updates of "
        f"{config.batch_size}, seeds {' '.join(map(str, options.seeds))}, into {options.out}"
    )
    for name, source in provenance.items():
        terminal.note(f"  {name} = {getattr(config, name)}  ({source})")
    with terminal.progress() as bars:
        bars.show("training", 0, config.steps, "compiling")

        def show(now: training.Progress) -> None:
            losses: dict[str, float] = {}  # one of each part, which is what a line has room for
            for name, value in now.metrics.items():
                if name.endswith("loss"):
                    losses.setdefault(name.split("/")[0], value)
            told = " ".join(f"{part} {value:.2g}" for part, value in losses.items())
            for alarm in now.alarms:
                terminal.warn(alarm)
            bars.show("training", now.step, note=f"{now.updates_per_second:.0f}/s, loss: {told}")

        api.train(
            dataset, options.out, algo=options.algo, preset=options.preset, task=options.task, seeds=options.seeds,
            sweep=options.sweep, hold_out=options.hold_out, evaluate_every=options.evaluate_every,
            evaluate_episodes=options.evaluate_episodes, trackers=options.track, on_progress=show, **given,
        )  # fmt: skip
    done = [str(options.out / name) for name in settings.parse_sweep(options.sweep)]
    if task or options.algo != "lspc":
        terminal.note(f"done: lspc evaluate {' '.join(done)}{'' if task else ' --on MODULE:CALLABLE'}")
    else:  # LSPC needs no simulator to say what it will cost
        terminal.note(f"done: lspc calibrate {done[0]} --budget COST")


def _parse(arguments: Sequence[str]) -> tuple[TrainOptions, Task | None, dict[str, Any]]:
    """The options, the task, and the method's settings that differ from what preset and task give them."""
    from lspc import algos, data
    from lspc.training import settings

    first = _first_look(arguments)
    method = algos.get(first.algo)
    task = _find_task(first.task, first.data or data.bundled_file())
    resolved = settings.resolve(method, first.preset, task)
    combined = make_dataclass(
        "Train",
        [
            ("run", tyro.conf.OmitArgPrefixes[TrainOptions]),
            (first.algo, tyro.conf.OmitArgPrefixes[method.Config]),
        ],
    )
    chosen = tyro.cli(
        combined, args=arguments, prog="lspc train", description=getdoc(train),
        default=combined(TrainOptions(), resolved.config),
    )  # fmt: skip
    wanted = getattr(chosen, first.algo)
    given = {
        field.name: getattr(wanted, field.name)
        for field in fields(method.Config)
        if getattr(wanted, field.name) != getattr(resolved.config, field.name)
    }
    return chosen.run, task, given


def _find_task(name: str | None, path: Path) -> Task | None:
    """The task that `lspc.train` would take, told by the metadata: the arrays are read when the options are right."""
    from lspc import data

    try:
        metadata = data.read_metadata(path)
    except UserError:  # told when the file is opened
        metadata = {}
    return task_of(metadata, name)


def _first_look(arguments: Sequence[str]) -> TrainOptions:
    """The options alone: they decide which settings exist and what their defaults are."""
    without_help = [argument for argument in arguments if argument not in ("-h", "--help")]
    options, _ = tyro.cli(TrainOptions, args=without_help, prog="lspc train", return_unknown_args=True)
    return options
