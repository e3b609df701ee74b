"""The methods. Adding one: write its file beside this one, then name it here (docs/adding-a-method.md)."""

import importlib
from typing import TYPE_CHECKING, cast

from lspc.errors import UserError

if TYPE_CHECKING:
    from lspc.algos.base import Method

METHODS = {
    "lspc": "latent safety-prioritised constraints: LSPC-O, LSPC-S and the plain CVAE in one run",
    "bc": "behaviour cloning by squared error; with a budget, of the episodes within it only (BC-Safe)",
    "bcq_lag": "BCQ-Lag: a CVAE's actions, perturbed towards reward, with a Lagrangian for the cost",
    "bear_lag": "BEAR-Lag: an actor within a small MMD of the data, with a Lagrangian for the cost",
    "cpq": "CPQ: unknown actions count as costly, and what costs too much as worthless",
    "coptidice": "COptiDICE: cloning weighted by the stationary distribution of the best policy within the budget",
    "fisor": "FISOR: a diffusion policy guided by which states can still avoid every violation",
    "cdt": "constrained decision transformer: asked for reward and cost, it predicts the actions that bring them",
}
"""The module's name in this folder -> one line about it."""


def get(name: str) -> "Method":
    if name not in METHODS:
        raise UserError(f"unknown method {name!r}: choose one of {', '.join(METHODS)}")
    return cast("Method", importlib.import_module(f"lspc.algos.{name}"))
