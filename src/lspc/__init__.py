"""lspc: safe policies from logged, cost-labelled data.

import lspc

fitted = lspc.fit("logs.csv", budget=10)  # learns, chooses eps for the budget, writes ONNX and a report
action = fitted.predict(observation)
print(fitted)

Or step by step: `load_dataset`, `train`, `calibrate`, `load_policy`, `export`, `evaluate`, `pilot`. `record` makes
logs.
"""

from typing import TYPE_CHECKING, Any

from lspc.version import __version__

if TYPE_CHECKING:
    from lspc.api import calibrate, evaluate, export, fit, load_dataset, load_policy, pilot, save_dataset, train
    from lspc.data import Dataset
    from lspc.errors import UserError
    from lspc.sims.record import record

__all__ = [
    "Dataset",
    "UserError",
    "__version__",
    "calibrate",
    "evaluate",
    "export",
    "fit",
    "load_dataset",
    "load_policy",
    "pilot",
    "record",
    "save_dataset",
    "train",
]


def __dir__() -> list[str]:
    """The names above; modules that happen to be imported are no part of it."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import on first use: `import lspc` and the command line's help stay instant."""
    if name not in __all__:
        raise AttributeError(f"module 'lspc' has no attribute {name!r}")
    import importlib

    homes = {"Dataset": "lspc.data", "UserError": "lspc.errors", "record": "lspc.sims.record"}
    return getattr(importlib.import_module(homes.get(name, "lspc.api")), name)
