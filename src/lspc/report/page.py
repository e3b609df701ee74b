"""One HTML page about runs or a bench: everything it shows is gathered here into a plain dict that JSON can hold.

The page itself (web/) draws from that dict in the reader's browser. Style, script, data and pictures are inside the
one file, so that it can be mailed, opened offline and kept.
"""

import base64
import html
import io
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from lspc import calibration, data, files
from lspc.algos.base import SequencePolicy
from lspc.bench import running, tables
from lspc.bench.grid import PLAN, RUNS
from lspc.bench.records import Results
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.evaluation import FIRST_EPISODE_SEED, RECORDS, Record, Summary, behaviour, bootstrap, check_fits, summarise
from lspc.policy import TrainedPolicy, load_policy
from lspc.report import clips
from lspc.tasks import DEFAULT_BUDGETS, Task, get_task
from lspc.training.loop import CURVE
from lspc.version import __version__

METRICS, CALIBRATION = "metrics.jsonl", calibration.FILE
CURVE_POINTS = 200
DATA_POINTS = 4000
ACTIONS = 300
STATES = 256
"""States of the data among which the one for the picture of actions is looked for."""
NOTES = 20
Part = dict[str, Any]


class Run:
    """A run's folder; its data are opened when first asked for."""

    def __init__(self, path: Path, given: Path | None = None) -> None:
        self.path, self.name, self.given = path, path.resolve().name, given
        self.description: Part = files.read_run(path)
        self.config: Part = self.description["config"]
        self.task: str | None = self.description["task"]
        self.records: list[Record] = files.read_jsonl(path / RECORDS) if (path / RECORDS).exists() else []

    @cached_property
    def dataset(self) -> Dataset | None:
        source = self.given or Path(self.description["dataset"]["source"])
        dataset = data.load(source) if source.exists() else None
        return dataset if dataset and dataset.fingerprint == self.description["dataset"]["fingerprint"] else None

    @property
    def largest_eps(self) -> float | None:
        """Of a policy that was trained for a range of eps."""
        span = self.config.get("restriction_range")
        return span[1] if span else None


def write(
    paths: Sequence[Path],
    out: Path,
    *,
    given: Path | None = None,
    film: bool = True,
    on_stage: Callable[[str], None] | None = None,
) -> list[str]:
    """Write the page about these runs, or about one bench, to `out`; returns what is missing in it, a line each.

    `given` is the dataset, if it is no longer where the runs found it; `on_stage` hears what is being done.
    """
    page = collect(paths, given=given, film=film, on_stage=on_stage)
    files.write_text(out, render(page))
    return page["notes"]


def collect(
    paths: Sequence[Path],
    *,
    given: Path | None = None,
    film: bool = True,
    on_stage: Callable[[str], None] | None = None,
) -> Part:
    """All that the page shows."""
    if not paths:
        raise UserError("name a run folder, such as runs/latest, or a bench folder")
    tell = on_stage or (lambda _: None)
    benches = [path for path in paths if (path / PLAN).exists()]
    if benches and len(paths) > 1:
        raise UserError(f"{benches[0]} is a bench: report it by itself")
    tell("reading records")
    return plain(bench_page(benches[0]) if benches else runs_page([Run(path, given) for path in paths], film, tell))


def render(page: Part) -> str:
    """The page as one file. `<` is written as JSON's escape, so that no name in the data can end the script."""
    web = resources.files("lspc.report") / "web"

    def read(name: str) -> str:
        return (web / name).read_text(encoding="utf-8")

    parts = {
        "title": html.escape(page["title"]),
        "style": read("page.css"),
        "data": json.dumps(page, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "script": read("charts.js") + read("page.js"),
    }
    # One pass over the template: what is filled in is not searched for slots again.
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], read("page.html"))


def plain(value: Any) -> Any:
    """`value` for JSON: six digits are plenty for a picture, and what is no number is null."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() else float(f"{value:.6g}")
    return value


def runs_page(runs: Sequence[Run], film: bool, tell: Callable[[str], None]) -> Part:
    head, notes = runs[0], notes_of(runs)
    views = [view_of(name, runs) for name in _task_names(runs)]
    tell("drawing actions")
    actions = _tried(lambda: actions_of(head), f"a picture of {head.name}'s actions", notes)
    clip = None
    if film:
        tell("filming an episode")
        clip = _tried(lambda: clip_of(head), f"a filmed episode of {head.name}", notes)
    methods = ", ".join(dict.fromkeys(run.description["method"].upper() for run in runs))
    return {
        "kind": "runs",
        "title": f"{methods} on {head.task or head.name}",
        "version": __version__,
        "views": views,
        "runs": [run_part(run) for run in runs],
        "calibrations": [found for run in runs for found in calibrations_of(run)],
        "actions": actions,
        "clip": clip,
        "notes": [*notes, *(note for view in views for note in view.pop("conflicts"))],
    }


def notes_of(runs: Sequence[Run]) -> list[str]:
    """What the folders do not hold, each with the command that makes it."""
    notes = []
    for run in runs:
        if not run.records:
            on = "" if run.task else " --on TASK"
            notes.append(f"measured reward and cost of {run.name}: run `lspc evaluate {run.path}{on}` first")
        if run.dataset is None:
            source = run.given or run.description["dataset"]["source"]
            notes.append(f"the data of {run.name}, not found at {source}: `lspc report {run.path} --data FILE`")
        if not (run.path / METRICS).exists():
            notes.append(f"training curves of {run.name}: its folder has no {METRICS}")
        if (largest := run.largest_eps) is None:
            continue
        if not calibration_files(run.path):
            notes.append(f"the eps for each budget, from data alone: run `lspc calibrate {run.path}` first")
        if run.records and all(record.get("restriction") is None for record in run.records):
            several = " ".join(f"{largest * share:g}" for share in (0.25, 0.5, 1))
            notes.append(f"what eps does, measured: run `lspc evaluate {run.path} --restrictions {several}` first")
    return notes


def _tried(make: Callable[[], Part | None], what: str, notes: list[str]) -> Part | None:
    try:
        return make()
    except (UserError, OSError) as error:
        notes.append(f"{what}: {error}")
        return None


def _task_names(runs: Sequence[Run]) -> list[str | None]:
    """The runs' own tasks first, then others that they were measured on."""
    own = [run.task for run in runs]
    measured = [record["task"] for run in runs for record in run.records]
    names: list[str | None] = list(dict.fromkeys(name for name in [*own, *measured] if name is not None))
    return names or [None]


class Measured(NamedTuple):
    """What makes records those of one policy."""

    policy: str
    mode: str
    settings: str
    """Hash of the run's settings, but for eps, and of its data."""
    guard: float | None
    """The budget that a guard watched over."""
    restriction: float | None
    """eps; none for a policy that has none."""

    @property
    def family(self) -> tuple[str, str, str, float | None]:
        """All but eps."""
        return self[:4]


def view_of(name: str | None, runs: Sequence[Run]) -> Part:
    """One task: its policies, their episodes, sweeps over eps, and the data."""
    task = get_task(name) if name else None
    thresholds = task.thresholds if task else DEFAULT_BUDGETS
    dataset = next((run.dataset for run in runs if run.task == name and run.dataset), None)
    groups, own, conflicts = grouped([run for run in runs if run.records], name)
    at_home = {key.family for key in own}
    shown = {key: group for key, group in groups.items() if key in own or key.family not in at_home}
    names = row_names(shown)
    return {
        "task": name,
        "thresholds": thresholds,
        "rows": [row_of(names[key], key, group, task, dataset) for key, group in shown.items() if task],
        "sweeps": sweeps_of(groups),
        "data": data_of(dataset, task) if dataset else None,
        "profile": data.profile(dataset, thresholds) if dataset else None,
        "conflicts": conflicts,
    }


def grouped(runs: Sequence[Run], task: str | None) -> tuple[dict[Measured, list[Record]], set[Measured], list[str]]:
    """Records by policy, which of those have their run's own eps, and a line for each run whose episodes clash.

    The same episode found twice counts once.
    """
    groups: dict[Measured, dict[tuple[int, int], Record]] = {}
    own: set[Measured] = set()
    conflicts: dict[str, None] = {}
    for run in runs:
        apart = {name: value for name, value in run.config.items() if name != "restriction"}
        for record in (record for record in run.records if record["task"] == task):
            usual = run.config.get("restriction") if record["policy"].endswith("LSPC-O") else None
            eps = usual if record.get("restriction") is None else float(record["restriction"])
            settings = files.content_hash([apart, record["dataset"]])
            key = Measured(record["policy"], record["mode"], settings, record.get("guard"), eps)
            if eps == usual:
                own.add(key)
            first = groups.setdefault(key, {}).setdefault((record["training_seed"], record["seed"]), record)
            if any(first[what] != record[what] for what in ("reward_return", "cost_return")):
                what = f"{record['policy']} {record['mode']} on {task}"
                conflicts[f"{what} was measured twice with different results; those of {run.name} are left out"] = (
                    None
                )
    return {key: list(episodes.values()) for key, episodes in groups.items()}, own, list(conflicts)


def row_names(groups: Mapping[Measured, Sequence[Record]]) -> dict[Measured, str]:
    """The policy's name and guard, with its eps or its run's name where several share it."""
    names = {}
    for key, records in groups.items():
        alike = [other for other in groups if other[:2] == key[:2]]
        several_eps = len({other.restriction for other in alike if other.family == key.family}) > 1
        several_runs = len({other.settings for other in alike}) > 1
        names[key] = key.policy
        names[key] += f", eps {key.restriction:g}" if several_eps and key.restriction is not None else ""
        names[key] += f", guard {key.guard:g}" if key.guard is not None else ""
        names[key] += f", {records[0]['run']}" if several_runs else ""
    return names


def _by_seed(records: Sequence[Record], field: str) -> list[np.ndarray]:
    seeds: dict[int, list[float]] = {}
    for record in records:
        seeds.setdefault(record["training_seed"], []).append(record[field])
    return [np.array(values, float) for values in seeds.values()]


def row_of(name: str, key: Measured, records: Sequence[Record], task: Task, dataset: Dataset | None) -> Part:
    """One policy of the table: raw and normalised figures, and its episodes as (cost, reward, training seed)."""
    # Their run and eps are settled; to the summary they are one policy.
    alike = [{**record, "config": "", "dataset": "", "restriction": None, "guard": None} for record in records]
    summary = summarise(alike, task, dataset)[0]
    return {
        **_figures(summary),
        "name": name,
        "policy": key.policy,
        "settings": key.settings,
        "restriction": key.restriction,
        "raw_reward": vars(bootstrap(_by_seed(records, "reward_return"))),
        "points": [[record["cost_return"], record["reward_return"], record["training_seed"]] for record in records],
    }


def _figures(summary: Summary) -> Part:
    return {
        "mode": summary.mode,
        "seeds": summary.seeds,
        "episodes": summary.episodes,
        "reward": vars(summary.reward),
        "cost": vars(summary.raw_cost),
        "average_cost": vars(summary.average_cost),
    }


def sweeps_of(groups: Mapping[Measured, Sequence[Record]]) -> list[Part]:
    """For each policy that was measured with several eps: reward and cost at each."""
    families: dict[tuple[str, str, str], dict[float, Sequence[Record]]] = {}
    for key, records in groups.items():
        if key.restriction is not None and key.guard is None:
            families.setdefault(key[:3], {})[key.restriction] = records
    return [
        {
            "policy": policy,
            "mode": mode,
            "settings": settings,
            "points": [
                {
                    "restriction": eps,
                    "reward": vars(bootstrap(_by_seed(records, "reward_return"))),
                    "cost": vars(bootstrap(_by_seed(records, "cost_return"))),
                    "costs": [record["cost_return"] for record in records],
                }
                for eps, records in sorted(family.items())
            ],
        }
        for (policy, mode, settings), family in families.items()
        if len(family) > 1
    ]


def data_of(dataset: Dataset, task: Task | None) -> Part:
    """The data's episodes as (cost, reward), the best of them for every budget, and their row of the table."""
    episodes = np.stack([dataset.cost_returns, dataset.returns], axis=1)
    by_cost = episodes[np.lexsort((-episodes[:, 1], episodes[:, 0]))]
    best = np.maximum.accumulate(by_cost[:, 1])
    rises = np.flatnonzero(np.diff(best, prepend=-np.inf) > 0)
    chosen = np.linspace(0, len(episodes) - 1, min(len(episodes), DATA_POINTS)).astype(int)
    summary = behaviour(dataset, task) if task else None
    return {
        "points": episodes[chosen],
        "best": by_cost[rises],
        "costs": _histogram(dataset.cost_returns),
        "row": {**_figures(summary), "name": "data", "raw_reward": vars(bootstrap([dataset.returns]))}
        if summary
        else None,
        "range": [task.reward_min, task.reward_max] if task else None,
    }


def _histogram(costs: np.ndarray) -> Part:
    # Bars of whole width: most costs are counts, and a fractional width would draw false stripes.
    width = max(1.0, math.ceil(float(costs.max()) / 40))
    counts, _ = np.histogram(costs, np.arange(0.0, float(costs.max()) + 2 * width, width))
    return {"width": width, "counts": counts}


def run_part(run: Run) -> Part:
    """A run's settings with where they came from, its data's identity, and its training curves."""
    came_from = run.description["provenance"]
    dataset = run.description["dataset"]
    return {
        "name": run.name,
        "method": run.description["method"],
        "task": run.task,
        "seeds": run.description["seeds"],
        "version": run.description["lspc_version"],
        "settings": [
            {"name": name, "value": json.dumps(value), "source": came_from.get(name, "default")}
            for name, value in run.config.items()
        ],
        # The file's name, not its folder: the page may be sent to others.
        "dataset": {**dataset, "source": Path(dataset["source"]).name},
        "curves": _curves(run),
    }


def _curves(run: Run) -> Part | None:
    """What the networks told while they learned and, if it was asked for, what the simulator said of them."""
    if not (run.path / METRICS).exists() or not (found := curves_of(files.read_jsonl(run.path / METRICS))):
        return None
    path = run.path / CURVE
    records = files.read_jsonl(path) if path.exists() else []
    lines: dict[tuple[int, int], Part] = {}
    for (updates, seed), some in _gathered(records, lambda r: (r["updates"], r["training_seed"])).items():
        lines[updates, seed] = {"step": updates, "seed": seed}
        for policy, episodes in _gathered(some, lambda r: r["policy"]).items():
            for what in ("reward", "cost"):
                mean = float(np.mean([episode[f"{what}_return"] for episode in episodes]))
                lines[updates, seed][f"measured/{what} of {policy}"] = mean
    if measured := curves_of(list(lines.values())):
        found = {**found, "measured": measured["steps"], "metrics": {**measured["metrics"], **found["metrics"]}}
    return found


def _gathered(records: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def curves_of(lines: Sequence[Part]) -> Part | None:
    """Metrics by name and seed; of long runs, means over equal stretches."""
    by_seed: dict[int, dict[int, Part]] = {}
    for line in lines:
        by_seed.setdefault(line["seed"], {})[line["step"]] = line
    if not by_seed:
        return None
    steps = sorted(set.intersection(*(set(of_seed) for of_seed in by_seed.values())))
    stretches = np.array_split(np.array(steps), min(len(steps), CURVE_POINTS))

    def means(of_seed: dict[int, Part], name: str) -> list[float]:
        return [float(np.mean([of_seed[step][name] for step in stretch.tolist()])) for stretch in stretches]

    names = [name for name in lines[0] if name not in ("step", "seed")]
    return {
        "steps": [stretch[-1] for stretch in stretches],
        "seeds": list(by_seed),
        "metrics": {name: [means(of_seed, name) for of_seed in by_seed.values()] for name in names},
    }


def calibration_files(run: Path) -> list[Path]:
    return [path for path in (run / CALIBRATION, *sorted(run.glob(f"policy/seed-*/{CALIBRATION}"))) if path.exists()]


def calibrations_of(run: Run) -> list[Part]:
    """What `lspc calibrate` left for each training seed: cost and reward predicted over eps, an eps per budget."""
    thresholds = get_task(run.task).thresholds if run.task else DEFAULT_BUDGETS
    found = []
    for path in calibration_files(run.path):
        values = files.read_json(path)
        points = [
            {"restriction": point["restriction"], **{what: _ends(point[what]) for what in ("cost", "reward")}}
            for point in sorted(values["curve"], key=lambda point: point["restriction"])
        ]
        chosen = values.get("budgets") or [vars(calibration.load(path.parent).choose(k)) for k in thresholds]
        found.append({
            "run": run.name,
            "task": run.task,
            "seed": values.get("training_seed"),
            "confidence": values.get("confidence"),
            "points": points,
            "budgets": [{"budget": each["budget"], "restriction": each["restriction"]} for each in chosen],
        })  # fmt: skip
    return found


def _ends(interval: Mapping[str, float]) -> dict[str, float]:
    return {end: interval[end] for end in ("mean", "low", "high")}


def actions_of(run: Run) -> Part | None:
    """Actions that the run's policies draw in one state of its data: where the first two of them differ most."""
    main = load_policy(run.path)
    if isinstance(main.net, SequencePolicy):
        return None  # its actions follow from an episode, not from a state
    if run.dataset is None:
        raise UserError("it needs a state of the data, which are not there")
    places = np.linspace(0, run.dataset.transitions - 1, STATES).astype(int)
    states = run.dataset.observations[places]
    policies = [TrainedPolicy(main.net, variant, main.card) for variant in main.net.variants]
    usual = [policy.act(states) for policy in policies]
    apart = np.linalg.norm(usual[0] - usual[min(1, len(usual) - 1)], axis=1)
    place = int(apart.argmax())
    repeated = np.repeat(states[place : place + 1], ACTIONS, axis=0)
    return {
        "run": run.name,
        "dims": run.dataset.action_dim,
        "states": STATES,
        "logged": run.dataset.actions[places[place], :2],
        "policies": [
            {
                "name": policy.variant,
                "usual": usual[number][place, :2],
                "drawn": policy.act(repeated, np.random.default_rng(0))[:, :2],
            }
            for number, policy in enumerate(policies)
        ],
    }


def clip_of(run: Run) -> Part:
    """The first episode of `lspc evaluate`, filmed, and a still of it for those who want nothing to move."""
    if run.task is None:
        raise UserError(f"it was not trained for a task: lspc render {run.path} --on TASK makes one")
    task = get_task(run.task)
    check_fits(run.path, task)
    policy, budget = load_policy(run.path), task.thresholds[0]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "clip.gif"
        act, title = policy.for_episodes(sampled=False), f"{policy.variant} on {task.name}"
        clips.render_episodes(task, act, [FIRST_EPISODE_SEED], out, title=title, budget=budget)
        moving = out.read_bytes()
    with Image.open(io.BytesIO(moving)) as frames:
        still = io.BytesIO()
        frames.seek(getattr(frames, "n_frames", 1) // 2)
        frames.convert("RGB").save(still, format="JPEG", quality=80)
        size = frames.size
    return {
        "policy": policy.variant,
        "budget": budget,
        "size": size,
        "moving": f"data:image/gif;base64,{base64.b64encode(moving).decode()}",
        "still": f"data:image/jpeg;base64,{base64.b64encode(still.getvalue()).decode()}",
    }


def bench_page(path: Path) -> Part:
    """The paper's table, averaged and at each threshold, and for every task its policies in the plane."""
    results = running.gather([path])
    runs = [Run(file.parent) for file in sorted((path / RUNS).rglob("config.json"))]
    measured = [run for run in runs if run.records]
    views = [view_of(name, [run for run in measured if run.task == name]) for name in results.tasks]
    conflicts = [note for view in views for note in view.pop("conflicts")]
    for view in views:
        view["sweeps"], view["profile"] = [], None
    notes = [*results.problems, *conflicts]
    more = [f"and {len(notes) - NOTES} more: lspc bench --from-records {path}"] if len(notes) > NOTES else []
    return {
        "kind": "bench",
        "title": f"Benchmark “{path.resolve().name}”",
        "version": __version__,
        "tables": tables_of(results),
        "views": views,
        "runs": [],
        "calibrations": [],
        "actions": None,
        "clip": None,
        "notes": notes[:NOTES] + more,
    }


def tables_of(results: Results) -> dict[str, dict[str, list[Part]]]:
    """The paper's table for each kind of action, averaged over the thresholds and at each of them."""
    rows = [*tables.rows(results), *tables.rows(results, by_threshold=True)]
    found: dict[str, dict[str, list[Part]]] = {}
    for mode in dict.fromkeys(column.mode for column in results.columns):
        for threshold in dict.fromkeys(row.threshold for row in rows):
            # Policies are compared with those that choose actions in the same way.
            of_mode = [
                row._replace(cells={column: cell for column, cell in row.cells.items() if column.mode == mode})
                for row in rows
                if row.threshold == threshold
            ]
            name = "average" if threshold is None else str(threshold)
            found.setdefault(mode, {})[name] = [_sheet_part(sheet) for sheet in tables.sheets(of_mode, "any")]
    return found


def _sheet_part(sheet: tables.Sheet) -> Part:
    return {
        "title": sheet.title,
        "header": sheet.header,
        "body": [[entry._asdict() for entry in row] for row in sheet.body],
        "breaks": sheet.breaks,
    }
