"""The options that each verb has, read off the types of its function: for shells, and for what a file turns off."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro

from lspc.cli import VERBS


def find_options(verb: str) -> list[str]:
    """The options of a verb; of `train` also the settings of LSPC."""
    options = [option for option, _ in _read_types(verb)]
    if verb == "train":
        from lspc import algos

        options += [_flag(field.name) for field in fields(algos.get("lspc").Config)]
    return sorted(set(options))


def settle_switches(verb: str, words: Sequence[str]) -> list[str]:
    """The words with the last one on each switch alone: `--no-NAME` takes back a `--NAME` before it.

    The parser itself knows no such word for options that are off unless named.
    """
    switches = {option for option, is_switch in _read_types(verb) if is_switch}
    off = {switch.replace("--", "--no-", 1): switch for switch in switches}
    last = {off.get(word, word): word for word in words}
    return [word for word in words if word not in off and (word not in switches or last[word] == word)]


def _read_types(verb: str) -> Iterator[tuple[str, bool]]:
    """Each option, and whether it is a switch: off unless named."""
    function = getattr(import_module(f"lspc.cli.{VERBS[verb][0]}"), verb)
    if verb == "train":  # it reads its own arguments
        from lspc.cli.train import TrainOptions

        yield from _read_hints(get_type_hints(TrainOptions, include_extras=True))
        return
    kinds = get_type_hints(function, include_extras=True)
    yield from _read_hints({name: kinds[name] for name in inspect.signature(function).parameters})


def _read_hints(kinds: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    for name, kind in kinds.items():
        marks = getattr(kind, "__metadata__", ())
        bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        if tyro.conf.Positional in marks:
            continue
        if is_dataclass(bare):
            yield from _read_hints(get_type_hints(bare, include_extras=True))
        else:
            renamed = next((mark.name for mark in marks if getattr(mark, "name", None)), None)
            yield _flag(renamed or name), tyro.conf.FlagCreatePairsOff in marks


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
