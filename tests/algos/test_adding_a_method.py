"""The method of docs/adding-a-method.md, taken out of the page: it passes what every method must, and it learns."""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.methods import MethodTests, RingRun
from helpers.ring import ring_data

from lspc import algos
from lspc.bench.grid import budgets
from lspc.evaluation import policy_name
from lspc.tasks import get_task

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-method.md").read_text()
MODULE, REGISTRY, TESTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """As if the file lay beside the other methods and the registry had its line."""
    path = tmp_path_factory.mktemp("method") / "choosy_bc.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("lspc.algos.choosy_bc", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        for name, line in ast.literal_eval(f"{{{REGISTRY}}}").items():
            patch.setitem(algos.METHODS, name, line)
        spec.loader.exec_module(module)
        yield


class TestCommon(MethodTests):
    method = "choosy_bc"
    fixed = ("normaliser", "largest")


def test_a_bench_tells_its_policies_with_and_without_a_budget_apart() -> None:
    """Else the table leaves both out, as the same policy measured twice."""
    assert budgets(algos.get("choosy_bc"), get_task("CarRun")) == (None, 10, 20, 40)
    names = {policy_name("choosy BC", "choosy_bc", {"budget": budget}) for budget in (None, 10, 20, 40)}
    assert names == {"choosy BC", "choosy BC-Safe (10)", "choosy BC-Safe (20)", "choosy BC-Safe (40)"}


def test_the_page_shows_the_test_file_as_it_is_here() -> None:
    _, shown = TESTS.split("\n\n\n")
    assert shown in Path(__file__).read_text()


@pytest.mark.slow
def test_on_the_ring_it_is_far_safer_than_cloning_and_earns_more_than_bc_safe(tmp_path: Path) -> None:
    data, size = ring_data(), {"steps": 750, "batch_size": 128, "hidden": (32, 32)}
    cloned = RingRun(tmp_path / "all", "bc", data, **size).measure()
    safe = RingRun(tmp_path / "safe", "bc", data, **size, budget=2.0).measure()
    choosy = RingRun(tmp_path, "choosy_bc", data, **size, budget=2.0).measure()
    assert choosy[1] < cloned[1] / 3
    assert choosy[0] > safe[0] + 0.05
