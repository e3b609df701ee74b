"""Costs as expressions: every operator by hand, and nothing that is not on the list."""

import numpy as np
import pytest

from lspc.data.tables.expression import parse_expression
from lspc.data.tables.table import Unusable

COLUMNS = {
    "a": np.array([-2.0, 0.0, 3.0]),
    "b": np.array([1, 2, 3]),
    "on": np.array([True, False, True]),
    "temp [C]": np.array([1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 0", [0, 0, 1]),
        ("a >= 0", [0, 1, 1]),
        ("a < b", [1, 1, 0]),
        ("a <= b", [1, 1, 1]),
        ("a == b", [0, 0, 1]),
        ("a != b", [1, 1, 0]),
        ("0 <= a < 3", [0, 1, 0]),
        ("a > 0 or b < 2", [1, 0, 1]),
        ("a and on", [1, 0, 1]),
        ("not on", [0, 1, 0]),
        ("on + 1", [2, 1, 2]),
        ("-a", [2, 0, -3]),
        ("a + b * 2 - 1 / 2", [-0.5, 3.5, 8.5]),
        ("abs(a)", [2, 0, 3]),
        ("max(a, b, 2.5)", [2.5, 2.5, 3]),
        ("min(a, b)", [-2, 0, 3]),
        ("clip(a, -1, 1)", [-1, 0, 1]),
        ("(a > 0) + (b > 1)", [0, 1, 2]),
        ("`temp [C]` > 1.5", [0, 1, 1]),
        ("2", [2, 2, 2]),
    ],
)
def test_values_by_hand(text: str, expected: list[float]) -> None:
    assert parse_expression(text).evaluate(COLUMNS, 3).tolist() == expected


def test_columns_are_named() -> None:
    assert parse_expression("a > 0 and `temp [C]` < max(a, b)").columns == ("a", "temp [C]", "b")


@pytest.mark.parametrize(
    "text",
    [
        "", "a >", "a = 3", "a; b", "__import__('os')", "a.real", "a[0]", "'text' == a", "lambda: a", "[a]",
        "a if b else a", "a ** 2", "a % 2", "a // 2", "a & b", "~a", "+a", "a is b", "a in b", "f(a)", "abs(a, b)",
        "max(a)", "clip(a, 1)", "max(*a)", "abs(x=a)", "True", "None", "1j", "(a := 3)", "f'{a}'", "eval('a')", "a\0",
        "9" * 400,
        "(" * 300 + "a" + ")" * 300, "-" * 20000 + "a", "not " * 20000 + "a",
    ],
)  # fmt: skip
def test_whatever_is_not_on_the_list_is_refused(text: str) -> None:
    with pytest.raises(Unusable, match="is not an expression of columns"):
        parse_expression(text)
