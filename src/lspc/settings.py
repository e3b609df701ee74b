"""Where each setting of a run comes from: defaults < preset < task < user, and never silently."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

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
    known = {field.name for field in fields(config)}
    for layer, values in layers.items():
        unknown = set(values) - known
        if unknown:
            raise UserError(f"unknown setting {sorted(unknown)[0]!r}; known: {', '.join(sorted(known))}")
        config = replace(config, **values)
        provenance.update(dict.fromkeys(values, layer))
    return Resolved(config, provenance)
