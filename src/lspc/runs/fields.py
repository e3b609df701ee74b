"""A dataclass from a JSON object: a field that is missing or of another kind is named, with its file."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from lspc.errors import UserError

Parsed = TypeVar("Parsed")
WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object"}


class _Field(NamedTuple):
    name: str
    kind: Any
    default: Any


@lru_cache
def _fields(kind: type) -> list[_Field]:
    hints = get_type_hints(kind)
    return [_Field(field.name, hints[field.name], field.default) for field in fields(kind)]


def parse(kind: type[Parsed], values: Any, place: str, *, inside: str = "", **others: Any) -> Parsed:
    """The dataclass `kind` from a JSON object and `others`; what the object has beyond its fields is left out.

    `place` is the file (and line) that errors name, `inside` the object's own name there.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{place}: {inside or 'it'} must be an object, found {values!r}; repair or delete it")
    found = dict(others)
    for name, wanted, default in _fields(kind):
        told = f"{inside}.{name}" if inside else name
        value = values.get(name, default)
        if name in others:
            continue
        if value is MISSING:
            raise UserError(f"{place}: {told} is missing; repair or delete it")
        if is_dataclass(wanted):
            found[name] = parse(cast("type[Any]", wanted), value, place, inside=told)
            continue
        try:
            found[name] = _convert(value, wanted)
        except ValueError as error:
            raise UserError(
                f"{place}: {told} must be {_name(wanted)}, found {value!r}; repair or delete it"
            ) from error
    return kind(**found)


def _convert(value: Any, kind: Any) -> Any:
    """`value` as `kind`: numbers may lack their point, and lists stand for tuples."""
    if isinstance(kind, UnionType):
        choices = get_args(kind)
        if value is None and NoneType in choices:
            return None
        return _convert(value, next(choice for choice in choices if choice is not NoneType))
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_convert(item, get_args(kind)[0]) for item in value)
    plain = get_origin(kind) or kind
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
        raise ValueError
    return value


def _name(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " or ".join("null" if choice is NoneType else _name(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return f"a list, each {_name(get_args(kind)[0])}"
    return WORDS[get_origin(kind) or kind]
