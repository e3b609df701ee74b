"""What MetaDrive 0.2.6.0 asks for and a present-day Python lacks, in place only while it is imported.

It wants the retired `gym`, of which it uses little more than names. `seaborn` and `matplotlib` give it colours and
plots that are never seen here: without them the import takes half a second instead of two.
"""

import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any


class Box:
    def __init__(self, low: float, high: float, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape


class Unused:
    """For classes MetaDrive only names: as a base, in a type annotation or an isinstance."""


@contextmanager
def stand_ins() -> Generator[None]:
    """Inside `with`, MetaDrive can be imported; what it and its imports do to the environment is undone."""
    modules = _modules()
    kept = {name: sys.modules[name] for name in modules if name in sys.modules}
    environment = dict(os.environ)
    sys.modules.update(modules)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pygame's and old syntax; nothing a user could act on
            yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(kept)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


def _modules() -> dict[str, Any]:
    spaces = _module("gym.spaces", Box=Box, Dict=Unused, MultiDiscrete=Unused)
    registry = SimpleNamespace(env_specs={})
    pyplot = _module("matplotlib.pyplot", figure=None)
    return {
        "gym": _module("gym", Env=Unused, Space=Unused, spaces=spaces),
        "gym.spaces": spaces,
        "gym.envs": _module("gym.envs"),
        "gym.envs.registration": _module("gym.envs.registration", registry=registry, register=lambda **_: None),
        "matplotlib": _module("matplotlib", pyplot=pyplot),
        "matplotlib.pyplot": pyplot,
        "seaborn": _module("seaborn", color_palette=lambda _: [(0.5, 0.5, 0.5)] * 10),
        # For recorded traffic, which no task has; None makes the import fail, and MetaDrive goes on without.
        "tensorflow": None,
        "metadrive.utils.waymo_utils.protos": None,
    }


def _module(name: str, **contents: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(contents)
    return module
