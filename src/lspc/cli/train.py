"""`lspc train`: the method's settings become options, with the defaults that preset and task give them."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, make_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.cli.common import open_dataset, shown
from lspc.errors import UserError
from lspc.tasks import NAMED_IN_DATA, Task, task_of


@dataclass(frozen=True)
class TrainOptions:
    """What to learn from, how, and where to put it."""

    data: Annotated[Path | None, shown("FILE", "the bundled BallCircle data")] = None
    """The dataset: HDF5 in DSRL's layout, or NPZ."""
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
    from lspc import algos, data, training
    from lspc.report import terminal
    from lspc.training import devices, settings

    first = _first_look(arguments)
    devices.use_one_device_per_seed(len(first.seeds))
    method = algos.get(first.algo)
    path = first.data or data.bundled_file()
    known = _find_task(first.task, path)
    resolved = settings.resolve(method, first.preset, known)
    combined = make_dataclass(
        "Train",
        [
            ("run", tyro.conf.OmitArgPrefixes[TrainOptions]),
            (first.algo, tyro.conf.OmitArgPrefixes[method.Config]),
        ],
    )
    chosen = tyro.cli(
        combined, args=arguments, prog="lspc train", description=getdoc(train),
        default=combined(first, resolved.config),
    )  # fmt: skip
    wanted = getattr(chosen, first.algo)
    given = {
        field.name: getattr(wanted, field.name)
        for field in fields(method.Config)
        if getattr(wanted, field.name) != getattr(resolved.config, field.name)
    }
    config, provenance = settings.resolve(method, first.preset, known, given)
    runs = {
        first.out / name: settings.resolve(method, first.preset, known, {**given, **swept})
        for name, swept in settings.parse_sweep(first.sweep).items()
    }
    dataset = open_dataset(path)
    terminal.errors.print(
        f"{first.algo} on {path} ({len(dataset.episodes)} episodes): {config.steps} updates of {config.batch_size}, "
        f"seeds {' '.join(map(str, first.seeds))}, into {first.out}",
        highlight=False,
    )
    for name, source in provenance.items():
        terminal.errors.print(f"  {name} = {getattr(config, name)}  ({source})", highlight=False)
    with terminal.progress() as display:
        bar = display.add_task("training", total=config.steps, note="compiling")

        def show(now: training.Progress) -> None:
            losses: dict[str, float] = {}  # one of each part, which is what a line has room for
            for name, value in now.metrics.items():
                if name.endswith("loss"):
                    losses.setdefault(name.split("/")[0], value)
            told = " ".join(f"{part} {value:.2g}" for part, value in losses.items())
            display.update(bar, completed=now.step, note=f"{now.updates_per_second:.0f}/s, loss: {told}")

        # What cannot be shared is trained run by run.
        alone = training.first_unshared_setting(first.algo, [run.config for run in runs.values()])
        with ExitStack() as stack:
            interim = _interim(first, known, stack)
            for part in [{out: run} for out, run in runs.items()] if alone else [runs]:
                training.train_sweep(
                    dataset, part, method=first.algo, seeds=first.seeds, task=known, trackers=first.track,
                    interim=interim, on_progress=show,
                )  # fmt: skip
    done = " ".join(map(str, runs))
    terminal.errors.print(f"done: lspc evaluate {done}", highlight=False, soft_wrap=True)


def _interim(options: TrainOptions, task: Any, stack: ExitStack) -> Any:
    """What measures the policies while they are trained, if that was asked for."""
    from lspc import evaluation, training
    from lspc.sims.pool import Pool

    if options.evaluate_every is None:
        return None
    if min(options.evaluate_every, options.evaluate_episodes) < 1:
        raise UserError("--evaluate-every and --evaluate-episodes must be 1 or more")
    if task is None:
        raise UserError("--evaluate-every needs a simulator: say --task TASK (see `lspc tasks`)")
    pool = stack.enter_context(Pool(task))
    return training.Interim(options.evaluate_every, evaluation.Rollouts(pool, task, options.evaluate_episodes))


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
