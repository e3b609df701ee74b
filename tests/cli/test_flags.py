"""Every flag of every verb, given once: its own parser takes it, and the value arrives."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import tyro

from lspc import algos
from lspc.algos import METHODS
from lspc.cli import VERBS
from lspc.cli.train import TrainOptions, _parse


def another(kind: Any, default: Any) -> Any:
    """A value of this type that is not the default."""
    match get_origin(kind):
        case origin if origin is Annotated:
            return another(get_args(kind)[0], default)
        case origin if origin in (Union, UnionType):
            return another(next(part for part in get_args(kind) if part is not NoneType), default)
        case origin if origin is Literal:
            return next(choice for choice in get_args(kind) if choice != default)
        case origin if origin is tuple:
            first, *others = get_args(kind)
            several = [first, first] if others == [Ellipsis] else [first, *others]
            return tuple(another(each, None) for each in several)
    if kind is bool:
        return not default
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return replace(default, **{name: another(hints[name], getattr(default, name)) for name in hints})
    return {int: 7, float: 0.375, str: "some", Path: Path("some/where")}[kind]


def written(flag: str, value: Any) -> list[str]:
    if is_dataclass(value):  # its fields are options of their own
        named = [written(field.name.replace("_", "-"), getattr(value, field.name)) for field in fields(value)]
        return [word for words in named for word in words]
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]


def name_of(parameter: str, kind: Any) -> str:
    """As tyro spells it, unless the annotation names it."""
    renamed = [getattr(mark, "name", None) for mark in getattr(kind, "__metadata__", ())]
    return next((name for name in renamed if name), parameter.replace("_", "-"))


def parse_only(function: Callable[..., None]) -> Callable[..., dict[str, Any]]:
    """A function of the same signature and help that returns what it is called with."""

    def values(**given: Any) -> dict[str, Any]:
        return given

    values.__wrapped__ = function  # pyrefly: ignore [missing-attribute]
    values.__annotations__, values.__doc__ = function.__annotations__, function.__doc__
    return values


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "train"])
def test_every_flag_is_taken_by_its_own_parser(verb: str) -> None:
    function = getattr(import_module(f"lspc.cli.{VERBS[verb][0]}"), verb)
    kinds = get_type_hints(function, include_extras=True)
    first, then, wanted = list[str](), list[str](), dict[str, Any]()
    for parameter in inspect.signature(function).parameters.values():
        kind = kinds[parameter.name]
        value = wanted[parameter.name] = another(kind, parameter.default)
        words = written(name_of(parameter.name, kind), value)
        if tyro.conf.Positional in getattr(kind, "__metadata__", ()):
            first += words[1:]
        else:
            then += words
    assert tyro.cli(parse_only(function), args=[*first, *then], prog=f"lspc {verb}") == wanted


@pytest.mark.parametrize("method", METHODS)
def test_train_takes_every_option_and_every_setting_of_every_method(method: str) -> None:
    wanted: dict[str, Any] = {"algo": method, "preset": "cpu", "task": "CarRun"}
    arguments: list[str] = []
    for field, kind in zip(
        fields(TrainOptions), get_type_hints(TrainOptions, include_extras=True).values(), strict=True
    ):
        value = wanted.setdefault(field.name, another(kind, field.default))
        arguments += written(field.name.replace("_", "-"), value)
    config, settings = algos.get(method).Config, dict[str, Any]()
    kinds = get_type_hints(config)
    for field in fields(config):
        settings[field.name] = another(kinds[field.name], field.default)
        arguments += written(field.name.replace("_", "-"), settings[field.name])
    options, task, given = _parse(arguments)
    assert vars(options) == wanted
    assert task is not None
    assert task.name == "CarRun"
    assert given == settings
