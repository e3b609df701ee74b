"""The command line: one thin function per verb. Heavy imports wait until a verb needs them."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, fields, make_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from lspc.errors import UserError
from lspc.version import __version__


def _shown(metavar: str, default: str = "") -> Any:
    """How an option without a fixed default reads in the help."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})" if default else "")


Json = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]


def doctor(json: Json = False) -> None:
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


def tasks(json: Json = False) -> None:
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
    path: Annotated[Path, tyro.conf.Positional, _shown("FILE")],
    task: Annotated[str | None, _shown("TASK", "the one named in the file")] = None,
    thresholds: Annotated[tuple[float, ...] | None, _shown("COST ...", "the task's, else 10 20 40")] = None,
    figure: Annotated[Path | None, _shown("PNG", "FILE.profile.png beside the file")] = None,
    json: Json = False,
) -> None:
    """Check a dataset and show its sizes, returns, costs, safe share and problems.

    Args:
        path: An HDF5 file in DSRL's layout, or an NPZ file with the same arrays.
        task: The task, for its cost budgets.
        thresholds: Cost budgets to judge the episodes by.
        figure: Where to save the picture of the episodes.
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
    terminal.console.print(f"picture: {picture}", highlight=False, soft_wrap=True)


def collect(
    task: Annotated[str, tyro.conf.arg(metavar="TASK")],
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    agents: int = 8,
    steps: Annotated[
        int | None, _shown("INT", "150000 on bullet, 300000 on safety_gymnasium, 30000 on metadrive")
    ] = None,
    warmup: int = 0,
    episodes: Annotated[int | None, _shown("INT", "as many as DSRL's file has")] = None,
    seed: int = 0,
    compact: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = False,
    workers: Annotated[int | None, _shown("INT", "one per core")] = None,
) -> None:
    """Make a dataset with safe and unsafe episodes in a simulator.

    It trains a population of PPO-Lagrangian agents and records every episode.

    On MetaDrive most of the population are drivers of many manners.

    Interrupted, it keeps the agents that are done: the same command goes on.

    Args:
        task: A task whose simulator is installed (see `lspc tasks`).
        out: The file to write: .hdf5 or .npz.
        agents: Size of the population; cost limits run from none to zero.
        steps: Simulator steps per agent.
        warmup: Steps in which an agent may learn to move before its cost limit begins to act.
        episodes: Keep at most this many, spread over the cost x reward plane.
        seed: The same seed gives the same file.
        compact: Round every number to about 3.6 digits: a smaller file.
        workers: Agents trained at a time.
    """
    from lspc import collecting, data
    from lspc.report import terminal
    from lspc.tasks import get_task

    known = get_task(task)
    steps = collecting.STEPS[known.suite] if steps is None else steps
    collecting.check(known, out, agents=agents, steps=steps, episodes=episodes, seed=seed, workers=workers)
    with terminal.progress() as display:
        bars = [display.add_task(f"agent {i}", total=steps, note="waiting") for i in range(agents)]

        def show(agent: int, now: dict[str, Any]) -> None:
            note = f"reward {now['reward']:.1f}, cost {now['cost']:.1f}" if "reward" in now else "kept from before"
            display.update(bars[agent], completed=now["steps"], note=note)

        dataset = collecting.collect(
            known, out, agents=agents, steps=steps, warmup=warmup, episodes=episodes, seed=seed, compact=compact,
            workers=workers, on_progress=show,
        )  # fmt: skip
    terminal.console.print(terminal.profile_table(data.profile(dataset, known.thresholds), str(out)))


@dataclass(frozen=True)
class TrainOptions:
    """What to learn from, how, and where to put it."""

    data: Annotated[Path | None, _shown("FILE", "the bundled BallCircle data")] = None
    """The dataset: HDF5 in DSRL's layout, or NPZ."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/latest")
    """The run's folder."""
    algo: Annotated[str, tyro.conf.arg(metavar="METHOD")] = "lspc"
    """The method (`lspc algos` lists them)."""
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "default"
    """A named group of settings; `cpu` makes a good policy in minutes on two cores."""
    task: Annotated[str | None, _shown("TASK", "the one named in the file")] = None
    """The task, for its settings and for evaluation later."""
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT ...")] = (0,)
    """Training seeds; several are trained in one program."""
    sweep: Annotated[str | None, _shown("NAME=VALUE,VALUE ...")] = None
    """Train for each value of a setting, into OUT/NAME=VALUE; what LSPC's critics do not depend on shares them."""
    evaluate_every: Annotated[int | None, _shown("INT")] = None
    """Measure the policies every so many updates, for `lspc figure training-curves`."""
    evaluate_episodes: int = 5
    """Episodes of each such measurement."""
    tensorboard: Json = False
    """Also write TensorBoard files."""


def train(arguments: Sequence[str]) -> None:
    """Learn a policy from a dataset; interrupted, the same command goes on.

    The method's settings follow, with the values this preset and task give them.
    """
    from lspc import algos, data, devices, settings, training
    from lspc.report import terminal

    first = _first_look(arguments)
    devices.one_core_per_seed(len(first.seeds))
    method = algos.get(first.algo)
    path = first.data or data.bundled()
    known = _task(first.task, path)
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
        for name, swept in settings.swept(first.sweep).items()
    }
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
            losses: dict[str, float] = {}  # one of each part, which is what a line has room for
            for name, value in now.metrics.items():
                if name.endswith("loss"):
                    losses.setdefault(name.split("/")[0], value)
            told = " ".join(f"{part} {value:.2g}" for part, value in losses.items())
            display.update(bar, completed=now.step, note=f"{now.updates_per_second:.0f}/s, loss: {told}")

        # What cannot be shared is trained run by run.
        alone = training.apart(first.algo, [run.config for run in runs.values()])
        with ExitStack() as stack:
            interim = _interim(first, known, stack)
            for part in [{out: run} for out, run in runs.items()] if alone else [runs]:
                training.train_together(
                    dataset, part, method=first.algo, seeds=first.seeds, task=known, tensorboard=first.tensorboard,
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


def _first_look(arguments: Sequence[str]) -> TrainOptions:
    """The options alone: they decide which settings exist and what their defaults are."""
    without_help = [argument for argument in arguments if argument not in ("-h", "--help")]
    options, _ = tyro.cli(TrainOptions, args=without_help, prog="lspc train", return_unknown_args=True)
    return options


def evaluate(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, _shown("RUN [RUN ...]")],
    on: Annotated[tuple[str, ...], _shown("TASK ...", "the one the run was trained for")] = (),
    episodes: int = 20,
    policies: Annotated[tuple[str, ...] | None, _shown("POLICY ...", "all of them")] = None,
    actions: Annotated[tuple[Literal["deterministic", "sampled"], ...], _shown("HOW ...", "both")] = (
        "deterministic",
        "sampled",
    ),
    restrictions: Annotated[tuple[float, ...], _shown("EPS ...", "the run's own")] = (),
    guard: Annotated[tuple[float, ...], _shown("COST ...")] = (),
    seeds: Annotated[tuple[int, ...], _shown("INT ...", "all of them")] = (),
    data: Annotated[Path | None, _shown("FILE", "the one the run learned from")] = None,
    workers: Annotated[int | None, _shown("INT", "one per core")] = None,
    json: Json = False,
) -> None:
    """Measure a run's policies in the simulator, beside the data's own behaviour.

    Args:
        runs: One or more run folders; their last checkpoint is what counts.
        on: Tasks to evaluate on: any with the observations and actions of the run's own.
        episodes: Episodes per policy and training seed.
        policies: Which of the run's policies, such as LSPC-O.
        actions: How actions are chosen: deterministic, sampled, or both.
        restrictions: Measure LSPC-O with each of these eps.
        guard: Also measure LSPC-O under the guard with these budgets (after `calibrate`).
        seeds: Which training seeds.
        data: The dataset to compare with.
        workers: Simulator processes; 0 runs all episodes in this one.
        json: Print JSON instead of a table.
    """
    from lspc import evaluation, files
    from lspc.report import terminal
    from lspc.tasks import get_task

    if not runs:
        raise UserError("name at least one run folder, such as runs/latest")
    descriptions = [files.read_run(run) for run in runs]
    own = [description["task"] for description in descriptions]
    for run, name in zip(runs, own, strict=True):
        if not on and name is None:
            raise UserError(f"{run} was not trained for a task: say --on TASK (see `lspc tasks`)")
        if not on and name != own[0]:
            raise UserError(f"{run} was trained for {name}, {runs[0]} for {own[0]}: evaluate them one by one")
    tables: dict[str, list[evaluation.Summary]] = {}
    with terminal.progress(counted=True) as display:
        bar = display.add_task("evaluating", total=None, note="")
        for known in [get_task(name) for name in on or own[:1]]:
            records: list[dict[str, Any]] = []
            for run in runs:
                told = f"{run.name} on {known.name}"
                records += evaluation.evaluate(
                    run, known, episodes=episodes, variants=policies, modes=actions, restrictions=restrictions,
                    guards=guard, seeds=seeds, workers=workers,
                    on_start=lambda what, count, told=told: display.reset(bar, total=count, note=f"{told}: {what}"),
                    on_episode=lambda: display.advance(bar),
                    on_trouble=lambda line: display.console.print(f"[yellow]{line}", highlight=False),
                )  # fmt: skip
            # What the data's behaviour earned says nothing about another task.
            dataset = _dataset_of(descriptions[0], data) if data or own[0] in (None, known.name) else None
            rows = evaluation.summarise(records, known, dataset)
            tables[known.name] = [evaluation.behaviour(dataset, known), *rows] if dataset else rows
    if json:
        listed = {name: [asdict(row) for row in rows] for name, rows in tables.items()}
        _print_json(listed if len(on) > 1 else next(iter(listed.values())))
    else:
        for name, rows in tables.items():
            terminal.console.print(terminal.evaluation_table(rows, get_task(name)))


def calibrate(
    run: Annotated[Path, tyro.conf.Positional, _shown("RUN")],
    budget: Annotated[tuple[float, ...], _shown("COST ...", "the task's thresholds, else 10 20 40")] = (),
    data: Annotated[Path | None, _shown("FILE", "the one the run learned from")] = None,
    seed: Annotated[int | None, _shown("INT", "the run's first")] = None,
    updates: int = 6_000,
    figure: Annotated[Path | None, _shown("PNG", "RUN/calibration.png")] = None,
    verify: Json = False,
    episodes: int = 50,
    json: Json = False,
) -> None:
    """Choose eps for a cost budget, from logged data alone.

    It learns models of the world from the data and tries LSPC-O in them.

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
    from lspc import calibration, files, ope, verification, world
    from lspc.policy import load_policy
    from lspc.report import terminal
    from lspc.report.calibration import calibration_figure
    from lspc.tasks import get_task

    description = files.read_run(run)
    policy = load_policy(run, seed=seed)
    dataset = _dataset_of(description, data)
    if dataset is None:
        raise UserError(f"the data of {run} is not at {description['dataset']['source']} any more: say --data FILE")
    task = get_task(description["task"]) if description["task"] else None
    if verify and task is None:
        raise UserError(f"{run} was not trained for a task: there is no simulator to verify it in")
    budgets = budget or (task.thresholds if task else (10, 20, 40))
    with terminal.progress() as display:
        bar = display.add_task("predicting", total=updates, note="compiling")
        found = calibration.calibrate_policy(
            policy, dataset, worlds=world.Config(updates=updates), fitted=ope.Config(updates=updates),
            on_progress=lambda what, done, all_of_it: display.update(bar, completed=done, total=all_of_it, note=what),
        )  # fmt: skip
        verified = None
        if verify and task is not None:
            bar = display.add_task("verifying", total=None, note="")
            verified = verification.verify(
                run, task, found, budgets, episodes=episodes,
                on_start=lambda what, count: display.reset(bar, total=count, note=what),
                on_episode=lambda: display.advance(bar),
            )  # fmt: skip
    choices = [found.choose(asked) for asked in budgets]
    picture = figure or run / "calibration.png"
    calibration_figure(found, choices, verified, picture, task.name if task else run.name)
    if json:
        told = {"choices": [asdict(choice) for choice in choices], "calibration": asdict(found)}
        _print_json({**told, "verification": asdict(verified)} if verified else told)
        return
    terminal.console.print(terminal.calibration_table(found, choices, verified))
    terminal.console.print(f"picture: {picture}", highlight=False, soft_wrap=True)


def export(
    run: Annotated[Path, tyro.conf.Positional, _shown("RUN")],
    out: Annotated[Path, _shown("ONNX", "RUN/policy.onnx")] = Path(),
    budget: Annotated[float | None, _shown("COST", "none: eps stays an input")] = None,
    seed: Annotated[int | None, _shown("INT", "the run's first")] = None,
) -> None:
    """Write an LSPC policy as one ONNX file, with a card that says what it is.

    Args:
        run: The folder of a finished LSPC run.
        out: The file to write; its card gets the same name with .md.
        budget: Fix the eps that `lspc calibrate` chose for this cost of an episode.
        seed: Which training seed's policy.
    """
    from lspc.deploy.export import export as write
    from lspc.report import terminal

    model, card = write(run, run / "policy.onnx" if out == Path() else out, budget=budget, seed=seed)
    terminal.console.print(f"policy: {model}\ncard:   {card}", highlight=False, soft_wrap=True)


def render(
    run: Annotated[Path, tyro.conf.Positional, _shown("RUN")],
    out: Annotated[Path, _shown("FILE", "RUN/episodes.gif")] = Path(),
    episodes: int = 3,
    policy: Annotated[str | None, _shown("POLICY", "the run's main one")] = None,
    seed: Annotated[int | None, _shown("INT", "the run's first")] = None,
    on: Annotated[str | None, _shown("TASK", "the one the run was trained for")] = None,
    budget: Annotated[float | None, _shown("COST", "the task's smallest")] = None,
    sampled: Json = False,
) -> None:
    """Film episodes of a run's policy, with reward, cost and the budget drawn in.

    Args:
        run: The folder of a finished run.
        out: The clip to write: .gif or .mp4.
        episodes: How many episodes; the same ones that `lspc evaluate` begins with.
        policy: Which of the run's policies, such as LSPC-S.
        seed: Which training seed.
        on: The task to film on.
        budget: The cost budget drawn in.
        sampled: Draw actions at random instead of the deterministic ones.
    """
    from lspc import evaluation, files
    from lspc.policy import load_policy
    from lspc.report import clips, terminal
    from lspc.tasks import get_task

    name = on or files.read_run(run)["task"]
    if name is None:
        raise UserError(f"{run} was not trained for a task: say --on TASK (see `lspc tasks`)")
    if episodes < 1:
        raise UserError(f"a clip needs 1 episode or more, not {episodes}")
    known, out = get_task(name), run / "episodes.gif" if out == Path() else out
    evaluation.check_fits(run, known)
    clips.check(out)
    trained = load_policy(run, seed=seed, variant=policy)
    with terminal.progress(counted=True) as display:
        bar = display.add_task("filming", total=episodes * known.episode_length, note=str(out))
        clips.render_episodes(
            known,
            trained.for_episodes(sampled=sampled),
            [evaluation.FIRST_EPISODE_SEED + i for i in range(episodes)],
            out,
            title=f"{trained.variant} on {known.name}",
            budget=known.thresholds[0] if budget is None else budget,
            on_frame=lambda place, step: display.update(bar, completed=place * known.episode_length + step),
        )
        display.update(bar, completed=episodes * known.episode_length)
    terminal.console.print(f"clip: {out}", highlight=False, soft_wrap=True)


def report(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, _shown("RUN [RUN ...] | BENCH")],
    out: Annotated[Path, _shown("HTML", "report.html in the first folder")] = Path(),
    data: Annotated[Path | None, _shown("FILE", "the one the runs learned from")] = None,
    no_film: Json = False,
) -> None:
    """Write one HTML page about runs or a bench, to open offline and send to others.

    Is it safe, at which budget, how sure: words, table, curves, a filmed episode.

    Args:
        folders: One or more run folders, or the folder of one bench.
        out: The page to write.
        data: The dataset, if it is no longer where the runs found it.
        no_film: Leave out the filmed episode, which takes most of the time.
    """
    from lspc.report import page, terminal

    target = folders[0] / "report.html" if folders and out == Path() else out
    with terminal.progress() as display:
        bar = display.add_task("reporting", total=None, note="")
        missing = page.write(
            folders, target, given=data, film=not no_film, on_stage=lambda what: display.update(bar, note=what)
        )
    for line in missing:
        terminal.errors.print(f"not in the page: {line}", highlight=False, markup=False)
    terminal.console.print(f"report: {target}", highlight=False, soft_wrap=True)


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
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, _shown("[RUN ...]")] = (),
    out: Annotated[Path, _shown("PNG", "NAME.png; all: the folder figures/TASK")] = Path(),
    policy: Annotated[str, tyro.conf.arg(metavar="POLICY")] = "LSPC-O",
    data: Annotated[Path | None, _shown("FILE", "the one the run learned from")] = None,
    seeds: Annotated[tuple[int, ...], _shown("INT ...", "the run's first; all: 0 1")] = (),
    task: Annotated[str | None, _shown("TASK", "the one named in the data")] = None,
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
    from lspc import files
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
        known = _task(None, data)
        budgets = known.thresholds if known else (10, 20, 40)
        figures.dataset_profile_figure(_open(data), budgets, picture, title=known.name if known else data.name)
    elif name == "transfer":
        from lspc.report.transfer import transfer_figure

        transfer_figure(runs, picture, policy)
    elif name == "training-curves":
        from lspc.report.curves import training_curves_figure

        training_curves_figure(runs, picture)
    elif name == "action-space":
        from lspc.report.actions import action_space_figure

        dataset = _dataset_of(files.read_run(runs[0]), data)
        if dataset is None:
            raise UserError(f"the data that {runs[0]} learned from are not where it found them: add --data FILE")
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
    from lspc import devices
    from lspc.data import bundled
    from lspc.report import figure_set, terminal

    path = data or bundled()
    known = _task(name, path)
    if known is None:
        raise UserError(f"{path} does not say of which task it is: add --task TASK (see `lspc tasks`)")
    if data is None and known != _task(None, path):
        raise UserError(f"name the dataset: lspc figure all --task {known.name} --data FILE")
    devices.one_core_per_seed(len(seeds))
    with terminal.progress(counted=True) as display:
        bar = display.add_task("figures", total=None, note="compiling")

        def show(stage: figure_set.Stage) -> None:
            display.update(bar, completed=stage.done, total=stage.total, note=stage.what)

        folder = Path("figures") / known.name if out == Path() else out
        pictures = figure_set.figure_set(known, _open(path), folder, preset=preset, seeds=seeds, on_stage=show)
    for picture in pictures:
        terminal.console.print(f"picture: {picture}", highlight=False, soft_wrap=True)


def algos(json: Json = False) -> None:
    """List the methods, one line each.

    Args:
        json: Print JSON instead of a table.
    """
    from lspc.algos import METHODS

    if json:
        _print_json([{"name": name, "about": line} for name, line in METHODS.items()])
        return
    from lspc.report import terminal

    terminal.console.print(terminal.methods_table(METHODS))


def theory(
    what: Annotated[
        Literal["bounds", "sample-complexity"], tyro.conf.Positional, _shown("[WHAT]", "bounds")
    ] = "bounds",
    count: int = 3000,
    seed: int = 0,
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("theory"),
    json: Json = False,
) -> None:
    """Check the paper's lemmas and theorems on random finite CMDPs.

    bounds: each statement, how often it holds and how tight it is.

    sample-complexity: how errors fall with the number of samples.

    Args:
        what: bounds or sample-complexity.
        count: Random CMDPs to check the bounds on.
        seed: The same seed draws the same CMDPs.
        out: Folder for the figures and records.
        json: Print JSON instead of a table.
    """
    from lspc import theory as checked
    from lspc.report import terminal

    if count < 1 or seed < 0:
        raise UserError(f"count must be 1 or more and seed 0 or more, not {count}, {seed}")
    with terminal.progress(counted=True) as display:
        bar = display.add_task(what, total=None, note=str(out))

        def show(done: int, total: int) -> None:
            display.update(bar, completed=done, total=total)

        if what == "bounds":
            rows = checked.check(count, seed, on_progress=lambda done: show(done, count))
            checked.save_checks(rows, out, count=count, seed=seed)
            table, record = checked.checks_table(rows), [row.record() for row in rows]
        else:
            sizes = checked.SIZES
            samples = checked.sample_complexity(sizes, seed=seed, on_progress=lambda done: show(done, len(sizes)))
            checked.save_samples(samples, checked.vacuity(seed=seed), out)
            fitted = checked.slopes(samples)
            table, record = checked.slopes_table(fitted, samples), [vars(slope) for slope in fitted]
    if json:
        _print_json(record)
        return
    terminal.console.print(table)
    terminal.console.print(f"figures and records: {out}", highlight=False, soft_wrap=True)


def bench(
    suite: Literal["bullet", "safety_gymnasium", "metadrive"] = "bullet",
    tasks: Annotated[tuple[str, ...], _shown("TASK ...", "all of the suite")] = (),
    algos: Annotated[tuple[str, ...], tyro.conf.arg(metavar="METHOD ...")] = ("all",),
    seeds: int = 3,
    data: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("data"),
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("bench"),
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "default",
    settings: Annotated[
        tuple[str, ...], tyro.conf.arg(name="set", metavar="NAME=VALUE ...", help_behavior_hint="")
    ] = (),
    episodes: int = 20,
    actions: Annotated[tuple[Literal["deterministic", "sampled"], ...], _shown("HOW ...", "deterministic")] = (
        "deterministic",
    ),
    seeds_together: Annotated[int | None, _shown("INT", "all of them")] = None,
    executor: Literal["local", "ray"] = "local",
    address: Annotated[str | None, _shown("HOST:PORT", "the cluster this machine is part of")] = None,
    workers: Annotated[int | None, _shown("INT", "one per core, as memory allows")] = None,
    plan: Json = False,
    from_records: Annotated[tuple[Path, ...], _shown("FOLDER ...")] = (),
    rule: Literal["any", "safer"] = "any",
    show: Annotated[
        tuple[Literal["table", "policies", "pairs", "intervals", "thresholds"], ...],
        _shown("VIEW ...", "table policies"),
    ] = ("table", "policies"),
) -> None:
    """Train and measure every method on every task, and print the paper's table.

    Killed or stopped, the same command goes on: only what is missing runs.

    Args:
        suite: The tasks to run, unless --tasks names them.
        tasks: Tasks, instead of a whole suite.
        algos: Methods (`lspc algos` lists them), or all.
        seeds: How many training seeds.
        data: Holds TASK.hdf5 or TASK/data.hdf5 for each task.
        out: The bench's folder: its runs, raw records and tables.
        preset: A named group of settings that every method has.
        settings: Settings over the preset's, such as steps=5, or cdt.width=16 for one method.
        episodes: Episodes per policy and training seed.
        actions: How actions are chosen: deterministic, sampled, or both.
        seeds_together: Seeds that one program trains.
        executor: Where the work is done: worker processes of this machine, or a Ray cluster.
        address: The Ray cluster.
        workers: Cells worked on at a time.
        plan: Show the grid and what it will cost, measuring speeds not known yet, and stop.
        from_records: Only make the tables, from these benches, runs or files of records.
        rule: What is blue beside the best: within 0.05 of its reward, any safe policy or a safer one.
        show: What to print: table, policies, pairs, intervals, thresholds; OUT/tables has all of it.
    """
    from lspc.bench import grid, live, running, tables
    from lspc.report import terminal
    from lspc.tasks import all_tasks, get_task

    failures: dict[str, str] = {}
    if not from_records:
        from lspc.algos import METHODS
        from lspc.settings import parse

        names = [get_task(name).name for name in tasks] or [task.name for task in all_tasks() if task.suite == suite]
        crew = _crew(executor, address, workers)
        places = grid.find_data(data, names)
        planned = grid.make_plan(
            places, list(METHODS) if "all" in algos else algos, preset=preset,
            overrides=parse(settings), seeds=seeds, together=seeds_together, episodes=episodes,
            modes=actions,
        )  # fmt: skip
        if plan:
            with terminal.progress(counted=True) as display:
                bar = display.add_task("measuring speeds", total=len(planned.methods), note="")
                running.measure(planned, out, places, crew, lambda order, _: display.advance(bar))
        left = running.outstanding(planned, out, places)
        terminal.console.print(live.cost_table(running.costs(planned, out, places), planned, crew.room(left)))
        if plan:
            return
        with live.Grid(grid.orders(planned, out, places)) as shown:
            failures = running.run(planned, out, places, crew, shown.on_progress, shown.on_end)
    results = running.gather(from_records or [out])
    for sheet in tables.views(results, show, rule):
        terminal.console.print(tables.terminal(sheet, terminal.console.width))
    for problem in results.problems[:20]:
        terminal.errors.print(f"[yellow]{problem}", highlight=False)
    if len(results.problems) > 20:
        terminal.errors.print(f"[yellow]and {len(results.problems) - 20} more, in the files", highlight=False)
    paths = tables.write(results, out / "tables", rule)
    terminal.console.print(f"tables: {', '.join(map(str, paths))}", highlight=False)
    if failures:
        raise UserError(f"{len(failures)} cells failed; run the same command again to try them again")


def _crew(executor: str, address: str | None, workers: int | None) -> Any:
    if executor == "ray":
        from lspc.bench.cluster import Cluster

        return Cluster(address, workers)
    from lspc.bench.local import Local

    if address is not None:
        raise UserError("--address is of a Ray cluster: add --executor ray")
    return Local(workers)


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

    if name:
        return get_task(name)
    # A file that cannot be read is told by whoever opens it; one that names a task of its own is no fault.
    with suppress(UserError, KeyError):
        return get_task(str(data.read_metadata(path)["task"]))
    return None


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


VERBS: dict[str, tuple[Callable[..., None], str]] = {
    "inspect": (inspect, "check a dataset and show what is in it"),
    "collect": (collect, "make a dataset in a simulator"),
    "train": (train, "learn a policy from a dataset"),
    "evaluate": (evaluate, "measure a run's policies in the simulator"),
    "calibrate": (calibrate, "choose eps for a cost budget, from data alone"),
    "export": (export, "write a policy as ONNX, to run where the robot is"),
    "render": (render, "film episodes of a run's policy"),
    "report": (report, "write a page about runs or a bench"),
    "bench": (bench, "run every method on every task, and make the paper's table"),
    "figure": (figure, "draw one of the paper's figures"),
    "theory": (theory, "check the paper's bounds on finite CMDPs"),
    "algos": (algos, "list the methods"),
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
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (UserError, OSError) as error:
        print(f"lspc: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt as stopped:
        print(f"\nlspc: {str(stopped) or 'stopped'}", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
