"""The common tests for the methods whose own files do not hold them, and that no method goes without."""

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
from helpers.methods import MethodTests

from lspc import algos


class TestBc(MethodTests):
    method = "bc"


class TestLspc(MethodTests):
    method = "lspc"
    fixed = ("normaliser", "reward_units", "cost_units")


class TestConverse(TestLspc):
    settings: ClassVar[dict[str, Any]] = {"roles": "converse"}


class TestCdt(MethodTests):
    method = "cdt"


@pytest.mark.parametrize("name", algos.METHODS)
def test_every_method_has_the_common_tests(name: str) -> None:
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert re.search(rf'\(\w+Tests\):\n    method = "{name}"', tests)
