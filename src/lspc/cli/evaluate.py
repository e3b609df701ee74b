"""`lspc evaluate` and `lspc render`: policies in the simulator."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lspc.cli.common import AS_NAMED, BUDGETS, Opening, Switch, open_dataset, print_json, shown
from lspc.tasks.own import is_own


def evaluate(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, shown("RUN [RUN ...]")],
    on: Annotated[tuple[str, ...], shown("TASK ...", "the one the run was trained for")] = (),
    cost_key: Annotated[str, shown("NAME", "cost")] = "cost",
    horizon: Annotated[int | None, shown("STEPS", "the longest episode of the data")] = None,
    budgets: Annotated[tuple[float, ...], shown("COST ...", f"those last used, the task's, else {BUDGETS}")] = (),
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
    opening: tyro.conf.OmitArgPrefixes[Opening] = AS_NAMED,
    workers: Annotated[int | None, shown("INT", "one per core")] = None,
    json: Switch = False,
) -> None:
    """Measure a run's policies in the simulator, beside the data's own behaviour.

    Args:
        runs: One or more run folders; their last checkpoint is used.
        on: Tasks with the run's observations and actions, or your own environment: gym:ID or MODULE:CALLABLE.
        cost_key: Where your own environment's info holds the cost of a step.
        horizon: Maximum number of steps of an episode in your own environment.
        budgets: Cost budgets to judge by; remembered for later commands.
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

    dataset = open_dataset(data, opening) if data else None
    with terminal.progress(counted=True) as bars:
        tables = evaluation.evaluate_runs(
            runs, on, own={"cost_key": cost_key, "horizon": horizon} if any(map(is_own, on)) else None,
            budgets=budgets, dataset=dataset, episodes=episodes, variants=policies, modes=actions,
            restrictions=restrictions, guards=guard, seeds=seeds, workers=workers, **terminal.show_evaluation(bars),
        )  # fmt: skip
    if json:
        listed = {name: [asdict(row) for row in rows] for name, rows in tables.items()}
        print_json(listed if len(on) > 1 else next(iter(listed.values())))
        return
    for name, rows in tables.items():
        terminal.output().print(terminal.evaluation_table(rows, name))


def render(
    run: Annotated[Path, tyro.conf.Positional, shown("RUN")],
    out: Annotated[Path, shown("FILE", "RUN/episodes.gif")] = Path(),
    episodes: int = 3,
    policy: Annotated[str | None, shown("POLICY", "the run's main one")] = None,
    seed: Annotated[int | None, shown("INT", "the run's first")] = None,
    on: Annotated[str | None, shown("TASK", "the one the run was trained for")] = None,
    cost_key: Annotated[str, shown("NAME", "cost")] = "cost",
    horizon: Annotated[int | None, shown("STEPS", "the longest episode of the data")] = None,
    budget: Annotated[float | None, shown("COST", "the task's smallest")] = None,
    sampled: Switch = False,
) -> None:
    """Film episodes of a run's policy, with reward, cost and the budget drawn in.

    Args:
        run: The folder of a finished run.
        out: The clip to write: .gif or .mp4.
        episodes: How many episodes; the same ones that `lspc evaluate` begins with.
        policy: Which of the run's policies, such as LSPC-S.
        seed: Which training seed.
        on: The task to film on, or your own environment: gym:ID or MODULE:CALLABLE.
        cost_key: Where your own environment's info holds the cost of a step.
        horizon: Maximum number of steps of an episode in your own environment.
        budget: The cost budget drawn in.
        sampled: Draw actions at random instead of the deterministic ones.
    """
    from lspc.report import clips, terminal

    with terminal.progress(counted=True) as bars:
        clip = clips.film(
            run, None if out == Path() else out, episodes=episodes, policy=policy, seed=seed, on=on,
            cost_key=cost_key, horizon=horizon, budget=budget,
            sampled=sampled, on_frame=lambda done, total: bars.show("filming", done, total, str(run)),
        )  # fmt: skip
    terminal.say(f"clip: {clip}")
