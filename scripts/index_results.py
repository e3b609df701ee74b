"""Writes results/README.md: what each record is, the command and the version that made it.

python scripts/index_results.py

Of a run all of it is read from the run itself. What is a file of its own is named in FILES below: a file that is not
is refused.
"""

import warnings
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from lspc import files
from lspc.errors import UserError
from lspc.runs import Run, layout

RESULTS = Path(__file__).parents[1] / "results"
README = RESULTS / "README.md"
OPENING = """# Raw records

What the numbers in README and docs are computed from. `scripts/run.sh` makes most of it, the other scripts there
print the tables. This file is written by `python scripts/index_results.py`: do not edit it.

A run's folder holds its settings (`config.json`) and its episodes, a line each (`evaluations.jsonl`, `curve.jsonl`);
checkpoints and policies are left out. Versions are those of lspc.
"""
GROUPS = {
    "bench": (
        "every other method",
        "lspc bench --tasks BallCircle CarRun --algos bc fisor coptidice bcq_lag cdt cpq bear_lag --preset cpu "
        "--seeds 1 --data runs --out runs/bench",
    ),
    "figures": (
        "the runs behind the paper's figures",
        "lspc figure all --data runs/{task}/data.hdf5 --seeds {seeds} --out runs/{task}/figures",
    ),
}
"""A folder of runs below a task's -> what they are and the one command that made them all."""


class Kind(NamedTuple):
    what: str
    command: str
    version: str = ""
    """Unless the file says it, or belongs to a run that does."""


PROFILE = Kind("what the task's data hold", "lspc inspect runs/{task}/data.hdf5 --json", "0.1.0")
SAFETY = "python scripts/safety.py --data runs --out results/safety --methods lspc --tasks {name}"
FILES = {
    "CarGoal1/data.json": PROFILE._replace(version="0.2.0"),
    "harddense/data.json": PROFILE._replace(version="0.2.0"),
    "*/data.json": PROFILE,
    "safety/*.json": Kind("LSPC at each budget by itself, three training seeds", SAFETY, "0.3.0.dev0"),
    "safety-change-11/*.json": Kind("the same with half of the updates, calibrated before", SAFETY, "0.3.0.dev0"),
    "safety-short-data/*.json": Kind("the same with too short a collection", SAFETY, "0.3.0.dev0"),
    "safety-fallback/*.json": Kind("the same with a fallback to LSPC-S that was dropped", SAFETY, "0.3.0.dev0"),
    "safety-quarter/*.json": Kind("the same with more careful episodes, dropped", SAFETY, "0.3.0.dev0"),
    "safety-change-10/*.json": Kind("the same before change 11 of docs/lspc.md", SAFETY, "0.3.0.dev0"),
    "safety-change-9/*.json": Kind("the same before change 10", SAFETY, "0.3.0.dev0"),
    "safety-shorter/*.json": Kind("the same with a quarter of the updates", SAFETY, "0.3.0.dev0"),
    "safety-fixed-divergence/*.json": Kind("the same before change 9", SAFETY, "0.3.0.dev0"),
    "calibration/*.guard.json": Kind(
        "LSPC-O with and without the guard",
        "lspc evaluate runs/{task}/run --seeds 0 --policies LSPC-O --actions deterministic --restrictions 1.5 2 "
        "--guard 20 40 --json (and other eps and budgets; runs of scripts/safety.py, calibrated)",
        "0.3.0.dev0",
    ),
    "calibration/plants-*.json": Kind(
        "calibration, pilot and alarm on random plants whose truth is known", "python scripts/coverage.py"
    ),
    "calibration/estimators.json": Kind(
        "standard off-policy estimators beside ours on plants whose truth is known",
        "python scripts/estimators.py measure",
    ),
    "calibration/picture.json": Kind(
        "the picture of calibration: estimates and truth on the bundled BallCircle",
        "lspc calibrate runs/BallCircle/lspc --budget 5 10 20 40 --verify --json",
    ),
    "calibration/*.json": Kind(
        "eps chosen from data, checked in the simulator",
        "lspc calibrate runs/{task}/lspc --budget 5 10 20 40 --updates 5000 --verify --json",
        "0.2.0",
    ),
    "products.json": Kind("the matrix products of an update", "python benchmarks/products.py"),
    "shares.json": Kind("what an update spends its time on", "python benchmarks/shares.py"),
    "short-runs/*.json": Kind("fingerprints of short runs", "python scripts/short_runs.py"),
    "theory/checks.json": Kind(
        "the paper's statements on finite CMDPs", "lspc theory --count 3000 --seed 0", "0.1.0"
    ),
    "theory/*": Kind("how errors fall with the number of samples", "lspc theory sample-complexity", "0.1.0"),
    "fuzz.json": Kind("inputs that nobody expects, opened", "python scripts/fuzz_data.py"),
    "deploy.json": Kind("microseconds per action", "python benchmarks/deploy.py", "0.2.0"),
    "speed.json": Kind("speed of training and simulators", "python benchmarks/speed.py --seconds 5", "0.2.0"),
    "speed-pool.json": Kind("speed of the worker pool", "python benchmarks/speed.py --parts pool", "0.2.0"),
    "speed-methods.json": Kind(
        "speed of every method", "python benchmarks/speed.py --parts methods --seconds 6", "0.2.0"
    ),
    "updates.json": Kind("updates beside the best matrix product and PyTorch", "python benchmarks/updates.py"),
    "use.json": Kind("where the time goes in use", "python benchmarks/use.py"),
    "streaming-gather.json": Kind(
        "rows from a disk, asked for together and one after the other", "python benchmarks/streaming.py --gather"
    ),
    "streaming.json": Kind("training on 20 GB with 4 GB of memory", "python benchmarks/streaming.py"),
    "growth.json": Kind("time and memory against sizes", "python benchmarks/growth.py"),
    "presets-*.json": Kind("five training seeds of three presets: dead critics", "python scripts/presets.py"),
    "threads.json": Kind("one thread for each seed against all cores", "python benchmarks/threads.py"),
    "streaming-1e8.json": Kind("training on 10^8 rows with 2 GB of memory", "python benchmarks/streaming.py"),
    "soak.json": Kind("counts of the last soak", "python scripts/soak.py"),
    "sweep.json": Kind("what a sweep costs", "python benchmarks/sweep.py --rounds 8", "0.2.0"),
    "search-*.json": Kind("LSPC-O with and without its search", "python scripts/search.py"),
    "units.json": Kind("LSPC on data in other units of cost and reward", "python scripts/units.py"),
    "tried.json": Kind("settings that were tried for LSPC's defaults", "python scripts/tried.py", "0.1.0"),
    "*/*.txt": Kind("the table of the run of this name", "lspc evaluate runs/{task}/{name}"),
}
"""Pattern -> what such a file is; the first that fits counts."""


def write_index(results: Path = RESULTS) -> str:
    """The README's text."""
    runs = layout.find_runs(results)
    alone = [run for run in runs if run.parent.name not in GROUPS]
    groups = sorted({run.parent for run in runs} - {run.parent for run in alone})
    rows = [_run_row(results, run) for run in alone] + [_group_row(results, group, runs) for group in groups]
    inside = {path for run in runs for path in run.iterdir()}
    inside.add(results / README.name)
    others = [path for path in sorted(results.rglob("*")) if path.is_file() and path not in inside]
    tables = (
        ("Runs", "| folder | method | training seeds | trained by | measured by | command |", sorted(rows)),
        ("Files", "| file | what it is | made by | command |", [_file_row(results, path) for path in others]),
    )
    parts = [OPENING]
    for title, header, lines in tables:
        parts.append(f"\n## {title}\n\n{header}\n|{'---|' * (header.count('|') - 1)}\n" + "".join(lines))
    return "".join(parts)


def _open(folder: Path) -> Run:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no SHA-256")  # runs of the first versions have none
        return Run.open(folder)


def _run_row(results: Path, folder: Path) -> str:
    run = _open(folder)
    seeds = ", ".join(map(str, run.seeds))
    return _row(folder.relative_to(results), run.method, seeds, run.lspc_version, _measured(run), _train_command(run))


def _group_row(results: Path, group: Path, runs: Iterable[Path]) -> str:
    inside = [_open(folder) for folder in runs if folder.parent == group]
    what, command = GROUPS[group.name]
    seeds = sorted({seed for run in inside for seed in run.seeds})
    command = command.format(task=group.parent.name, seeds=" ".join(map(str, seeds)))
    trained = ", ".join(sorted({run.lspc_version for run in inside}))
    measured = ", ".join(sorted({version for run in inside for version in _measured(run).split(", ")} - {""}))
    place = f"{group.relative_to(results)}/*"
    return _row(place, f"{what} ({len(inside)})", ", ".join(map(str, seeds)), trained, measured, command)


def _measured(run: Run) -> str:
    records = [*run.records(), *run.records(layout.CURVE)]
    return ", ".join(sorted({record.lspc_version for record in records}))


def _train_command(run: Run) -> str:
    """The command that gives a run of these settings."""
    presets = [source.removeprefix("preset ") for source in run.provenance.values() if source.startswith("preset ")]
    words = ["lspc train", f"--data {run.dataset.source}"]
    words += [f"--algo {run.method}"] if run.method != "lspc" else []
    words += [f"--preset {presets[0] if presets else 'default'}"]
    words += [_option(name, run.config[name]) for name, source in run.provenance.items() if source == "user"]
    return " ".join([*words, f"--seeds {' '.join(map(str, run.seeds))}"])


def _option(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _file_row(results: Path, path: Path) -> str:
    place = path.relative_to(results)
    kind = next((kind for pattern, kind in FILES.items() if fnmatch(str(place), pattern)), None)
    if kind is None:
        raise UserError(f"{path}: say in scripts/index_results.py what it is and how it was made")
    run, known = path.with_suffix(""), {"lspc_version": kind.version, "command": kind.command}
    if layout.is_run(run):
        known["lspc_version"] = _measured(_open(run))
    elif path.suffix == ".json" and isinstance(said := files.read_json(path), dict):
        said = said["methods"]["lspc"] if kind.command == SAFETY else said
        known |= {name: value for name, value in said.items() if name in known}
    task = place.name.split(".")[0] if place.parts[0] == "calibration" else place.parts[0]
    return _row(place, kind.what, known["lspc_version"], known["command"].format(task=task, name=path.stem))


def _row(place: object, *cells: str) -> str:
    *words, command = cells
    return f"| {' | '.join([f'`{place}`', *words, f'`{command}`'])} |\n"


def main() -> None:
    files.write_text(README, write_index())
    print(README)


if __name__ == "__main__":
    main()
