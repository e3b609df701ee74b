"""The cost as an expression of columns, such as "temp > 80 and not venting": parsed by a whitelist, never executed.

Comparisons, and / or / not, + - * /, numbers, names of columns (in `backticks` where they are no plain words), and
abs, min, max, clip. What is true counts 1.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lspc.data.tables.table import Unusable

Values = NDArray[Any]
ALLOWED = "comparisons, and, or, not, + - * /, numbers, columns, abs, min, max and clip"
QUOTED = re.compile(r"`([^`]*)`")

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Values]] = {
    ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Lt: np.less, ast.LtE: np.less_equal, ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Values]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
}  # fmt: skip
FUNCTIONS: dict[str, tuple[int, int, Callable[..., Values]]] = {
    "abs": (1, 1, np.abs),
    "min": (2, 99, lambda *values: np.minimum.reduce(np.broadcast_arrays(*values))),
    "max": (2, 99, lambda *values: np.maximum.reduce(np.broadcast_arrays(*values))),
    "clip": (3, 3, lambda values, low, high: np.minimum(np.maximum(values, low), high)),
}
"""How many arguments each takes, at least and at most, and what it does."""


@dataclass(frozen=True)
class Expression:
    """A cost that was parsed: `columns` are those it needs."""

    text: str
    columns: tuple[str, ...]
    tree: ast.expr
    quoted: tuple[str, ...]

    def evaluate(self, columns: Mapping[str, Values], rows: int) -> NDArray[np.float64]:
        """Its value in each row; a division by zero is infinite or NaN there, for the caller to refuse."""
        with np.errstate(all="ignore"):
            value = self._value(self.tree, {name: columns[name].astype(np.float64) for name in self.columns})
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (rows,)).copy()

    def _value(self, node: ast.expr, columns: Mapping[str, Values]) -> Any:
        match node:
            case ast.Constant():
                return np.float64(node.value)  # pyrefly: ignore
            case ast.Name():
                return columns[_real_name(node.id, self.quoted)]
            case ast.UnaryOp(op=ast.Not()):
                return np.equal(self._value(node.operand, columns), 0)
            case ast.UnaryOp(op=ast.USub()):
                return -np.asarray(self._value(node.operand, columns), dtype=np.float64)
            case ast.BinOp():
                sides = [np.asarray(self._value(side, columns), np.float64) for side in (node.left, node.right)]
                return ARITHMETIC[type(node.op)](*sides)
            case ast.BoolOp():
                truths = [np.not_equal(self._value(value, columns), 0) for value in node.values]
                combine = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
                return combine.reduce(np.broadcast_arrays(*truths))
            case ast.Compare():
                sides = [self._value(side, columns) for side in (node.left, *node.comparators)]
                pairs = zip(node.ops, sides[:-1], sides[1:], strict=True)
                held = [COMPARISONS[type(op)](left, right) for op, left, right in pairs]
                return np.logical_and.reduce(np.broadcast_arrays(*held))
            case ast.Call(func=ast.Name(id=name)):
                arguments = [np.asarray(self._value(value, columns), np.float64) for value in node.args]
                return FUNCTIONS[name][2](*arguments)
        raise AssertionError(f"{ast.dump(node)} was let through")


def parse_expression(text: str) -> Expression:
    """The expression, or a word on what in it is not allowed."""
    quoted = tuple(QUOTED.findall(text))
    plain = text
    for number, _ in enumerate(quoted):
        plain = QUOTED.sub(f" quoted_column_{number}_ ", plain, count=1)
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
        names: list[str] = []
        _check(tree, names)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise Unusable("costs", f"the cost {text!r} is not an expression of columns ({_reason(error)})") from error
    columns = tuple(dict.fromkeys(_real_name(name, quoted) for name in names))
    return Expression(text, columns, tree, quoted)


def _reason(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.msg}; allowed are {ALLOWED}"
    return f"{error or 'too deeply nested'}; allowed are {ALLOWED}"


def _real_name(name: str, quoted: tuple[str, ...]) -> str:
    number = re.fullmatch(r"quoted_column_(\d+)_", name)
    return quoted[int(number[1])] if number and int(number[1]) < len(quoted) else name


def _check(node: ast.expr, names: list[str]) -> None:
    """Raise a ValueError that names what is not on the list; the columns go into `names`."""
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            float(value)  # pyrefly: ignore
            return
        case ast.Name(id=name):
            names.append(name)
            return
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            parts = [operand]
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
            parts = [left, right]
        case ast.BoolOp(values=values):
            parts = values
        case ast.Compare(left=left, ops=operators, comparators=others) if all(
            type(op) in COMPARISONS for op in operators
        ):
            parts = [left, *others]
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in FUNCTIONS:
            fewest, most, _ = FUNCTIONS[name]
            if not fewest <= len(parts) <= most:
                raise ValueError(f"{name} takes {fewest}{' or more' if most > fewest else ''} argument(s)")
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not allowed")
    for part in parts:
        _check(part, names)
