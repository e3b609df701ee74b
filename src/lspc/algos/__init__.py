"""The methods. Adding one: write its file beside this one, then name it here."""

import importlib
from typing import TYPE_CHECKING, cast

from lspc.errors import UserError

if TYPE_CHECKING:
    from lspc.algos.base import Method

METHODS = {
    "lspc": "latent safety-prioritised constraints: LSPC-O, LSPC-S and the plain CVAE in one run",
    "bc": "behaviour cloning by squared error; with a budget, of the episodes within it only (BC-Safe)",
    "cdt": "constrained decision transformer: asked for reward and cost, it predicts the actions that bring them",
}
"""The module's name in this folder -> one line about it."""


def get(name: str) -> "Method":
    if name not in METHODS:
        raise UserError(f"unknown method {name!r}: choose one of {', '.join(METHODS)}")
    return cast("Method", importlib.import_module(f"lspc.algos.{name}"))
