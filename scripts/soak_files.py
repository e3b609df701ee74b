"""The soak's attacks inside one process: damaged files of every kind; simulator workers that die, freeze or lie."""

import os
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import equinox as eqx
import jax
import numpy as np
from helpers import attacks
from helpers.calibrated import add_calibration, guard_models, made, untrained
from helpers.data import small_dataset
from helpers.exported import leave_run
from helpers.made_runs import make_record

from lspc import calibration, checkpoints, data, files
from lspc.acting import Act, Seen
from lspc.algos.base import Spec
from lspc.data.bounds import Bounds
from lspc.data.formats import examine
from lspc.deploy.guard import Guard
from lspc.errors import UserError
from lspc.nets import MLP
from lspc.policy import load_policy
from lspc.runs import Run, layout, record
from lspc.sims.pool import Episode, Pool
from lspc.tasks.own import make_own

PATIENCE = 10
"""Seconds that a damaged file may take."""
POLICY = "policy/seed-0"
FORMATS = (".hdf5", ".npz", ".csv")
BUDGET = 10.0
"""Of the guard whose workers are attacked: it intervenes in the first third of an episode."""
NAN_TANK = '''
from pathlib import Path
from heated_tank import HeatedTank

class LyingTank(HeatedTank):
    """NaN as a reward, once for each mark that somebody leaves."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        for mark in Path(__file__).parent.glob("lie-*"):
            mark.unlink(missing_ok=True)
            reward = float("nan")
        return observation, reward, *rest
'''


class Counts(Protocol):
    folder: Path
    rng: np.random.Generator

    def count(self, what: str, problem: str | None = None) -> None: ...


class Hangs(Exception):
    """A file took longer than it may."""


def attack_files(soak: Counts, times: int) -> None:
    """A question to each kind of file, after its bytes were damaged: the truth, or one line of ours that names it."""
    dataset, run = small_dataset(episodes=4), leave_run(soak.folder / "run", "lspc", small_dataset(episodes=4))
    add_calibration(run, dataset)
    files.write_jsonl(run / layout.METRICS, [{"step": step, "seed": 0, "loss": step / 7} for step in range(20)])
    record.write(run / layout.EVALUATIONS, [make_record(reward, 2.0) for reward in range(10)])
    state = MLP(3, 2, (16,), key=jax.random.key(0))
    checkpoints.write(run / "checkpoint-000000250.safetensors", state, {"step": 250})
    questions: dict[str, tuple[Callable[[Path], Any], bool]] = {
        layout.CONFIG: (lambda path: Run.open(path.parent).method_config(), True),
        layout.METRICS: (files.read_jsonl, False),
        layout.EVALUATIONS: (lambda path: Run.open(path.parent).records(), False),
        f"{POLICY}/{layout.CARD}": (lambda path: load_policy(path.parent).card, True),
        f"{POLICY}/{layout.WEIGHTS}": (lambda path: checkpoints.arrays_by_path(load_policy(path.parent).net), True),
        f"{POLICY}/{layout.CALIBRATION}": (lambda path: calibration.load(path.parent), True),
        "checkpoint-000000250.safetensors": (lambda path: checkpoints.arrays_by_path(_restore(path, state)), True),
    }
    for suffix in FORMATS:
        data.save(dataset, run / f"data{suffix}", {"task": "BallRun"})
        questions[f"data{suffix}"] = (_examine, False)
    for name, (ask, sealed) in questions.items():
        path = run / name
        content, truth = path.read_bytes(), repr(ask(path))
        for _ in range(max(1, times // len(questions))):
            damaged = attacks.damage(content, soak.rng)
            path.write_bytes(damaged)
            unsealed = path.suffix == ".json" and b'"sha256"' not in damaged  # passes for one of an earlier version
            answer, problem = _ask(ask, path)
            if answer is not None and sealed and not unsealed and answer != truth:
                problem = "another answer, without a word"
            soak.count(f"damaged {Path(name).name}", problem)
        path.write_bytes(content)


def _restore(path: Path, state: MLP) -> MLP:
    if checkpoints.read_facts(path).get("step") != 250:
        raise UserError(f"{path}: of another update")  # as the loop tells it
    return checkpoints.read(path, eqx.filter_eval_shape(lambda: state))


def _examine(path: Path) -> Any:
    dataset, problems = examine(path)
    if dataset is None:
        raise UserError("; ".join(problem.message for problem in problems) + f" ({path})")
    return dataset.transitions


def _ask(ask: Callable[[Path], Any], path: Path) -> tuple[str | None, str | None]:
    """The answer or none, and what was wrong with the way it ended."""

    def give_up(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(ask(path)), None
    except UserError as error:
        told = str(error)
        return None, None if "\n" not in told and path.parent.name in told else f"this is not one line: {told!r}"
    except Hangs:
        return None, f"no answer for {PATIENCE} s"
    except Exception as error:
        return None, f"{error!r}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack_workers(soak: Counts, times: int) -> None:
    """Workers killed, frozen or lying in the middle of guarded episodes: each comes once, with its own numbers."""
    (soak.folder / "lying_tank.py").write_text(NAN_TANK)
    sys.path.insert(0, str(soak.folder))  # where the workers look too
    task = make_own("heated_tank:HeatedTank", observation_dim=2, action_dim=1, horizon=60, budgets=(5.0,))
    lying = make_own("lying_tank:LyingTank", observation_dim=2, action_dim=1, horizon=60, budgets=(5.0,))
    guard, seeds = _make_guard(), list(range(1, 31))
    with Pool(task, workers=0) as pool:
        expected = pool.run(guard.for_episodes(BUDGET), seeds)
    intervened = guard.interventions
    strikes = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP, "lying": None}
    for number in range(max(times, len(strikes))):
        name, how = list(strikes.items())[number % len(strikes)]
        moment, calls, troubles = int(soak.rng.integers(2, 80)), [0], list[str]()
        before, guarded = guard.interventions, guard.for_episodes(BUDGET)
        with Pool(lying if how is None else task, workers=2, timeout=5.0, on_trouble=troubles.append) as pool:

            def act(
                seen: Seen, how: Any = how, moment: int = moment, calls: list[int] = calls, guarded: Act = guarded
            ) -> np.ndarray:
                calls[0] += 1
                if calls[0] == moment and how is None:
                    (soak.folder / f"lie-{moment}").touch()
                elif calls[0] == moment:
                    os.kill(soak.rng.choice(attacks.pool_workers()), how)
                return guarded(seen)

            heard: list[Episode] = []
            try:
                found = pool.run(act, seeds, on_episode=heard.append)
                sound = found == expected and sorted(heard) == sorted(expected)
                problem = None if sound else f"other episodes: {len(found)}, heard {len(heard)}"
                counted = {what: count - before[what] for what, count in guard.interventions.items()}
                if counted != intervened:
                    problem = f"the guard counted {counted}, not {intervened}"
            except UserError as error:
                problem = str(error)
        for mark in soak.folder.glob("lie-*"):
            mark.unlink()
        soak.count(f"workers {name}", problem or (None if troubles else "nobody noticed"))


def _make_guard() -> Guard:
    """Of an untrained policy that never heats the tank too much; it expects a cost of 1/4 at each step."""
    drawn = small_dataset(episodes=4)
    seen, following = drawn.observations[:, :2], drawn.next_observations[:, :2]
    dataset = replace(drawn, observations=seen, actions=drawn.actions[:, :1], next_observations=following)
    models = guard_models(Spec.of(dataset))
    return Guard(untrained(dataset), models, made(horizon=60, familiar_within=1e9), Bounds((0.0,), (40.0,)))
