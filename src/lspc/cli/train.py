"""`lspc train`: the method's settings become options, with the defaults that preset and task give them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, make_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from lspc.cli.common import AS_NAMED, Opening, Switch, open_dataset, shown
from lspc.errors import UserError
from lspc.tasks import NAMED_IN_DATA, Task, task_of


@dataclass(frozen=True)
class TrainOptions:
    """What to learn from, how, and where to put it."""

    data: Annotated[Path | None, shown("LOG", "the bundled BallCircle data")] = None
    """The dataset: whatever `lspc inspect` opens, or the name of a DSRL task, whose file is then downloaded."""
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
    threads: Annotated[int | None, shown("INT", "all cores, or 1 for small networks on a busy machine")] = None
    """Threads for each seed; several seeds are trained side by side, one on each core."""
    sweep: Annotated[str | None, shown("NAME=VALUE,VALUE ...")] = None
    """Train one run per value of a setting, into OUT/NAME=VALUE; runs of LSPC with equal critics share them."""
    hold_out: float = 0.0
    """Share of the episodes to keep out of training, such as 0.2; `lspc calibrate` checks its predictions on it."""
    evaluate_every: Annotated[int | None, shown("INT")] = None
    """Evaluate the policies each time this many updates are done, for `lspc figure training-curves`."""
    evaluate_episodes: int = 5
    """Episodes of each such measurement."""
    device: Annotated[Literal["cpu", "gpu", "tpu"] | None, shown("KIND", "what JAX finds best")] = None
    """Where to compute: cpu, gpu or tpu."""
    dry_run: Switch = False
    """Check everything and say what would be done, but do nothing."""
    track: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Also send the metrics to: tensorboard, wandb, csv."""


def train(arguments: Sequence[str]) -> None:
    """Learn a policy from a dataset; if interrupted, the same command continues.

    With more --steps a finished run continues, as if started with that many.

    The method's settings follow, with the values this preset and task give them.
    """
    from lspc import algos, api, data, training
    from lspc.lanes import use_one_device_per_lane
    from lspc.report import terminal
    from lspc.report.terminal import show_training
    from lspc.training import devices, settings

    options, task, given = _parse(arguments)
    config, provenance = settings.resolve(algos.get(options.algo), options.preset, task, given)
    asked = options.threads or devices.recall_threads(options.out)
    threads = devices.choose_threads(asked, len(options.seeds), config)
    devices.use_threads(threads, len(options.seeds))
    use_one_device_per_lane(len(options.seeds))
    devices.use(options.device)
    opened = open_dataset(options.data or data.bundled_file(), options.opening)
    dataset = training.fit_to_task(opened, task)
    for warning in dataset.warnings[len(opened.warnings) :]:
        terminal.warn(warning)
    foreseen = api.foresee(
        dataset, options.out, algo=options.algo, preset=options.preset, task=options.task, seeds=options.seeds,
        sweep=options.sweep, hold_out=options.hold_out, **given,
    )  # fmt: skip
    tell = terminal.say if options.dry_run else terminal.note
    tell(
        f"{options.algo} on {dataset.source} ({len(dataset.episodes)} episodes): {config.steps} updates of "
        f"{config.batch_size}, seeds {' '.join(map(str, options.seeds))}, threads {threads}"
    )
    for name, source in provenance.items():
        tell(f"  {name} = {getattr(config, name)}  ({source})")
    for out, (words, _) in foreseen.items():
        tell(f"{out}: {words}")
    if options.dry_run:
        return
    with terminal.progress() as bars:
        finished = all(each.finished for each in foreseen.values())
        api.train(
            dataset, options.out, algo=options.algo, preset=options.preset, task=options.task, seeds=options.seeds,
            sweep=options.sweep, hold_out=options.hold_out, evaluate_every=options.evaluate_every,
            evaluate_episodes=options.evaluate_episodes, trackers=options.track,
            on_progress=None if finished else show_training(bars, config.steps), **given,
        )  # fmt: skip
    terminal.note(f"done; next: {_next_command(options.algo, task, list(foreseen))}")


def _next_command(algo: str, task: Task | None, runs: Sequence[Path]) -> str:
    from lspc import sims

    if algo == "lspc" and (task is None or not sims.is_installed(task)):  # it needs no simulator to predict its cost
        return f"lspc calibrate {runs[0]} --budget COST"
    return f"lspc evaluate {' '.join(map(str, runs))}{'' if task else ' --on MODULE:CALLABLE'}"


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
