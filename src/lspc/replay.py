"""A function traced by JAX and replayed by NumPy: for one observation at a time, where starting a compiled program
takes several times as long as the arithmetic in it.

What depends on constants alone is computed once, when the function is traced.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter, methodcaller
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

INLINED = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"}
"""Calls of other traced functions, which become a part of this one."""
PLAIN: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "max": np.maximum, "min": np.minimum, "abs": np.abs, "sign": np.sign, "exp": np.exp, "log": np.log,
    "log1p": np.log1p, "expm1": np.expm1, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt,
    "square": np.square, "pow": np.power, "stop_gradient": np.asarray, "copy": np.asarray,
}  # fmt: skip
"""NumPy's functions that need no more than the operands."""


class NotReplayable(Exception):
    """The function holds an operation that is not written down here."""


class Replay:
    """`function(example)` for arguments of the example's shape and type; it must return one array."""

    def __init__(self, function: Callable[[Any], Any], example: np.ndarray) -> None:
        traced = jax.make_jaxpr(function)(example)
        self._steps: list[tuple[Callable[..., Any], int, int | None, int]] = []
        """What to call, with the values at which one or two places, and where to put the result."""
        self._known: list[Any] = [None]
        """A place for each value, the argument first; those that depend on it are none here."""
        (self._answer,) = self._inline(traced, [0])
        for place in {place for step in self._steps for place in step[1:3] if place} | {self._answer}:
            if self._known[place] is not None:
                self._known[place] = np.asarray(self._known[place])[()]

    def __call__(self, argument: np.ndarray) -> np.ndarray:
        values = self._known.copy()
        values[0] = argument
        with np.errstate(all="ignore"):  # what is not finite is the caller's to find, as with JAX
            for operation, first, second, made in self._steps:
                values[made] = (
                    operation(values[first]) if second is None else operation(values[first], values[second])
                )
        return values[self._answer]

    def _inline(self, traced: ClosedJaxpr, arguments: Sequence[int]) -> list[int]:
        """Add the steps of a traced function whose arguments are at these places; returns where its results are."""
        places: dict[Any, int] = dict(zip(traced.jaxpr.invars, arguments, strict=True))
        for variable, constant in zip(traced.jaxpr.constvars, traced.consts, strict=True):
            places[variable] = self._keep(constant)

        def find(variable: Any) -> int:
            return self._keep(variable.val) if isinstance(variable, Literal) else places[variable]

        for equation in traced.jaxpr.eqns:
            taken = [find(variable) for variable in equation.invars]
            places.update(zip(equation.outvars, self._add(equation, taken), strict=True))
        return [find(variable) for variable in traced.jaxpr.outvars]

    def _add(self, equation: Any, taken: list[int]) -> list[int]:
        if equation.primitive.name in INLINED:
            inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
            return self._inline(inner, taken)
        if all(self._known[place] is not None for place in taken):
            results = equation.primitive.bind(*(self._known[place] for place in taken), **equation.params)
            return [self._keep(each) for each in (results if isinstance(results, list) else [results])]
        operations = _find_operations(equation)
        if equation.primitive.name == "concatenate":
            for place in taken[1:]:
                taken = [self._step(operations[0], taken[0], place)]
            return taken
        return [self._step(operation, *taken) for operation in operations]

    def _step(self, operation: Callable[..., Any], first: int, second: int | None = None) -> int:
        made = self._keep(None)
        self._steps.append((operation, first, second, made))
        return made

    def _keep(self, value: Any) -> int:
        self._known.append(value)
        return len(self._known) - 1


def _find_operations(equation: Any) -> list[Callable[..., Any]]:
    """What NumPy calls a JAX operation with these settings: one function for each of its results."""
    name, settings, made = equation.primitive.name, equation.params, equation.outvars[0].aval
    if not np.issubdtype(made.dtype, np.floating):
        raise NotReplayable(f"{name} of {made.dtype}")  # NumPy divides whole numbers in another way, and more
    if name in PLAIN and len(equation.invars) <= 2:
        return [PLAIN[name]]
    if name == "dot_general" and settings["dimension_numbers"] == _by_matrix(equation.invars[0].aval.ndim):
        return [np.dot]
    if name == "concatenate":
        return [lambda first, second: np.concatenate((first, second), settings["dimension"])]
    if name == "slice" and not settings["strides"]:
        return [itemgetter(tuple(map(slice, settings["start_indices"], settings["limit_indices"])))]
    if name == "split":
        lead, ends = (slice(None),) * settings["axis"], np.cumsum(settings["sizes"]).tolist()
        return [itemgetter((*lead, slice(*part))) for part in pairwise([0, *ends])]
    if name in ("reshape", "squeeze", "expand_dims"):
        return [methodcaller("reshape", made.shape)]
    if name == "broadcast_in_dim":
        return [_broadcast(made.shape, settings["broadcast_dimensions"])]
    if name == "integer_pow":
        return [lambda x: x ** settings["y"]]
    if name == "logistic":
        return [lambda x: 1 / (1 + np.exp(-x))]
    if name == "convert_element_type":
        return [methodcaller("astype", made.dtype)]
    raise NotReplayable(name)


def _by_matrix(rank: int) -> Any:
    """What `x @ weight` multiplies: the last axis of x, of this rank, and the first of the weights."""
    return (((rank - 1,), (0,)), ((), ()))


def _broadcast(shape: tuple[int, ...], axes: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    def broadcast(x: np.ndarray) -> np.ndarray:
        lead = [1] * len(shape)
        for axis, size in zip(axes, x.shape, strict=True):
            lead[axis] = size
        return np.broadcast_to(x.reshape(lead), shape)

    return broadcast
