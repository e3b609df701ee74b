"""Arrows point one way: what each part of the package may import, read from the source with `ast`.

The table is the architecture (docs/architecture.md draws it). A new arrow is a decision: make it here, with a reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lspc

ROOT = Path(lspc.__file__).parent
GROUND = {"errors", "version"}
"""What anything may import: it imports nothing."""
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "system": set(),
    "acting": set(),
    "replay": set(),
    "compile_cache": set(),
    "lanes": {"system"},
    "workers": {"system"},
    "nets": set(),
    "files": set(),
    "tasks": set(),
    "checkpoints": {"files"},
    # How much memory is free, before a file is believed; what DSRL calls the file of a task.
    "data": {"files", "system", "tasks"},
    "theory": {"files", "report"},
    "sims": {"acting", "data", "files", "nets", "system", "tasks", "workers"},
    "batches": {"data"},
    "algos": {"batches", "data", "nets", "tasks"},
    "runs": {"algos", "data", "files", "tasks"},
    # At run time `policy.act(budget=...)` asks the calibration and the guard.
    "policy": {"acting", "algos", "calibration", "checkpoints", "data", "deploy", "files", "replay", "runs"},
    "training": {"algos", "batches", "checkpoints", "data", "files", "lanes", "policy", "runs", "system", "tasks"},
    "evaluation": {"acting", "algos", "data", "files", "policy", "runs", "sims", "tasks"},
    # A pilot runs episodes a few at a time and looks at them before it runs more.
    "calibration": {
        "algos", "batches", "checkpoints", "data", "evaluation", "files", "lanes", "nets", "policy", "runs", "sims",
        "tasks",
    },
    "deploy": {"acting", "algos", "calibration", "data", "evaluation", "files", "nets", "policy", "runs"},
    "doctor": {"sims", "system", "tasks"},
    # The live grid is drawn with the report's consoles, the report prints the bench's tables.
    "bench": {
        "algos", "data", "evaluation", "files", "report", "runs", "sims", "system", "tasks", "training", "workers",
    },
    "report": {
        "acting", "algos", "bench", "calibration", "data", "doctor", "evaluation", "files", "policy", "runs", "sims",
        "tasks", "training",
    },
    # One call that does what several verbs do.
    "fitting": {
        "algos", "calibration", "data", "deploy", "files", "lanes", "policy", "report", "runs", "tasks", "training",
    },
    # The report draws progress bars for whoever asks for them.
    "api": {
        "algos", "calibration", "data", "deploy", "evaluation", "fitting", "lanes", "policy", "report", "runs",
        "sims", "tasks", "training",
    },
    "cli": {
        "algos", "api", "bench", "calibration", "compile_cache", "data", "deploy", "doctor", "evaluation", "files",
        "lanes", "report", "runs", "sims", "tasks", "theory", "training",
    },
    "__init__": {"api", "data", "sims"},
    "__main__": {"cli"},
}  # fmt: skip
NEVER = [
    ("data", {"algos", "sims", "training", "runs"}),
    ("tasks", {"algos", "sims", "training", "runs"}),
    ("algos", {"files", "sims", "runs", "training", "calibration"}),
    ("sims", {"algos", "training", "calibration"}),
    ("runs", {"sims", "training", "calibration"}),
    ("training", {"calibration", "sims"}),
]
"""What no later table may allow."""


def imported_parts(path: Path) -> Iterator[str]:
    """The parts of the package that a file imports anywhere in it, in functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where an arrow points"
            modules = [f"lspc.{name.name}" for name in node.names] if node.module == "lspc" else [str(node.module)]
        elif isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        else:
            continue
        for module in modules:
            top, _, rest = module.partition(".")
            if top == "lspc" and rest:
                yield rest.split(".")[0]


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_what_the_table_allows(part: str) -> None:
    allowed = MAY_IMPORT[part] | GROUND | {part}
    for path in ROOT.rglob("*.py"):
        if part_of(path) == part:
            beyond = set(imported_parts(path)) - allowed - {"__version__"}
            assert not beyond, f"{path.relative_to(ROOT)} imports {', '.join(sorted(beyond))}"


def test_every_part_is_in_the_table() -> None:
    assert {part_of(path) for path in ROOT.rglob("*.py")} == set(MAY_IMPORT)


def test_every_part_is_on_the_map_for_contributors() -> None:
    drawn = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Adding one")[0]
    folders = {f"{path.parent.name}/" for path in ROOT.rglob("*.py") if path.parent != ROOT}
    modules = {path.name for path in ROOT.glob("*.py") if not path.name.startswith("__")}
    assert {name for name in folders | modules if name not in drawn} == set()


@pytest.mark.parametrize(("part", "forbidden"), NEVER)
def test_the_table_keeps_the_rules(part: str, forbidden: set[str]) -> None:
    assert not MAY_IMPORT[part] & forbidden


def test_nothing_imports_the_command_line() -> None:
    assert [part for part, allowed in MAY_IMPORT.items() if "cli" in allowed] == ["__main__"]


def test_algorithms_do_not_log() -> None:
    for path in (ROOT / "algos").rglob("*.py"):
        names = {
            name.id for name in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(name, ast.Name)
        }
        assert not names & {"print", "logging", "warnings", "open"}, path


def test_the_reader_of_imports_sees_them_all(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "from lspc import cli, data\nimport lspc.sims.pool\ndef f():\n    from lspc.runs.run import Run\n"
    )
    assert list(imported_parts(path)) == ["cli", "data", "sims", "runs"]
