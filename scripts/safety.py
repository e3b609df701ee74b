"""The table of safety: every method on every task at each budget, three training seeds, raw episodes recorded.

    python scripts/safety.py --data runs --out results/safety --tasks BallCircle BallRun
    python scripts/safety.py --out results/safety --table
    python scripts/safety.py --out results/safety results/safety-change-10 --figure docs/figures/safety.png

Reads DATA/TASK/data.hdf5 (`lspc collect`; the bundled file where there is none for BallCircle), trains in folders
beside it, plays, and keeps every episode's return and cost in OUT/TASK.json; what that file holds already is not done
again. LSPC is trained with a share of the episodes held out, so that `lspc calibrate DATA/TASK/run` works.
The method `choose` takes LSPC's runs: of LSPC-O at each eps and LSPC-S, what `lspc choose` would name for each budget
from the data alone, played, with the estimates of all of them.
"""

import argparse
import shlex
import sys
from collections.abc import Iterable
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

import lspc
from lspc import algos, data, evaluation, files
from lspc.algos import cdt
from lspc.algos.lspc import Config
from lspc.algos.parts.admission import restriction_for
from lspc.calibration.choosing import explain_lack
from lspc.calibration.comparing import Candidate, estimate_policies, mark_fitting
from lspc.calibration.pipeline import fit_evaluator
from lspc.data import bundled_file
from lspc.policy import TrainedPolicy, load_policy
from lspc.report import drawing
from lspc.sims.pool import Pool
from lspc.tasks import Task, get_task

TASKS = (
    "BallCircle", "BallRun", "CarRun", "CarCircle", "DroneCircle", "CarGoal1", "PointButton1", "PointCircle1",
    "HalfCheetahVelocity", "SwimmerVelocity", "HopperVelocity", "easysparse", "mediummean", "harddense",
    "mediumdense",
)  # fmt: skip
BASELINES = {"BC": "BC-Safe", "CDT": "CDT", "COptiDICE": "COptiDICE", "FISOR": "FISOR"}
"""Policies as records name them, and as the table does."""
COLUMNS = 3
"""Of panels in the figure."""
Rows = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("runs"))
    parser.add_argument(
        "--out", type=Path, nargs="+", required=True,
        help="folder of the records; for --table and --figure several, of which the first that has a task counts",
    )  # fmt: skip
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=["lspc", "bc"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="updates; as many as the method's `cpu` preset has unless given")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.5, help="of a budget that admitted episodes may cost")
    parser.add_argument("--eps", type=float, nargs="+", default=[0.25, 0.5, 1.0, 1.5])
    parser.add_argument("--hold-out", type=float, default=0.2, help="share of the episodes that LSPC does not see")
    parser.add_argument("--table", action="store_true", help="print what is recorded as Markdown")
    parser.add_argument("--figure", type=Path, help="draw what is recorded: return against cost")
    chosen = parser.parse_args()
    if chosen.table or chosen.figure:
        found = [[path for out in chosen.out if (path := out / f"{name}.json").exists()] for name in chosen.tasks]
        records = [files.read_json(paths[0]) for paths in found if paths]
        print_table(records) if chosen.table else draw(records, chosen.figure)
        return
    for name in chosen.tasks:
        measure_task(get_task(name), chosen)


def measure_task(task: Task, chosen: argparse.Namespace) -> None:
    source = chosen.data / task.name / "data.hdf5"
    if task.name == "BallCircle" and not source.exists():
        source = bundled_file()
    out = chosen.out[0] / f"{task.name}.json"
    dataset = lspc.load_dataset(source)
    record = (
        files.read_json(out) if out.exists() else {"task": task.name, "data": describe(dataset, task), "methods": {}}
    )
    if record["data"]["fingerprint"] != dataset.fingerprint:
        sys.exit(f"{out} is of other data than {source}: name another folder, or move it away")
    for method in chosen.methods:
        if method in record["methods"]:
            continue
        runs = {"lspc": lspc_runs, "choose": chosen_runs, "cdt": cdt_runs}.get(method, baseline_runs)
        rows = runs(method, dataset, task, chosen.data / task.name, chosen)
        record["methods"][method] = {
            "lspc_version": lspc.__version__,
            "command": f"python scripts/safety.py {shlex.join(sys.argv[1:])}",
            "steps": chosen.steps or algos.get("lspc" if method == "choose" else method).PRESETS["cpu"]["steps"],
            "rows": rows,
        }
        files.write_json(out, record)
        print_table([record])


def describe(dataset: data.Dataset, task: Task) -> dict[str, Any]:
    within = {f"{b:g}": dataset.cost_returns <= b for b in task.thresholds}
    return {
        **{key: value for key, value in dataset.metadata.items() if isinstance(value, str | int | float)},
        "fingerprint": dataset.fingerprint,
        "kept": len(dataset.lengths),
        "mean_cost": float(dataset.cost_returns.mean()),
        "within": {key: int(rows.sum()) for key, rows in within.items()},
        "best_within": {key: float(dataset.returns[rows].max(initial=-np.inf)) for key, rows in within.items()},
    }


def train_lspc(dataset: data.Dataset, folder: Path, chosen: argparse.Namespace) -> Path:
    """At once where it has been done."""
    return lspc.train(dataset, folder / "run", **list_settings(chosen), hold_out=chosen.hold_out)


def list_settings(chosen: argparse.Namespace) -> dict[str, Any]:
    """What all methods are trained with."""
    steps = {} if chosen.steps is None else {"steps": chosen.steps}
    return {"preset": "cpu", "seeds": chosen.seeds, **steps}


def lspc_runs(method: str, dataset: data.Dataset, task: Task, folder: Path, chosen: argparse.Namespace) -> Rows:
    run = train_lspc(dataset, folder, chosen)
    span = Config().restriction_range
    assert span is not None
    # A clone is never as precise as its teachers: they may cost a share of the budget only.
    budgets = {b: round(restriction_for(dataset.cost_returns, chosen.share * b, span), 3) for b in task.thresholds}
    restrictions = sorted({*chosen.eps, *budgets.values()})
    rows = play(run, task, chosen, variants=("LSPC-S",))
    rows += play(run, task, chosen, variants=("LSPC-O",), restrictions=restrictions)
    for row in rows:
        row["budgets"] = [b for b, eps in budgets.items() if row["eps"] == eps]
    return rows


def chosen_runs(method: str, dataset: data.Dataset, task: Task, folder: Path, chosen: argparse.Namespace) -> Rows:
    """For each seed, the estimates of its policies (a row without episodes) and what they name for each budget.

    The models of the plant are those of `lspc choose`, learned once: they know nothing of the policies.
    """
    run, rows = train_lspc(dataset, folder, chosen), []
    evaluator = fit_evaluator(dataset.scale_actions(), held_out=chosen.hold_out)
    replays = [[round(each.predicted_cost, 2), round(each.cost, 2)] for each in evaluator.replays]
    for seed in chosen.seeds:
        candidates = estimate_policies(evaluator, load_policy(run, seed=seed), "run")
        rows.append({"policy": "estimates", "seed": seed, "eps": None, "budgets": [], "returns": [], "costs": [],
                     "curve": [list_estimate(each) for each in candidates], "doubt": evaluator.doubt,
                     "replays": replays})  # fmt: skip
        played: dict[float | None, dict[str, Any]] = {}
        for budget in (task.thresholds[0] / 2, *task.thresholds):
            unit = evaluator.cost_margin.unit
            lacking = evaluator.doubt or explain_lack(dataset.cost_returns.tolist(), budget, unit)
            best = None if lacking else find_best(candidates, budget)
            if best is None:
                rows.append({"policy": "chosen", "seed": seed, "eps": None, "budgets": [budget], "returns": [],
                             "costs": []})  # fmt: skip
                continue
            eps = best.restriction
            if eps not in played:
                options: dict[str, Any] = {"variants": (best.policy,), "seeds": [seed]}
                [played[eps]] = play(run, task, chosen, **options, restrictions=() if eps is None else (eps,))
            rows.append({**played[eps], "policy": "chosen", "chosen": best.policy, "budgets": [budget]})
    return rows


def find_best(candidates: list[Candidate], budget: float) -> Candidate | None:
    """Of LSPC-O and LSPC-S."""
    fitting = [each for each in mark_fitting(candidates, budget) if each.fits and each.policy in ("LSPC-O", "LSPC-S")]
    return max(fitting, key=lambda each: each.reward.mean) if fitting else None


def list_estimate(each: Candidate) -> dict[str, Any]:
    numbers = {"cost": each.cost.mean, "low": each.cost.low, "high": each.cost.high, "return": each.reward.mean,
               "return_low": each.reward.low, "return_high": each.reward.high}  # fmt: skip
    return {"policy": each.policy, "eps": each.restriction} | {name: round(x, 3) for name, x in numbers.items()}


def baseline_runs(method: str, dataset: data.Dataset, task: Task, folder: Path, chosen: argparse.Namespace) -> Rows:
    """One run for each budget; one for all of them of a method that knows of none."""
    settings: dict[str, Any] = {"algo": method, **list_settings(chosen)}
    if "budget" not in {field.name for field in fields(algos.get(method).Config)}:
        run = lspc.train(dataset, folder / method, **settings)
        return [{**row, "budgets": [float(b) for b in task.thresholds]} for row in play(run, task, chosen)]
    rows = []
    for budget in task.thresholds:
        if not (dataset.cost_returns <= budget).any():
            continue
        run = lspc.train(dataset, folder / f"{method}-{budget:g}", **settings, budget=float(budget))
        rows += [{**row, "budgets": [budget]} for row in play(run, task, chosen)]
    return rows


def cdt_runs(method: str, dataset: data.Dataset, task: Task, folder: Path, chosen: argparse.Namespace) -> Rows:
    """CDT learns from all episodes whatever it is asked for later, so one run is asked for every budget.

    It is asked for the return of the best recorded episode within the budget, as a run of its own would be.
    """
    budgets = [float(b) for b in task.thresholds if (dataset.cost_returns <= b).any()]
    run = lspc.train(dataset, folder / method, algo=method, **list_settings(chosen), budget=budgets[0])
    rows: Rows = []
    with Pool(task, workers=chosen.workers) as pool:
        for seed, budget in product(chosen.seeds, budgets):
            policy = load_policy(run, seed=seed)
            net = policy.net
            assert isinstance(net, cdt.CdtPolicy)
            return_scale, cost_scale = cdt.scales(net.spec)
            best = cdt.best_target(dataset, replace(net.config, budget=budget))
            target = jnp.asarray([best / return_scale, budget / cost_scale], jnp.float32)
            asked = TrainedPolicy(eqx.tree_at(lambda each: each.target, net, target), policy.variant, policy.card)
            numbers = [evaluation.FIRST_EPISODE_SEED + i for i in range(chosen.episodes)]
            played = pool.run(asked.for_episodes(sampled=False), numbers)
            rows.append({"policy": "CDT", "eps": None, "seed": seed, "budgets": [budget],
                         "returns": [round(each.reward_return, 3) for each in played],
                         "costs": [round(each.cost_return, 3) for each in played]})  # fmt: skip
    return rows


def play(run: Path, task: Task, chosen: argparse.Namespace, **options: Any) -> Rows:
    """One row for each policy, eps and training seed, with every episode's return and cost."""
    records = evaluation.evaluate(
        run, task, episodes=chosen.episodes, modes=("deterministic",), workers=chosen.workers, **options
    )
    cells: dict[tuple[Any, ...], Rows] = {}
    for record in records:
        cells.setdefault((record.policy, record.restriction, record.training_seed), []).append(
            {"return": round(record.reward_return, 3), "cost": round(record.cost_return, 3)}
        )
    return [
        {"policy": policy, "eps": eps, "seed": seed, "returns": [e["return"] for e in played],
         "costs": [e["cost"] for e in played]}
        for (policy, eps, seed), played in cells.items()
    ]  # fmt: skip


def print_table(records: list[dict[str, Any]]) -> None:
    """One line for each task and budget: return, share of the best episode within it, cost by seed, episodes over.

    Columns that nothing is recorded for are left out.
    """
    columns = ("task", "LSPC's updates", "budget", "best episode", "LSPC-O, default eps", "LSPC-O, eps of the record",
               "LSPC-O, largest eps kept", "chosen by `lspc choose`", "LSPC-S", *BASELINES.values())  # fmt: skip
    lines: list[list[str]] = []
    for record in records:
        rows = [row for made in record["methods"].values() for row in made["rows"]]
        lspc_made = record["methods"].get("lspc")
        updates = f"{lspc_made['steps']:,}" if lspc_made else "-"
        searching = group_by_eps(row for row in rows if row["policy"] == "LSPC-O")
        for name, best in record["data"]["best_within"].items():
            budget = float(name)
            named = [eps for eps, found in searching.items() if budget in found[0]["budgets"]]
            kept = [eps for eps, found in searching.items() if max(seed_costs(found)) <= budget]
            default = [eps for eps in searching if eps == Config.restriction]
            cells = [
                describe_cell(searching[max(some)], best, budget, max(some)) if some else "-"
                for some in (default, named, kept)
            ]
            named = [row for row in rows if row["policy"] == "chosen" and budget in row["budgets"]]
            cells.append(describe_choice(named, best, budget) if named else "-")
            for policy in ("LSPC-S", *BASELINES):
                found = [row for row in rows if row["policy"].startswith(policy)]
                found = found if policy == "LSPC-S" else [row for row in found if budget in row["budgets"]]
                cells.append(describe_cell(found, best, budget) if found else "-")
            lines.append([record["task"], updates, name, f"{best:.4g}", *cells])
    kept = [i for i in range(len(columns)) if any(line[i] != "-" for line in lines)]
    for line in (columns, ["---"] * len(columns), *lines):
        print(f"| {' | '.join(line[i] for i in kept)} |")


def draw(records: list[dict[str, Any]], out: Path) -> None:
    """A panel for each task: LSPC-O's return against its cost as eps grows, a line for each training seed."""
    rows = -(-len(records) // COLUMNS)
    figure = drawing.new_figure(4 * COLUMNS, 3.2 * rows + 0.4)
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for axes in panels[len(records) :]:
        axes.set_axis_off()
    legend: dict[str, Any] = {}
    for axes, record in zip(panels, records, strict=False):
        draw_task(axes, record)
        handles, labels = axes.get_legend_handles_labels()
        legend |= dict(zip(labels, handles, strict=True))
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=len(legend), frameon=False)
    drawing.save(figure, out)


def draw_task(axes: Axes, record: dict[str, Any]) -> None:
    rows = [row for made in record["methods"].values() for row in made["rows"]]
    for budget, best in record["data"]["best_within"].items():
        axes.axvline(float(budget), color=drawing.BUDGET_COLOUR, linestyle=(0, (6, 3)), linewidth=1, label="budget")
        if np.isfinite(best):
            axes.plot(
                float(budget),
                best,
                "_",
                color=drawing.TEXT_COLOUR,
                markersize=14,
                label="best recorded episode within a budget",
            )
    shown = {"LSPC-O": "LSPC-O, each eps", "LSPC-S": "LSPC-S", **BASELINES}
    for number, (policy, name) in enumerate(shown.items()):
        for seed in sorted({row["seed"] for row in rows}):
            found = [row for row in rows if row["policy"].startswith(policy) and row["seed"] == seed]
            points = [(np.mean(row["costs"]), np.mean(row["returns"])) for row in found]
            if points:
                axes.plot(
                    *zip(*points, strict=True), marker=drawing.MARKERS[number], markersize=4, alpha=0.8, label=name,
                    linestyle="-" if policy == "LSPC-O" else "", linewidth=1, color=drawing.SERIES_COLOURS[number],
                )  # fmt: skip
    axes.set_title(record["task"], fontsize=11)
    axes.set_xlim(left=min(0.0, -0.03 * float(budget)), right=max(1.6 * float(budget), 1.0))
    axes.set_xlabel("cost of an episode")
    axes.set_ylabel("return")
    drawing.tidy(axes)


def group_by_eps(rows: Iterable[dict[str, Any]]) -> dict[float, Rows]:
    groups: dict[float, Rows] = {}
    for row in rows:
        groups.setdefault(row["eps"], []).append(row)
    return groups


def seed_costs(rows: Rows) -> list[float]:
    return [float(np.mean(row["costs"])) for row in rows]


def describe_choice(rows: Rows, best: float, budget: float) -> str:
    """Of seeds for which something was named; how many got no answer."""
    answered = [row for row in rows if row["costs"]]
    refused = f"{len(rows) - len(answered)} of {len(rows)} refused"
    if not answered:
        return refused
    names = ", ".join(row["chosen"] if row["eps"] is None else f"{row['eps']:.3g}" for row in answered)
    cell = f"eps {names}: {describe_cell(answered, best, budget)}"
    return cell if len(answered) == len(rows) else f"{cell}; {refused}"


def describe_cell(rows: Rows, best: float, budget: float, eps: float | None = None) -> str:
    """Bold where every training seed keeps the budget."""
    reward, costs = float(np.mean([np.mean(row["returns"]) for row in rows])), seed_costs(rows)
    share = f" ({100 * reward / best:.0f} %)" if np.isfinite(best) and best > 0 else ""
    mark = "**" if max(costs) <= budget else ""
    where = "" if eps is None else f"eps {eps:.3g}: "
    over = float(np.mean([cost > budget for row in rows for cost in row["costs"]]))
    each = ", ".join(f"{cost:.1f}" for cost in costs)
    return f"{where}{reward:.4g}{share} at {mark}{each}{mark}; {100 * over:.0f} % over"


if __name__ == "__main__":
    main()
