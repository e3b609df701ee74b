"""`lspc evaluate` and `lspc render`: policies in the simulator."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lspc.cli.common import Json, open_dataset, print_json, shown
from lspc.errors import UserError


def evaluate(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, shown("RUN [RUN ...]")],
    on: Annotated[tuple[str, ...], shown("TASK ...", "the one the run was trained for")] = (),
    episodes: int = 20,
    policies: Annotated[tuple[str, ...] | None, shown("POLICY ...", "all of them")] = None,
    actions: Annotated[tuple[Literal["deterministic", "sampled"], ...], shown("HOW ...", "both")] = (
        "deterministic",
        "sampled",
    ),
    restrictions: Annotated[tuple[float, ...], shown("EPS ...", "the run's own")] = (),
    guard: Annotated[tuple[float, ...], shown("COST ...")] = (),
    seeds: Annotated[tuple[int, ...], shown("INT ...", "all of them")] = (),
    data: Annotated[Path | None, shown("FILE", "the one the run learned from")] = None,
    workers: Annotated[int | None, shown("INT", "one per core")] = None,
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
    from lspc import evaluation
    from lspc.report import terminal
    from lspc.runs import Record, Run
    from lspc.tasks import get_task

    if not runs:
        raise UserError("name at least one run folder, such as runs/latest")
    opened = [Run.open(run) for run in runs]
    own = [run.task for run in opened]
    for run, name in zip(runs, own, strict=True):
        if not on and name is None:
            raise UserError(f"{run} was not trained for a task: say --on TASK (see `lspc tasks`)")
        if not on and name != own[0]:
            raise UserError(f"{run} was trained for {name}, {runs[0]} for {own[0]}: evaluate them one by one")
    tables: dict[str, list[evaluation.Summary]] = {}
    with terminal.progress(counted=True) as display:
        bar = display.add_task("evaluating", total=None, note="")
        for known in [get_task(name) for name in on or own[:1] if name]:
            records: list[Record] = []
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
            own_data = opened[0].load_dataset() if not data and own[0] in (None, known.name) else None
            dataset = open_dataset(data) if data else own_data
            rows = evaluation.summarise(records, known, dataset)
            tables[known.name] = [evaluation.behaviour(dataset, known), *rows] if dataset else rows
    if json:
        listed = {name: [asdict(row) for row in rows] for name, rows in tables.items()}
        print_json(listed if len(on) > 1 else next(iter(listed.values())))
    else:
        for name, rows in tables.items():
            terminal.console.print(terminal.evaluation_table(rows, get_task(name)))


def render(
    run: Annotated[Path, tyro.conf.Positional, shown("RUN")],
    out: Annotated[Path, shown("FILE", "RUN/episodes.gif")] = Path(),
    episodes: int = 3,
    policy: Annotated[str | None, shown("POLICY", "the run's main one")] = None,
    seed: Annotated[int | None, shown("INT", "the run's first")] = None,
    on: Annotated[str | None, shown("TASK", "the one the run was trained for")] = None,
    budget: Annotated[float | None, shown("COST", "the task's smallest")] = None,
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
    from lspc import evaluation
    from lspc.policy import load_policy
    from lspc.report import clips, terminal
    from lspc.runs import Run
    from lspc.tasks import get_task

    opened = Run.open(run)
    name = on or opened.task
    if name is None:
        raise UserError(f"{run} was not trained for a task: say --on TASK (see `lspc tasks`)")
    if episodes < 1:
        raise UserError(f"a clip needs 1 episode or more, not {episodes}")
    known, out = get_task(name), run / "episodes.gif" if out == Path() else out
    evaluation.check_fits(opened, known)
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
