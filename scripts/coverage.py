"""Is the promise kept? `lspc calibrate`'s estimates, the pilot and the alarm on random plants whose truth is known.

python scripts/coverage.py measure design --number 156     # plants that margins may be designed on
python scripts/coverage.py measure held --number 156       # plants to be looked at once
python scripts/coverage.py measure spent --number 156      # that were, and may be designed on since
python scripts/coverage.py table                           # the tables of docs/calibration.md

Measuring goes on where it stopped: records lie in results/calibration/plants-HALF.json, a plant at a time.
"""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import plants
import tyro

from lspc import files
from lspc.calibration import dynamics, pilot
from lspc.calibration.choosing import Calibration, Point
from lspc.calibration.pilot import Claim, Trial
from lspc.calibration.pipeline import fit_evaluator
from lspc.deploy.alarm import Alarm
from lspc.version import __version__

RECORDS = Path(__file__).parents[1] / "results" / "calibration"
SEEDS = {"design": 0, "spent": 1, "former": 2, "dropped": 3, "earlier": 4, "later": 5, "last": 6,
         "previous": 7, "recent": 8, "newer": 9, "held": 10}  # fmt: skip
"""All but the design ones were held out until a rule changed; a rule that was tried on the dropped ones is gone."""
Half = Literal["design", "spent", "former", "dropped", "earlier", "later", "last", "previous", "recent", "newer",
               "held"]  # fmt: skip
BUDGETS = (2.0, 5.0, 10.0, 20.0)
RISK = 0.1
GRID = np.linspace(0, 1, 21)
EPISODES = 200
"""By which the truth is known: reward and cost of each policy are means of so many."""
SMALL = dynamics.Config(updates=350, members=4, batch_size=128, hidden=(32, 32), learning_rate=5e-3)
"""Bodies with four numbers need no more: a plant takes a second."""
PILOT, LIFETIME = 60, 200
"""Episodes of a pilot for each eps at most; episodes that an alarm watches."""


def measure(half: Annotated[Half, tyro.conf.Positional], number: int = 156) -> None:
    """Estimate every policy of so many plants, and write down what came of it."""
    path = RECORDS / f"plants-{half}.json"
    known: list[dict[str, Any]] = files.read_json(path)["plants"] if path.exists() else []
    for place in range(len(known), number):
        known.append(measure_plant(place, SEEDS[half]))
        if place % 6 == 5 or place == number - 1:
            told = {
                "lspc_version": __version__,
                "command": shlex.join(["python", "scripts/coverage.py", *sys.argv[1:]]),
                "config": asdict(SMALL),
            }
            files.write_json(path, files.as_json({**told, "episodes": EPISODES, "plants": known}))
            print(f"{place + 1} of {number}", flush=True)


def measure_plant(number: int, half: int) -> dict[str, Any]:
    """Its labels, what was predicted, what is true, and what each budget led to."""
    made = plants.make_plant(number, half)
    truth = plants.play(made.plant, GRID, EPISODES, 1_000 * half + number)
    evaluator = fit_evaluator(made.log, config=SMALL)
    points = tuple(
        Point(float(eps), told.cost, told.reward, 0.0, 0.0, told.tails, told.beyond)
        for eps, told in zip(GRID, evaluator.estimate(plants.Mixtures(made.plant), GRID), strict=True)
    )
    found = Calibration(
        0, "", 0.9, plants.HORIZON, 0, {}, points, evaluator.replays, evaluator.cost_margin, evaluator.reward_margin,
        tuple(made.log.cost_returns.tolist()), 0.0, __version__, evaluator.doubt,
    )  # fmt: skip
    rng, lowest = np.random.default_rng(number), float(made.log.returns.min())
    return {
        "labels": made.labels,
        "true": [round(float(cost), 2) for cost in truth[..., 1].mean(1)],
        "earned": [round(float(reward), 2) for reward in truth[..., 0].mean(1)],
        "predicted": [round(point.cost.mean, 2) for point in points],
        "upper": [round(point.cost.high, 2) for point in points],
        "beyond": [point.beyond for point in points],
        "doubt": evaluator.doubt,
        "mean": [check_choice(found, truth, budget, None, lowest) for budget in BUDGETS],
        "risk": [check_choice(found, truth, budget, RISK, lowest) for budget in BUDGETS],
        "pilot": [run_pilot(truth, budget, rng) for budget in BUDGETS],
        "alarm": [run_alarm(truth, budget, rng) for budget in BUDGETS],
    }


def check_choice(found: Calibration, truth: np.ndarray, budget: float, risk: float | None, lowest: float) -> Any:
    """The chosen policy beside the best there is; `lost` is the share of what that earns beyond the worst episode."""
    rewards, costs = truth[..., 0].mean(1), truth[..., 1]
    keeps = costs.mean(1) <= budget if risk is None else (costs > budget).mean(1) <= risk
    eps = found.choose(budget, risk).restriction
    chosen = None if eps is None else int(np.argmin(np.abs(GRID - eps)))
    best = int(np.argmax(np.where(keeps, rewards, -np.inf))) if keeps.any() else None
    lost = None
    if chosen is not None and best is not None and rewards[best] > lowest:
        lost = round(max(0.0, float((rewards[best] - rewards[chosen]) / (rewards[best] - lowest))), 4)
    kept = None if chosen is None else bool(keeps[chosen])
    return {
        "budget": budget,
        "chosen": chosen,
        "best": best,
        "kept": kept,
        "lost": lost,
        "contested": not keeps.all(),
    }


def run_pilot(truth: np.ndarray, budget: float, rng: np.random.Generator) -> dict[str, Any]:
    """Real episodes are drawn from those that make the truth, so that the means are known exactly."""
    claim = Claim(budget, float(plants.HORIZON), "every step", 0.9, pilot.BETTING)

    def try_episodes(eps: float, first: int, count: int) -> list[Trial]:
        drawn = truth[round(eps * 20), rng.integers(EPISODES, size=count)]
        return [Trial(float(cost), float(reward)) for reward, cost in drawn]

    stages = pilot.run_sequence(claim, dict.fromkeys((0.0, 0.25, 0.5, 0.75, 1.0), PILOT), try_episodes, batch=10)
    passed = [stage.restriction for stage in stages if stage.passed]
    wrong = [eps for eps in passed if truth[round(eps * 20), :, 1].mean() > budget]
    return {"budget": budget, "passed": passed, "wrong": bool(wrong), "episodes": sum(len(s.costs) for s in stages)}


def run_alarm(truth: np.ndarray, budget: float, rng: np.random.Generator) -> dict[str, Any]:
    """At the dearest policy that keeps the budget, and at the cheapest that costs half as much again."""

    def watch(place: int) -> int | None:
        alarm = Alarm(budget, float(plants.HORIZON), rate=0.01)
        costs = truth[place, rng.integers(EPISODES, size=LIFETIME), 1]
        return next((n for n, cost in enumerate(costs.tolist(), 1) if alarm.observe(cost) == "alarm"), None)

    means = truth[..., 1].mean(1)
    kept = np.flatnonzero(means <= budget)
    broken = np.flatnonzero(means >= 1.5 * budget)
    return {
        "budget": budget,
        "false": watch(int(kept[np.argmax(means[kept])])) is not None if len(kept) else None,
        "needed": watch(int(broken[np.argmin(means[broken])])) or LIFETIME if len(broken) else None,
    }


def table() -> None:
    """Shares of kept budgets, of refusals, and lost reward, by noise and by log; then the pilot and the alarm."""
    for half in SEEDS:
        path = RECORDS / f"plants-{half}.json"
        if not path.exists():
            continue
        known = files.read_json(path)["plants"]
        for name, what in (
            ("mean", "mean cost"),
            ("risk", f"chance of an episode above the budget at most {RISK:g}"),
        ):
            print(f"\n{half}, {len(known)} plants, {what}\n")
            print("| plants | budgets answered | kept | kept where it could fail | refused | lost: median | mean |")
            print("|---|---|---|---|---|---|---|")
            print(row("all", [each for plant in known for each in plant[name]]))
            for label, values in (("noise", plants.NOISES), ("log", plants.LOGS), ("kind", plants.KINDS),
                                  ("size", map(str, plants.SIZES))):  # fmt: skip
                for value in values:
                    rows = [each for plant in known if plant["labels"][label] == value for each in plant[name]]
                    if rows:
                        print(row(f"{label}: {value}", rows))
        for noise in (None, *plants.NOISES):
            held = [
                plant["true"][each["chosen"]] <= plant["upper"][each["chosen"]]
                for plant in known if noise in (None, plant["labels"]["noise"])
                for each in plant["mean"] if each["chosen"] is not None
            ]  # fmt: skip
            print(
                f"bounds of named policies, noise {noise or 'of any kind'}: {np.mean(held):.1%} of {len(held)} hold"
            )
        pilots = [each for plant in known for each in plant["pilot"]]
        certified, wrong = sum(bool(each["passed"]) for each in pilots), sum(each["wrong"] for each in pilots)
        alarms = [each for plant in known for each in plant["alarm"]]
        calm = [each["false"] for each in alarms if each["false"] is not None]
        needed = [each["needed"] for each in alarms if each["needed"] is not None]
        print(f"\npilot: {certified} of {len(pilots)} certified something, {wrong} wrongly")
        print(
            f"alarm: {sum(calm)} false of {len(calm)}; at 1.5 times the limit, median {np.median(needed):g} episodes"
        )


def row(name: str, rows: list[dict[str, Any]]) -> str:
    answered = [each for each in rows if each["kept"] is not None]
    contested = [each["kept"] for each in answered if each["contested"]]
    possible = [each for each in rows if each["best"] is not None]
    lost = [each["lost"] for each in answered if each["kept"] and each["lost"] is not None]
    refused = np.mean([each["kept"] is None for each in possible])
    shares = [np.mean([each["kept"] for each in answered]), np.mean(contested or [np.nan]), refused]
    told = " | ".join(f"{share:.0%}" for share in [*shares, np.median(lost or [0.0]), np.mean(lost or [0.0])])
    return f"| {name} | {len(answered)} | {told} |"


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"measure": measure, "table": table})
