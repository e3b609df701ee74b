"""The command line: one thin function per verb. Heavy imports wait until a verb needs them."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from lspc.errors import UserError
from lspc.version import __version__

Data = Annotated[Path, tyro.conf.Positional]


def doctor(json: bool = False) -> None:
    """Say what is installed, what is missing, and the command that mends it.

    Args:
        json: Print JSON instead of a table.
    """
    from lspc.doctor import checks
    from lspc.report import terminal

    found = checks()
    if json:
        _print_json([asdict(check) for check in found])
    else:
        terminal.console.print(terminal.doctor_table(found))
    if not all(check.ok or check.optional for check in found):
        sys.exit(1)


def tasks(json: bool = False) -> None:
    """List DSRL's 38 tasks and whether their simulator is here.

    Args:
        json: Print JSON instead of a table.
    """
    from lspc import sims
    from lspc.tasks import all_tasks

    listed = all_tasks()
    installed = {task.name: sims.installed(task) for task in listed}
    if json:
        keys = "name suite episode_length observation_dim action_dim reward_min reward_max thresholds dataset_file"
        rows = [{key: getattr(task, key) for key in keys.split()} for task in listed]
        _print_json([{**row, "installed": installed[row["name"]]} for row in rows])
        return
    from lspc.report import terminal

    terminal.console.print(terminal.tasks_table(listed, installed))


def inspect(
    path: Data,
    task: str | None = None,
    thresholds: tuple[float, ...] | None = None,
    figure: Path | None = None,
    json: bool = False,
) -> None:
    """Check a dataset and show its profile: sizes, returns, costs, share of safe episodes, problems.

    Args:
        path: An HDF5 file in DSRL's layout, or an NPZ file with the same arrays.
        task: The task, for its cost budgets; by default the one named in the file.
        thresholds: Cost budgets to judge by, instead of the task's.
        figure: Where to save the picture of the episodes (default: beside the file, as NAME.profile.png).
        json: Print JSON instead of a table.
    """
    from lspc import data
    from lspc.report import figures, terminal

    dataset, problems = data.examine(path)
    if dataset is None:
        for problem in problems:
            print(f"lspc: {problem.message}", file=sys.stderr)
        sys.exit(1)
    known = _task(task, path)
    budgets = thresholds or (known.thresholds if known else (10, 20, 40))
    profile = data.profile(dataset, budgets)
    picture = figure or path.with_suffix(".profile.png")
    figures.dataset_profile_figure(dataset, budgets, picture, title=known.name if known else path.name)
    if json:
        _print_json(profile)
        return
    terminal.console.print(terminal.profile_table(profile, str(path)))
    terminal.console.print(f"picture: {picture}", highlight=False)


def collect(
    task: str,
    out: Path,
    agents: int = 8,
    steps: int = 150_000,
    episodes: int | None = None,
    seed: int = 0,
    compact: bool = False,
    workers: int | None = None,
) -> None:
    """Make a dataset with safe and unsafe episodes: train a population of PPO-Lagrangian agents and record it.

    Interrupted, it keeps the agents that are done; the same command goes on from there.

    Args:
        task: A task whose simulator is installed (see `lspc tasks`).
        out: The file to write: .hdf5 or .npz.
        agents: Size of the population; cost limits run from none to zero.
        steps: Simulator steps per agent.
        episodes: Keep at most this many, spread over the cost x reward plane (default: as many as DSRL's file).
        seed: The same seed gives the same file.
        compact: Round every number to about 3.6 digits: half the file size.
        workers: Agents trained at a time (default: one per core).
    """
    from lspc import collecting, data
    from lspc.report import terminal
    from lspc.tasks import get_task

    known = get_task(task)
    with terminal.progress() as display:
        bars = [display.add_task(f"agent {i}", total=steps, note="waiting") for i in range(agents)]

        def show(agent: int, now: dict[str, Any]) -> None:
            note = f"reward {now['reward']:.1f}, cost {now['cost']:.1f}" if "reward" in now else "kept from before"
            display.update(bars[agent], completed=now["steps"], note=note)

        dataset = collecting.collect(
            known, out, agents=agents, steps=steps, episodes=episodes, seed=seed, compact=compact, workers=workers,
            on_progress=show,
        )  # fmt: skip
    terminal.console.print(terminal.profile_table(data.profile(dataset, known.thresholds), str(out)))


@dataclass(frozen=True)
class TrainOptions:
    """Learn a policy from a dataset. Run the same command again to go on with an interrupted run.

    The settings of the method follow below, with the values that this method, preset and task give them.
    """

    data: Path | None = None
    """The dataset: HDF5 in DSRL's layout or NPZ. Without it, the bundled BallCircle data."""
    out: Path = Path("runs/latest")
    """The run's folder."""
    algo: str = "lspc"
    """The method: lspc or bc."""
    preset: str = "default"
    """A named group of settings; `cpu` makes a good policy in minutes on two cores."""
    task: str | None = None
    """The task, for its settings and for evaluation later; by default the one named in the file, if any."""
    seeds: tuple[int, ...] = (0,)
    """Training seeds; several are trained in one program."""
    tensorboard: bool = False
    """Also write TensorBoard files."""


def train(arguments: Sequence[str]) -> None:
    from lspc import algos, data, settings, training
    from lspc.report import terminal

    first = _first_look(arguments)
    method = algos.get(first.algo)
    path = first.data or data.bundled()
    known = _task(first.task, path)
    resolved = settings.resolve(method, first.preset, known)
    combined = make_dataclass(
        "Train",
        [
            ("options", tyro.conf.OmitArgPrefixes[TrainOptions]),
            ("settings", tyro.conf.OmitArgPrefixes[method.Config]),
        ],
    )
    combined.__doc__ = TrainOptions.__doc__
    chosen = tyro.cli(
        combined, args=arguments, prog="lspc train", default=combined(first, resolved.config),
    )  # fmt: skip
    given = {
        field.name: getattr(chosen.settings, field.name)
        for field in fields(method.Config)
        if getattr(chosen.settings, field.name) != getattr(resolved.config, field.name)
    }
    config, provenance = settings.resolve(method, first.preset, known, given)
    dataset = _open(path)
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
            losses = {name: value for name, value in now.metrics.items() if name.endswith("loss")}
            told = ", ".join(f"{name.removesuffix('_loss')} {value:.3g}" for name, value in losses.items())
            display.update(bar, completed=now.step, note=f"{now.updates_per_second:.0f} updates/s, loss: {told}")

        training.train(
            dataset, first.out, config, method=first.algo, seeds=first.seeds, task=known, provenance=provenance,
            tensorboard=first.tensorboard, on_progress=show,
        )  # fmt: skip
    terminal.errors.print(f"done: lspc evaluate {first.out}", highlight=False)


def _first_look(arguments: Sequence[str]) -> TrainOptions:
    """The options alone: they decide which settings exist and what their defaults are."""
    without_help = [argument for argument in arguments if argument not in ("-h", "--help")]
    options, _ = tyro.cli(TrainOptions, args=without_help, prog="lspc train", return_unknown_args=True)
    return options


def evaluate(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    task: str | None = None,
    episodes: int = 20,
    policies: tuple[str, ...] | None = None,
    actions: tuple[str, ...] = ("deterministic", "sampled"),
    data: Path | None = None,
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Roll out a run's policies in the simulator and print their reward and cost beside the data's own.

    Args:
        runs: One or more run folders; their last checkpoint is what counts.
        task: The task to evaluate on (default: the one the run was trained for).
        episodes: Episodes per policy and training seed.
        policies: Which of the run's policies, such as LSPC-O (default: all).
        actions: deterministic, sampled, or both.
        data: The dataset to compare with (default: the one the run names, if it is still there).
        workers: Simulator processes (default: one per core; 0: none, all in this process).
        json: Print JSON instead of a table.
    """
    from lspc import evaluation, files
    from lspc.report import terminal
    from lspc.tasks import get_task

    if not runs:
        raise UserError("name at least one run folder, such as runs/latest")
    descriptions = [files.read_run(run) for run in runs]
    name = task or descriptions[0]["task"]
    if name is None:
        raise UserError(f"{runs[0]} was not trained for a task: say --task NAME (see `lspc tasks`)")
    known = get_task(name)
    records: list[dict[str, Any]] = []
    with terminal.progress(counted=True) as display:
        bar = display.add_task("evaluating", total=None, note="")
        for run in runs:
            records += evaluation.evaluate(
                run, known, episodes=episodes, variants=policies, modes=actions, workers=workers,
                on_start=lambda what, count, run=run: display.reset(bar, total=count, note=f"{run}: {what}"),
                on_episode=lambda: display.advance(bar),
                on_trouble=lambda line: display.console.print(f"[yellow]{line}", highlight=False),
            )  # fmt: skip
    dataset = _dataset_of(descriptions[0], data)
    rows = evaluation.summarise(records, known, dataset)
    rows = [evaluation.behaviour(dataset, known), *rows] if dataset else rows
    if json:
        _print_json([asdict(row) for row in rows])
    else:
        terminal.console.print(terminal.evaluation_table(rows, known))


def _dataset_of(description: dict[str, Any], path: Path | None) -> Any:
    from lspc import data

    if path is not None:
        return _open(path)
    source = Path(description["dataset"]["source"])
    if not source.exists():
        return None
    dataset = data.load(source)
    return dataset if dataset.fingerprint == description["dataset"]["fingerprint"] else None


def _open(path: Path) -> Any:
    from lspc import data
    from lspc.report import terminal

    dataset = data.load(path)
    for warning in dataset.warnings:
        terminal.errors.print(f"[yellow]{warning}", highlight=False)
    return dataset


def _task(name: str | None, path: Path) -> Any:
    from lspc import data
    from lspc.tasks import get_task

    name = name or str(data.read_metadata(path).get("task", ""))
    return get_task(name) if name else None


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


VERBS: dict[str, tuple[Callable[..., None], str]] = {
    "inspect": (inspect, "check a dataset and show what is in it"),
    "collect": (collect, "make a dataset in a simulator"),
    "train": (train, "learn a policy from a dataset"),
    "evaluate": (evaluate, "measure a run's policies in the simulator"),
    "tasks": (tasks, "list the benchmark's tasks"),
    "doctor": (doctor, "say what is installed and how to mend what is not"),
}

HELP = f"""lspc {__version__}: safe policies from logged, cost-labelled data

usage: lspc VERB ...        (lspc VERB --help explains each)

{{verbs}}

A first run:
  lspc train --preset cpu --out runs/first      learns from the bundled BallCircle data
  lspc evaluate runs/first                      measures LSPC-S and LSPC-O in real physics
"""


def main(arguments: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        verbs = "\n".join(f"  {name:<10} {line}" for name, (_, line) in VERBS.items())
        print(HELP.format(verbs=verbs), end="")
        return
    if arguments[0] == "--version":
        print(__version__)
        return
    verb, rest = arguments[0], arguments[1:]
    try:
        if verb not in VERBS:
            raise UserError(f"unknown verb {verb!r}: choose one of {', '.join(VERBS)}")
        function = VERBS[verb][0]
        if function is train:
            train(rest)
        else:
            tyro.cli(function, args=rest, prog=f"lspc {verb}")
    except UserError as error:
        print(f"lspc: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt as stopped:
        print(f"\nlspc: {stopped or 'stopped'}", file=sys.stderr)
        sys.exit(130)
