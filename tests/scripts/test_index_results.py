"""results/README.md: it says of every record what it is and how it was made, and it is up to date."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from helpers.made_runs import episodes, make_run

from lspc.errors import UserError
from lspc.files import write_json, write_text

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def index() -> ModuleType:
    spec = importlib.util.spec_from_file_location("index_results", ROOT / "scripts" / "index_results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_up_to_date(index: ModuleType) -> None:
    assert (ROOT / "results" / "README.md").read_text() == index.write_index(), "python scripts/index_results.py"


def test_results_hold_records_only() -> None:
    kinds = {path.suffix for path in (ROOT / "results").rglob("*") if path.is_file()}
    assert kinds == {".json", ".jsonl", ".txt", ".md"}


def test_the_command_of_a_run_is_read_from_its_settings(index: ModuleType, data_file: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "BallRun" / "mine", data_file, episodes("LSPC-O", [1]), hidden=[8, 8], cost_share=None)
    make_run(tmp_path / "BallRun" / "figures" / "lspc", data_file, episodes("LSPC-O", [1]))
    write_text(tmp_path / "BallRun" / "mine.txt", "a table")
    write_json(tmp_path / "sweep.json", {"lspc_version": "9.9.9", "command": "python benchmarks/sweep.py --rounds 1"})
    rows = [line for line in index.write_index(tmp_path).splitlines() if line.startswith("| `")]
    train = f"lspc train --data {data_file} --preset cpu --hidden 8 8 --cost-share None --seeds 0 1"
    figures = "lspc figure all --data runs/BallRun/data.hdf5 --seeds 0 1 --out runs/BallRun/figures"
    assert rows == [
        f"| `BallRun/figures/*` | the runs behind the paper's figures (1) | 0, 1 | 0.1.0 | 0.1.0 | `{figures}` |",
        f"| `BallRun/mine` | lspc | 0, 1 | 0.1.0 | 0.1.0 | `{train}` |",
        "| `BallRun/mine.txt` | the table of the run of this name | 0.1.0 | `lspc evaluate runs/BallRun/mine` |",
        "| `sweep.json` | what a sweep costs | 9.9.9 | `python benchmarks/sweep.py --rounds 1` |",
    ]


def test_a_file_of_unknown_origin_is_refused(index: ModuleType, tmp_path: Path) -> None:
    write_text(tmp_path / "notes.txt", "where is this from?")
    with pytest.raises(UserError, match=r"notes\.txt: say in scripts/index_results\.py what it is"):
        index.write_index(tmp_path)
