"""`lspc completion`: a script for bash, zsh or fish that completes verbs, options and file names."""

from collections.abc import Iterator
from typing import Annotated, Literal

import tyro

from lspc.cli import VERBS
from lspc.cli.common import shown
from lspc.cli.options import find_options

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
    """Print the script that lets a shell complete verbs, options and file names.

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


def _fish(known: dict[str, list[str]]) -> Iterator[str]:
    for verb, (_, line) in VERBS.items():
        said = line.replace("'", "\\'")
        yield f"complete -c lspc -n __fish_use_subcommand -f -a {verb} -d '{said}'"
    for verb, options in known.items():
        for option in options:
            yield f"complete -c lspc -n '__fish_seen_subcommand_from {verb}' -l {option.removeprefix('--')}"
