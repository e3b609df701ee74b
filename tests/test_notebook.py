"""examples/from_logs.ipynb runs top to bottom, with small networks; it holds no outputs that nobody keeps true."""

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOK = json.loads((EXAMPLES / "from_logs.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
SMALL = "preset='default', steps=20, updates=20, hidden=(8, 8), latent_dim=4, batch_size=32"


@pytest.fixture
def at_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    plt.switch_backend("Agg")  # no window
    yield
    plt.close("all")
    sys.modules.pop("heated_tank", None)


@pytest.mark.usefixtures("at_examples", "unlimited_reach")
def test_the_notebook_runs_top_to_bottom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for number, cell in enumerate(CODE):
        small = cell.replace("steps=2000, updates=2000", SMALL).replace("BUDGET := 5", "BUDGET := 1000")
        exec(compile(small, f"cell {number}", "exec"), names)
    assert names["fitted"].onnx.exists()
    assert (tmp_path / "tank-model" / "report.html").exists()
    assert len(plt.get_fignums()) == 2
    assert capsys.readouterr().out.startswith("eps ")
    assert {row.policy for row in names["rows"]} >= {"data", "LSPC-O"}


def test_it_is_small_and_has_no_outputs() -> None:
    assert len(CODE) > 4
    assert "steps=2000, updates=2000" in "".join(CODE)
    for cell in NOTEBOOK["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
