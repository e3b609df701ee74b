"""The command line: one file per verb or family, imported when the verb is called."""

import importlib
import os
import sys
from collections.abc import Sequence

import tyro

from lspc.errors import UserError
from lspc.version import __version__

VERBS = {
    "inspect": ("data", "check a dataset and show what is in it"),
    "convert": ("data", "write a dataset in another format"),
    "collect": ("data", "make a dataset in a simulator"),
    "train": ("train", "learn a policy from a dataset"),
    "evaluate": ("evaluate", "measure a run's policies in the simulator"),
    "calibrate": ("calibrate", "choose eps for a cost budget, from data alone"),
    "export": ("export", "write a policy as ONNX, to run where the robot is"),
    "render": ("evaluate", "film episodes of a run's policy"),
    "report": ("report", "write a page about runs or a bench"),
    "bench": ("bench", "run every method on every task, and make the paper's table"),
    "figure": ("figure", "draw one of the paper's figures"),
    "theory": ("theory", "check the paper's bounds on finite CMDPs"),
    "algos": ("lists", "list the methods"),
    "tasks": ("lists", "list the benchmark's tasks"),
    "doctor": ("lists", "say what is installed and how to mend what is not"),
}
"""The verb -> the module here that holds a function of that name, and one line about it."""

HELP = f"""lspc {__version__}: safe policies from logged, cost-labelled data

usage: lspc VERB ...        (lspc VERB --help explains each)

{{verbs}}

A first run:
  lspc train --preset cpu --out runs/first      learns from the bundled BallCircle data
  lspc evaluate runs/first                      measures LSPC-S and LSPC-O in real physics
"""


def main(arguments: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        verbs = "\n".join(f"  {name:<10} {line}" for name, (_, line) in VERBS.items())
        print(HELP.format(verbs=verbs), end="")
        return
    if arguments[0] == "--version":
        print(__version__)
        return
    verb, rest = arguments[0], arguments[1:]
    try:
        if verb not in VERBS:
            raise UserError(f"unknown verb {verb!r}: choose one of {', '.join(VERBS)}")
        function = getattr(importlib.import_module(f"lspc.cli.{VERBS[verb][0]}"), verb)
        if verb == "train":
            function(rest)
        else:
            tyro.cli(function, args=rest, prog=f"lspc {verb}")
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (UserError, OSError) as error:
        for line in str(error).splitlines() or [repr(error)]:
            print(f"lspc: {line}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt as stopped:
        print(f"\nlspc: {str(stopped) or 'stopped'}", file=sys.stderr)
        sys.exit(130)
