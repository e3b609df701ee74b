"""lspc: safe policies from logged, cost-labelled data.

import lspc

dataset = lspc.load_dataset("logs.hdf5")
run = lspc.train(dataset, "runs/first", preset="cpu")
policy = lspc.load_policy(run)
action = policy.act(observation)
"""

from typing import TYPE_CHECKING, Any

from lspc.version import __version__

if TYPE_CHECKING:
    from lspc.api import calibrate, evaluate, export, load_dataset, load_policy, pilot, save_dataset, train
    from lspc.data import Dataset
    from lspc.errors import UserError
    from lspc.sims.record import record
    from lspc.tasks import all_tasks, get_task

__all__ = [
    "Dataset",
    "UserError",
    "__version__",
    "all_tasks",
    "calibrate",
    "evaluate",
    "export",
    "get_task",
    "load_dataset",
    "load_policy",
    "pilot",
    "record",
    "save_dataset",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import on first use: `import lspc` and the command line's help stay instant."""
    if name not in __all__:
        raise AttributeError(f"module 'lspc' has no attribute {name!r}")
    import importlib

    homes = {
        "Dataset": "lspc.data", "UserError": "lspc.errors", "all_tasks": "lspc.tasks", "get_task": "lspc.tasks",
        "record": "lspc.sims.record",
    }  # fmt: skip
    return getattr(importlib.import_module(homes.get(name, "lspc.api")), name)
