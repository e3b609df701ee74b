"""One HTML page about runs or a bench: everything it shows is gathered here into a plain dict that JSON can hold.

The page itself (web/) draws from that dict in the reader's browser. Style, script, data and pictures are inside the
one file, so that it can be mailed, opened offline and kept.
"""

import base64
import html
import io
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lspc import data, files
from lspc.algos.base import SequencePolicy
from lspc.bench import running, tables
from lspc.bench.grid import PLAN, RUNS
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.evaluation import FIRST_EPISODE_SEED, RECORDS, Record, Summary, behaviour, bootstrap, summarise
from lspc.policy import load_policy
from lspc.report import clips
from lspc.tasks import Task, get_task
from lspc.version import __version__

METRICS, CALIBRATION = "metrics.jsonl", "calibration.json"
USUAL_THRESHOLDS = (10, 20, 40)
"""For data of no known task, as in `lspc inspect`."""
CURVE_POINTS = 200
DATA_POINTS = 4000
ACTIONS = 300
STATES = 256
"""States of the data among which the one for the picture of actions is looked for."""
Page = dict[str, Any]
Tell = Callable[[str], None]


class Run:
    """What a run's folder holds, each part read once."""

    def __init__(self, path: Path, given: Path | None = None) -> None:
        self.path, self.name = path, path.resolve().name
        self.description = files.read_run(path)
        self.config: dict[str, Any] = self.description["config"]
        self.task: str | None = self.description["task"]
        self.dataset, self.no_data = _find_data(self.description, given)
        self.records = files.read_jsonl(path / RECORDS) if (path / RECORDS).exists() else []


def _find_data(description: dict[str, Any], given: Path | None) -> tuple[Dataset | None, str]:
    """The data a run learned from, or why they cannot be shown."""
    source = given or Path(description["dataset"]["source"])
    if not source.exists():
        return None, f"{source} is not there"
    found = data.load(source)
    if found.fingerprint != description["dataset"]["fingerprint"]:
        return None, f"{source} is not what the run learned from"
    return found, ""


def write(
    paths: Sequence[Path], out: Path, *, given: Path | None = None, film: bool = True, on_stage: Tell | None = None
) -> list[str]:
    """Write the page about these runs, or about one bench, to `out`; returns what is missing in it, a line each.

    `given` is the dataset, if it is no longer where the runs found it. `on_stage` hears what is being done.
    """
    page = collect(paths, given=given, film=film, on_stage=on_stage)
    files.write_text(out, render(page))
    return page["missing"]


def collect(
    paths: Sequence[Path], *, given: Path | None = None, film: bool = True, on_stage: Tell | None = None
) -> Page:
    if not paths:
        raise UserError("name a run folder, such as runs/latest, or a bench folder")
    tell = on_stage or (lambda _: None)
    benches = [path for path in paths if (path / PLAN).exists()]
    if benches and len(paths) > 1:
        raise UserError(f"{benches[0]} is a bench: report it by itself")
    return _of_bench(benches[0], tell) if benches else _of_runs([Run(path, given) for path in paths], film, tell)


def render(page: Page) -> str:
    """The page as one file. No `<` of the data reaches the browser as such, so no name in them can end the script."""
    web = resources.files("lspc.report") / "web"
    content = json.dumps(page, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {"{{title}}": html.escape(page["title"]), "{{data}}": content}
    for slot, names in {"{{style}}": ("page.css",), "{{script}}": ("charts.js", "page.js")}.items():
        parts[slot] = "\n".join((web / name).read_text(encoding="utf-8") for name in names)
    text = (web / "page.html").read_text(encoding="utf-8")
    # Each slot is looked for in the template alone: what was filled in is never searched again.
    for slot in ("{{title}}", "{{style}}", "{{data}}", "{{script}}"):
        before, text = text.split(slot)
        parts["done"] = parts.get("done", "") + before + parts[slot]
    return parts["done"] + text


def _of_runs(runs: list[Run], film: bool, tell: Tell) -> Page:
    missing: list[str] = []
    tell("reading records")
    views = [view_of(name, runs, missing) for name in _task_names(runs)]
    head = runs[0]
    methods = ", ".join(dict.fromkeys(run.description["method"] for run in runs))
    page: Page = {
        "kind": "runs",
        "title": f"{methods} on {head.task or 'a task of its own'}",
        "version": __version__,
        "views": views,
        "runs": [_run_part(run, missing) for run in runs],
        "calibrations": [part for run in runs if (part := calibration_of(run))],
        "actions": None,
        "clip": None,
        "missing": missing,
    }
    tell("drawing actions")
    page["actions"] = _tried(lambda: actions_of(head), f"a picture of {head.name}'s actions", missing)
    if film:
        tell("filming an episode")
        page["clip"] = _tried(lambda: clip_of(head), f"an episode of {head.name}", missing)
    if not any(view["sweeps"] for view in views) and "restriction" in head.config:
        missing.append(f"a sweep over eps: lspc evaluate {head.path} --policies LSPC-O --restrictions 0.25 0.5 1")
    if not page["calibrations"] and "restriction" in head.config:
        missing.append(f"the eps for each budget from data alone: lspc calibrate {head.path}")
    return page


def _tried(make: Callable[[], Any], what: str, missing: list[str]) -> Any:
    try:
        return make()
    except (UserError, ImportError, OSError) as error:
        missing.append(f"{what}: {error}")
        return None


def _task_names(runs: Sequence[Run]) -> list[str | None]:
    """The runs' own tasks first, then others they were measured on."""
    own = [run.task for run in runs]
    measured = [record["task"] for run in runs for record in run.records]
    names = list(dict.fromkeys(name for name in [*own, *measured] if name is not None))
    return names or [None]


# What was measured on a task.


def view_of(name: str | None, runs: Sequence[Run], missing: list[str]) -> Page:
    """A task's policies, episodes, sweeps over eps and data."""
    task = get_task(name) if name else None
    thresholds = task.thresholds if task else USUAL_THRESHOLDS
    own = [run for run in runs if run.task == name]
    dataset = next((run.dataset for run in own if run.dataset), None)
    if own and dataset is None:
        missing.append(f"the data of {name or own[0].name}: {own[0].no_data}; say --data FILE")
    groups = _groups(name, runs, missing) if task else {}
    for run in own:
        if task and not any(record["task"] == name for record in run.records):
            missing.append(f"{run.name}'s measured reward and cost: lspc evaluate {run.path}")
    shown = _for_table(groups)
    names = _row_names(list(shown))
    return {
        "task": name,
        "thresholds": list(thresholds),
        "rows": [row_of(names[key], group, task, dataset) for key, group in shown.items() if task],
        "sweeps": sweeps_of(groups, names),
        "data": data_of(dataset, task) if dataset else None,
        "profile": data.profile(dataset, thresholds) if dataset else None,
    }


Key = tuple[str, str, str, float | None]
"""Policy, mode, settings and data but for eps, eps: what makes records one policy's."""


def _groups(task: str | None, runs: Sequence[Run], missing: list[str]) -> dict[Key, list[Record]]:
    """Records by policy. The same episode twice counts once; if the two disagree, that is told."""
    groups: dict[Key, dict[tuple[int, int], Record]] = {}
    own_eps: dict[Key, float | None] = {}
    for run in runs:
        without = {name: value for name, value in run.config.items() if name != "restriction"}
        for record in run.records:
            if record["task"] != task:
                continue
            own = run.config.get("restriction") if record["policy"].endswith("LSPC-O") else None
            given = record.get("restriction")
            eps = own if given is None else float(given)
            settings = files.content_hash([without, record["dataset"]])
            key = record["policy"], record["mode"], settings, eps
            own_eps[key] = own
            episodes = groups.setdefault(key, {})
            place = record["training_seed"], record["seed"]
            same = episodes.setdefault(place, {**record, "run": run.name, "restriction": None, "own": eps == own})
            if any(same[field] != record[field] for field in ("reward_return", "cost_return")):
                told = f"one of two records of {record['policy']}, training seed {place[0]}, that differ: left out"
                missing.append(f"{told} that of {run.name}")
    return {key: list(episodes.values()) for key, episodes in groups.items()}


def _for_table(groups: dict[Key, list[Record]]) -> dict[Key, list[Record]]:
    """Each policy with its run's own eps; where that was not measured, with every eps that was."""
    own = {key[:3] for key, group in groups.items() if group[0]["own"]}
    return {key: group for key, group in groups.items() if group[0]["own"] or key[:3] not in own}
