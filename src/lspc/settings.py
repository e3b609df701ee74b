"""Where each setting of a run comes from: defaults < preset < task < user, and never silently."""

from collections.abc import Mapping
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from lspc.algos.base import Method
from lspc.errors import UserError
from lspc.tasks import Task


class Resolved(NamedTuple):
    config: Any
    provenance: dict[str, str]
    """Field -> the layer that set it, for every field that is not at its default."""


def resolve(method: Method, preset: str, task: Task | None, user: Mapping[str, Any] | None = None) -> Resolved:
    """Lay the layers over each other; a later layer wins even where it repeats the default's value."""
    if preset not in method.PRESETS:
        raise UserError(f"unknown preset {preset!r}: choose one of {', '.join(method.PRESETS)}")
    layers = {
        f"preset {preset}": method.PRESETS[preset],
        f"task {task.name if task else ''}": method.task_settings(task, preset) if task else {},
        "user": user or {},
    }
    config, provenance = method.Config(), {}
    kinds = get_type_hints(method.Config)
    for layer, values in layers.items():
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        for name, value in values.items():
            if name not in kinds:
                raise UserError(f"unknown setting {name!r}; known: {', '.join(sorted(kinds))}")
            if not _fits(value, kinds[name]):
                raise UserError(f"{name} cannot be {value!r}: it must be {_told(kinds[name])}")
        config = replace(config, **values)
        provenance.update(dict.fromkeys(values, layer))
    return Resolved(config, provenance)


def _fits(value: Any, kind: Any) -> bool:
    match get_origin(kind):
        case origin if origin is Literal:
            return value in get_args(kind)
        case origin if origin in (Union, UnionType):
            return any(_fits(value, choice) for choice in get_args(kind))
        case origin if origin is tuple:
            return isinstance(value, tuple) and all(_fits(item, get_args(kind)[0]) for item in value)
        case _:
            wanted = (int, float) if kind is float else kind
            return isinstance(value, wanted) and isinstance(value, bool) == (kind is bool)


def _told(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(_told, get_args(kind)))
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return "None" if kind is NoneType else kind.__name__ if isinstance(kind, type) else str(kind)
