"""`lspc completion`: the script knows every verb and option, and bash takes it."""

import subprocess

import pytest
from helpers.cli import Cli

from lspc.cli import VERBS
from lspc.cli.options import find_options


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_verb_is_in_the_script(cli: Cli, shell: str) -> None:
    script = cli("completion", shell).stdout
    assert all(verb in script for verb in VERBS)
    assert "budget" in script


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "train"])
def test_the_options_are_those_of_the_help(cli: Cli, verb: str) -> None:
    helped = cli(verb, "--help", columns=200).stdout
    assert [option for option in find_options(verb) if option not in helped] == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "expected"),
    [("lspc cal", ["calibrate"]), ("lspc fit --bud", ["--budget"]), ("lspc train --evaluate-e", 2)],
)
def test_bash_completes(cli: Cli, words: str, expected: list[str] | int) -> None:
    last = len(words.split()) - 1
    code = f'COMP_WORDS=({words}); COMP_CWORD={last}; _lspc; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", f"{cli('completion', 'bash').stdout}\n{code}"], capture_output=True, text=True, check=True
    )
    found = done.stdout.split()
    assert found == expected if isinstance(expected, list) else len(found) == expected
