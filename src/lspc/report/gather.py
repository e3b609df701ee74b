"""What the page shows, gathered from run folders or a bench into a plain dict that JSON can hold."""

import base64
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from PIL import Image

from lspc import calibration, files
from lspc.algos.base import SequencePolicy
from lspc.bench import running, tables
from lspc.bench.grid import RUNS
from lspc.bench.records import Results
from lspc.calibration import certificate
from lspc.calibration.choosing import FEWEST_NEAR
from lspc.errors import UserError
from lspc.evaluation import FIRST_EPISODE_SEED, check_fits
from lspc.policy import TrainedPolicy, load_policy
from lspc.report import clips
from lspc.report.curves import read_curves
from lspc.report.views import Part, Source, make_view
from lspc.runs import Run, layout
from lspc.tasks import get_task
from lspc.version import __version__

ACTIONS = 300
STATES = 256
"""States of the data among which the one for the picture of actions is looked for."""
NOTES = 20


def gather_runs(sources: Sequence[Source], film: bool, tell: Callable[[str], None]) -> Part:
    head, notes = sources[0], list_missing(sources)
    runs = [source.run for source in sources]
    views = [make_view(name, sources) for name in _task_names(sources)]
    tell("drawing actions")
    actions = _try(lambda: draw_actions(head), f"a picture of {head.run.name}'s actions", notes)
    clip = None
    if film:
        tell("filming an episode")
        clip = _try(lambda: film_episode(head.run), f"a filmed episode of {head.run.name}", notes)
    methods = ", ".join(dict.fromkeys(run.method.upper() for run in runs))
    return {
        "kind": "runs",
        "title": f"{methods} on {head.run.task or Path(head.run.dataset.source).name}",
        "version": __version__,
        "written": today(),
        "views": views,
        "runs": [describe_run(run) for run in runs],
        "calibrations": [found for run in runs for found in read_calibrations(run)],
        "certificates": [found for run in runs for found in read_certificates(run)],
        "actions": actions,
        "clip": clip,
        "notes": [*notes, *(note for view in views for note in view.pop("conflicts"))],
    }


def list_missing(sources: Sequence[Source]) -> list[str]:
    """What the folders do not hold, each with the command that makes it."""
    notes = []
    for source in sources:
        run = source.run
        if not source.records:
            on = "" if run.task else " --on MODULE:CALLABLE"
            notes.append(f"measured reward and cost of {run.name}: run `lspc evaluate {run.path}{on}` first")
        if source.dataset is None:
            place = source.given or run.dataset.source
            notes.append(f"the data of {run.name}, not found at {place}: `lspc report {run.path} --data FILE`")
        if not (run.path / layout.METRICS).exists():
            notes.append(f"training curves of {run.name}: its folder has no {layout.METRICS}")
        if (span := run.config.get("restriction_range")) is None:
            continue
        if not layout.calibration_paths(run.path):
            notes.append(f"the eps for each budget, from data alone: run `lspc calibrate {run.path}` first")
        if source.records and all(record.restriction is None for record in source.records):
            several = " ".join(f"{span[1] * share:g}" for share in (0.25, 0.5, 1))
            notes.append(f"what eps does, measured: run `lspc evaluate {run.path} --restrictions {several}` first")
    return notes


def _try(make: Callable[[], Part | None], what: str, notes: list[str]) -> Part | None:
    try:
        return make()
    except (UserError, OSError) as error:
        notes.append(f"{what}: {error}")
        return None


def _task_names(sources: Sequence[Source]) -> list[str | None]:
    """The runs' own tasks first, then others that they were measured on."""
    own = [source.run.task for source in sources]
    measured = [record.task for source in sources for record in source.records]
    names: list[str | None] = list(dict.fromkeys(name for name in [*own, *measured] if name is not None))
    return names or [None]


def describe_run(run: Run) -> Part:
    """A run's settings with where they came from, its data's identity, and its training curves."""
    return {
        "name": run.name,
        "method": run.method,
        "task": run.task,
        "seeds": run.seeds,
        "version": run.lspc_version,
        "trained": date_of(run),
        "settings": [
            {"name": name, "value": json.dumps(value), "source": run.provenance.get(name, "default")}
            for name, value in run.config.items()
        ],
        # The file's name, not its folder: the page may be sent to others.
        "dataset": {**vars(run.dataset), "source": Path(run.dataset.source).name},
        "curves": read_curves(run),
    }


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def date_of(run: Run) -> str | None:
    """When its last policy was written; none if there is none yet."""
    cards = sorted(run.path.glob(f"policy/seed-*/{layout.CARD}"))
    return (
        datetime.fromtimestamp(max(card.stat().st_mtime for card in cards), UTC).date().isoformat() if cards else None
    )


def read_calibrations(run: Run) -> list[Part]:
    """What `lspc calibrate` left for each training seed: cost and reward predicted over eps, an eps per budget."""
    thresholds = run.budgets(get_task(run.task) if run.task else None)
    found = []
    for path in layout.calibration_paths(run.path):
        try:
            found.append({"run": run.name, "task": run.task, **_read_calibration(path, thresholds)})
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: not a calibration that this version of lspc can read ({error})") from error
    return found


def _read_calibration(path: Path, thresholds: Sequence[float]) -> Part:
    values = files.read_json(path)
    chosen = values.get("budgets") or [vars(calibration.load(path.parent).choose(k)) for k in thresholds]
    points = [
        {"restriction": point["restriction"], **{what: _ends(point[what]) for what in ("cost", "reward")}}
        for point in sorted(values["curve"], key=lambda point: point["restriction"])
    ]
    costs, unit = values.get("episode_costs", []), values.get("cost_margin", {}).get("unit", 0.0)
    return {
        "seed": values.get("training_seed"),
        "confidence": values.get("confidence"),
        "points": points,
        "speaks_from": math.inf if values.get("doubt") else least_budget(costs, unit) if costs else 0.0,
        "budgets": [{"budget": each["budget"], "restriction": each["restriction"]} for each in chosen],
    }


def least_budget(episode_costs: Sequence[float], unit: float) -> float:
    """The smallest budget that the data can speak of, by `Calibration.choose`'s rule; infinite if there is none."""
    if len(episode_costs) < FEWEST_NEAR:
        return math.inf
    needed = sorted(episode_costs)[FEWEST_NEAR - 1]
    return max(0.0, min(needed / 2.0, needed - unit))


def read_certificates(run: Run) -> list[Part]:
    """What `lspc pilot` proved, or failed to prove, of the policies that are there, for each budget."""
    found = []
    for path in layout.certificate_paths(run.path):
        made = certificate.read(path)
        if not certificate.belongs(path, made):
            continue
        found.append({
            "run": run.name,
            "task": run.task,
            "seed": made.training_seed,
            "budget": made.claim.budget,
            "restriction": made.restriction,
            "confidence": made.claim.confidence,
            "episodes": made.episodes,
            "words": made.explain().splitlines(),
        })  # fmt: skip
    return found


def _ends(interval: Mapping[str, float]) -> dict[str, float]:
    return {end: interval[end] for end in ("mean", "low", "high")}


def draw_actions(source: Source) -> Part | None:
    """Actions that the run's policies draw in one state of its data: where the first two of them differ most."""
    main, dataset = load_policy(source.run.path), source.dataset
    if isinstance(main.net, SequencePolicy):
        return None  # its actions follow from an episode, not from a state
    if dataset is None:
        raise UserError("it needs a state from the data, which were not found")
    places = np.linspace(0, dataset.transitions - 1, STATES).astype(int)
    states = dataset.observations[places]
    policies = [TrainedPolicy(main.net, variant, main.card) for variant in main.net.variants]
    usual = [policy.act(states) for policy in policies]
    bounds = main.action_bounds.for_actions(dataset.action_dim, source.run.name)
    scaled = [bounds.to_unit(actions) for actions in usual]  # no unit outweighs another
    distance = np.linalg.norm(scaled[0] - scaled[min(1, len(usual) - 1)], axis=1)
    place = int(distance.argmax())
    repeated = np.repeat(states[place : place + 1], ACTIONS, axis=0)
    return {
        "run": source.run.name,
        "dims": dataset.action_dim,
        "bounds": list(zip(bounds.low, bounds.high, strict=True))[:2],
        "states": STATES,
        "logged": dataset.actions[places[place], :2],
        "policies": [
            {
                "name": policy.variant,
                "usual": usual[number][place, :2],
                "drawn": policy.act(repeated, np.random.default_rng(0))[:, :2],
            }
            for number, policy in enumerate(policies)
        ],
    }


def film_episode(run: Run) -> Part:
    """The first episode of `lspc evaluate`, filmed, and a still of it for those who want nothing to move."""
    if run.task is None:
        raise UserError(f"run `lspc render {run.path} --on MODULE:CALLABLE`, in an environment of your own")
    task = run.find_task()
    check_fits(run, task)
    policy, budget = load_policy(run.path), task.thresholds[0]
    with files.temporary_folder() as folder:
        out = folder / "clip.gif"
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


def gather_bench(path: Path) -> Part:
    """The paper's table, averaged and at each threshold, and for every task its policies in the plane."""
    results = running.gather([path])
    sources = [Source(Run.open(folder)) for folder in layout.find_runs(path / RUNS)]
    measured = [source for source in sources if source.records]
    views = [make_view(name, [each for each in measured if each.run.task == name]) for name in results.tasks]
    conflicts = [note for view in views for note in view.pop("conflicts")]
    for view in views:
        view["sweeps"], view["profile"] = [], None
    notes = [*results.problems, *conflicts]
    more = [f"and {len(notes) - NOTES} more: lspc bench --from-records {path}"] if len(notes) > NOTES else []
    return {
        "kind": "bench",
        "title": f"Benchmark “{path.resolve().name}”",
        "version": __version__,
        "written": today(),
        "tables": make_tables(results),
        "views": views,
        "runs": [],
        "calibrations": [],
        "certificates": [],
        "actions": None,
        "clip": None,
        "notes": notes[:NOTES] + more,
    }


def make_tables(results: Results) -> dict[str, dict[str, list[Part]]]:
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
