"""Where each setting of a run comes from: defaults < preset < task < user, and never silently."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from lspc import files
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
    types = get_type_hints(method.Config)
    for layer, values in layers.items():
        values = files.restore_tuples(values)
        for name, value in values.items():
            if name not in types:
                raise UserError(f"unknown setting {name!r}; known: {', '.join(sorted(types))}")
            if not _is_of_type(value, types[name]):
                raise UserError(f"{name} cannot be {value!r}: it must be {_describe_type(types[name])}")
        # One way to write a number, so that the same settings are known as the same.
        config = replace(config, **{name: _convert(value, types[name]) for name, value in values.items()})
        provenance.update(dict.fromkeys(values, layer))
    return Resolved(config, provenance)


def parse(given: Iterable[str]) -> dict[str, Any]:
    """`steps=5`, `cdt.width=16`, `hidden=(8, 8)` as a user writes them."""
    parsed: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UserError(f"cannot read the setting {text!r}: write NAME=VALUE or METHOD.NAME=VALUE")
        parsed[name] = _parse_value(value)
    return parsed


def parse_sweep(text: str | None) -> dict[str, dict[str, Any]]:
    """`expectile=0.5,0.7` as a folder's name -> the settings for it; without a sweep one nameless entry."""
    if text is None:
        return {"": {}}
    name, equals, values = text.partition("=")
    whole = _parse_value(values)
    each = whole if isinstance(whole, tuple) else tuple(_parse_value(value) for value in values.split(","))
    if not (name and equals and values) or len(set(each)) < len(each):
        raise UserError(f"cannot sweep over {text!r}: write NAME=VALUE,VALUE with different values")
    return {f"{name}={str(value).replace(' ', '')}": {name: value} for value in each}


def _parse_value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _is_of_type(value: Any, annotation: Any) -> bool:
    match get_origin(annotation):
        case origin if origin is Literal:
            return value in get_args(annotation)
        case origin if origin in (Union, UnionType):
            return any(_is_of_type(value, choice) for choice in get_args(annotation))
        case origin if origin is tuple:
            return isinstance(value, tuple) and all(_is_of_type(item, get_args(annotation)[0]) for item in value)
        case _:
            wanted = (int, float) if annotation is float else annotation
            return isinstance(value, wanted) and isinstance(value, bool) == (annotation is bool)


def _convert(value: Any, annotation: Any) -> Any:
    if isinstance(value, tuple):
        inside = next(part for part in (annotation, *get_args(annotation)) if get_origin(part) is tuple)
        return tuple(_convert(item, get_args(inside)[0]) for item in value)
    takes_float = float in (annotation, *get_args(annotation)) and int not in get_args(annotation)
    return float(value) if takes_float and isinstance(value, int) and not isinstance(value, bool) else value


def _describe_type(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(map(_describe_type, get_args(annotation)))
    if get_origin(annotation) is Literal:
        return " or ".join(map(repr, get_args(annotation)))
    if annotation is NoneType:
        return "None"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
