"""What a bench consists of: its plan, the cells of the grid as jobs to carry out, and which of them are done.

A bench is a folder: bench.json holds the plan, runs/TASK/METHOD-... one run for each cell, as `lspc train` and
`lspc evaluate` make them. What is done is read from those runs every time and noted nowhere else.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from lspc import algos, data, evaluation, files, sims
from lspc.algos.base import Method
from lspc.errors import UserError
from lspc.evaluation import FIRST_EPISODE_SEED
from lspc.runs import Run, layout
from lspc.runs.fields import parse
from lspc.runs.run import identity
from lspc.tasks import Task, get_task
from lspc.training import settings
from lspc.version import __version__

PLAN, RUNS = "bench.json", "runs"


@dataclass(frozen=True)
class Plan:
    """Everything that identifies a bench."""

    tasks: dict[str, str]
    """Task -> fingerprint of its data."""
    methods: tuple[str, ...]
    preset: str = "default"
    settings: dict[str, Any] = field(default_factory=dict)
    """Over the preset's: `steps` for every method, `cdt.width` for one."""
    seeds: int = 3
    """Training seeds 0, 1, ..."""
    together: int = 3
    """Seeds that one program trains."""
    episodes: int = 20
    modes: tuple[str, ...] = ("deterministic",)


@dataclass(frozen=True)
class Job:
    """One cell of the grid: all that a worker needs to know, in values that JSON can hold."""

    name: str
    """Its place in the grid and, below runs/, its folder."""
    task: str
    method: str
    config: dict[str, Any]
    provenance: dict[str, str]
    seeds: list[int]
    data: str
    dataset: str
    """The fingerprint that the data must have."""
    out: str
    episodes: int
    modes: list[str]
    memory: int = 4 << 30
    """Bytes it is expected to take; until the method has been seen at work, a careful guess."""
    only_measure: bool = False
    """Tell speed and memory of a few updates and leave nothing behind."""


def make_plan(
    data_files: Mapping[str, Path],
    methods: Sequence[str],
    *,
    preset: str = "default",
    overrides: Mapping[str, Any] | None = None,
    seeds: int = 3,
    together: int | None = None,
    episodes: int = 20,
    modes: Sequence[str] = ("deterministic",),
) -> Plan:
    """The plan for these tasks and methods; what would fail later is told here."""
    if min(seeds, 1 if together is None else together, episodes) < 1:
        raise UserError("seeds, seeds together and episodes must be 1 or more")
    if not modes or set(modes) - set(evaluation.MODES):
        raise UserError(f"modes must be among {', '.join(evaluation.MODES)}, not {', '.join(modes)}")
    if absent := [name for name in data_files if not sims.is_installed(name)]:
        raise UserError(f"the simulator of {', '.join(absent)} is not installed: `lspc doctor` says how")
    plan = Plan(
        dict.fromkeys(data_files, ""), tuple(dict.fromkeys(methods)), preset, dict(overrides or {}), seeds,
        min(together or seeds, seeds), episodes, tuple(modes),
    )  # fmt: skip
    for name, method in product(data_files, plan.methods):
        resolve(plan, get_task(name), method, None)
    return replace(plan, tasks={name: data.load(path).fingerprint for name, path in data_files.items()})


def find_data(folder: Path, tasks: Iterable[str]) -> dict[str, Path]:
    """Each task's file: TASK.hdf5 or TASK/data.hdf5."""
    choices = {name: (folder / f"{name}.hdf5", folder / name / "data.hdf5") for name in tasks}
    found = {name: next((path for path in paths if path.exists()), None) for name, paths in choices.items()}
    if missing := [name for name, path in found.items() if path is None]:
        raise UserError(
            f"{folder} has no data for {', '.join(missing)}: it must hold TASK.hdf5 or TASK/data.hdf5 for each; "
            "`lspc collect` makes them"
        )
    return {name: path for name, path in found.items() if path is not None}


def budgets(method: Method, task: Task) -> tuple[float | None, ...]:
    """What a method is trained for: each threshold, or once for all of them, or (BC and BC-Safe) both."""
    defaults = {setting.name: setting.default for setting in fields(method.Config)}
    if "budget" not in defaults:
        return (None,)
    return (None, *task.thresholds) if defaults["budget"] is None else task.thresholds


def resolve(plan: Plan, task: Task, method: str, budget: float | None) -> settings.Resolved:
    user: dict[str, Any] = {}
    for key, value in plan.settings.items():
        owner, _, name = key.rpartition(".")
        if name == "budget":
            raise UserError("the budget is what a bench varies: it cannot be set")
        if owner and owner not in plan.methods:
            raise UserError(f"the setting {key} belongs to a method that is not part of this bench")
        if owner in ("", method):
            user[name] = value
    return settings.resolve(
        algos.get(method), plan.preset, task, user if budget is None else {**user, "budget": float(budget)}
    )


def make_jobs(plan: Plan, bench: Path, data_files: Mapping[str, Path]) -> list[Job]:
    """Every cell of the plan, one of each method first, so that their speeds are soon known."""
    made: list[Job] = []
    for task, method in ((get_task(name), method) for name in plan.tasks for method in plan.methods):
        for budget in budgets(algos.get(method), task):
            config, provenance = resolve(plan, task, method, budget)
            for first in range(0, plan.seeds, plan.together):
                last = min(first + plan.together, plan.seeds) - 1
                name = f"{task.name}/{method}{'' if budget is None else f'-{budget}'}-seeds-{first}-{last}"
                made.append(
                    Job(
                        name, task.name, method, files.as_json(asdict(config)), provenance,
                        list(range(first, last + 1)), str(data_files.get(task.name, "")), plan.tasks[task.name],
                        str(bench / RUNS / name), plan.episodes, list(plan.modes),
                    )
                )  # fmt: skip
    seen: Counter[str] = Counter()

    def turn(job: Job) -> int:
        seen[job.method] += 1
        return seen[job.method]

    return sorted(made, key=turn)


def is_done(job: Job) -> bool:
    """Whether the cell's run is complete; refuses a folder that holds another run."""
    if layout.is_run(Path(job.out)):
        Run.open(job.out).check_same(identity(job.method, job.seeds, job.dataset, job.config))
    return is_complete(job)


def is_complete(job: Job) -> bool:
    """Whether there is every policy and every episode."""
    return all(card.exists() for card in _cards(job)) and not list_missing_modes(job)


def list_missing_modes(job: Job) -> list[str]:
    """The modes in which not every policy of the trained run has all its episodes yet."""
    there = {(r.task, r.policy, r.mode, r.training_seed, r.seed) for r in Run.open(job.out).records()}
    names = [evaluation.policy_name(v, job.method, job.config) for v in files.read_json(_cards(job)[0])["variants"]]
    numbers = [FIRST_EPISODE_SEED + i for i in range(job.episodes)]
    return [mode for mode in job.modes if not set(product([job.task], names, [mode], job.seeds, numbers)) <= there]


def _cards(job: Job) -> list[Path]:
    return [layout.policy_folder(Path(job.out), seed) / layout.CARD for seed in job.seeds]


def read_plan(bench: Path) -> Plan | None:
    path = bench / PLAN
    if not path.exists():
        return None
    return parse(Plan, files.read_json(path), f"{path}")


def keep_plan(plan: Plan, bench: Path) -> Plan:
    """Write the plan down, with what the bench had before: it may grow by tasks, methods and modes, not change."""
    old = read_plan(bench)
    now = replace(plan, settings=files.as_json(plan.settings))
    if old is not None:
        for name in ("preset", "settings", "seeds", "together", "episodes"):
            there, wanted = getattr(old, name), getattr(now, name)
            if there != wanted:
                raise UserError(f"{bench} is a bench with {name} {there}, not {wanted}; choose another --out")
        for task in set(old.tasks) & set(now.tasks):
            if old.tasks[task] != now.tasks[task]:
                raise UserError(f"{bench} is a bench on other data of {task}; choose another --out")
        more: dict[str, Any] = {
            name: tuple(dict.fromkeys(getattr(old, name) + getattr(now, name))) for name in ("methods", "modes")
        }
        now = replace(now, tasks={**old.tasks, **now.tasks}, **more)
    files.write_json(bench / PLAN, {"lspc_version": __version__, **asdict(now)})
    return now
