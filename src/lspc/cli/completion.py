"""`lspc completion`: a script for bash, zsh or fish that completes verbs, options and file names."""

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from lspc.cli import VERBS
from lspc.cli.common import shown

COMMON = ("--config", "--help", "--quiet")
BASH = """_lspc() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" options=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{verbs}" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    case "$word" in
        -*) COMPREPLY=($(compgen -W "$options" -- "$word"));;
        *) COMPREPLY=($(compgen -f -- "$word"));;
    esac
}}
complete -o filenames -F _lspc lspc"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n" + BASH


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional, shown("SHELL")]) -> None:
    """Print the script with which a shell completes verbs, options and file names.

    bash: lspc completion bash >> ~/.bashrc

    zsh: lspc completion zsh >> ~/.zshrc

    fish: lspc completion fish > ~/.config/fish/completions/lspc.fish

    Args:
        shell: bash, zsh or fish.
    """
    known = {verb: [*find_options(verb), *COMMON] for verb in VERBS}
    if shell == "fish":
        print("\n".join(_fish(known)))
        return
    cases = "\n".join(f'        {verb}) options="{" ".join(options)}";;' for verb, options in known.items())
    print((ZSH if shell == "zsh" else BASH).format(verbs=" ".join(VERBS), cases=cases))


def find_options(verb: str) -> list[str]:
    """The options of a verb; of `train` also the settings of LSPC."""
    if verb == "train":
        from lspc import algos
        from lspc.cli.train import TrainOptions

        return sorted({*_options(get_type_hints(TrainOptions, include_extras=True)),
                       *(f"--{_flag(field.name)}" for field in fields(algos.get("lspc").Config))})  # fmt: skip
    function = getattr(import_module(f"lspc.cli.{VERBS[verb][0]}"), verb)
    kinds = get_type_hints(function, include_extras=True)
    return sorted(_options({name: kinds[name] for name in inspect.signature(function).parameters}))


def _options(kinds: dict[str, Any]) -> Iterator[str]:
    for name, kind in kinds.items():
        marks = getattr(kind, "__metadata__", ())
        bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        if tyro.conf.Positional in marks:
            continue
        if is_dataclass(bare):
            yield from (f"--{_flag(field.name)}" for field in fields(bare))
        else:
            renamed = next((mark.name for mark in marks if getattr(mark, "name", None)), None)
            yield f"--{_flag(renamed or name)}"


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _fish(known: dict[str, list[str]]) -> Iterator[str]:
    for verb, (_, line) in VERBS.items():
        said = line.replace("'", "\\'")
        yield f"complete -c lspc -n __fish_use_subcommand -f -a {verb} -d '{said}'"
    for verb, options in known.items():
        for option in options:
            yield f"complete -c lspc -n '__fish_seen_subcommand_from {verb}' -l {option.removeprefix('--')}"
