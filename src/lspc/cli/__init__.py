"""The command line: one file per verb or family, imported when the verb is called."""

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from difflib import get_close_matches

from lspc.cli.arguments import take_common
from lspc.cli.interrupts import end_at_once
from lspc.compile_cache import use_compilation_cache
from lspc.errors import UserError, visible
from lspc.version import __version__

VERBS = {
    "inspect": ("data", "check a dataset and show what is in it"),
    "convert": ("data", "write a dataset in another format"),
    "collect": ("data", "make a dataset in a simulator"),
    "fit": ("fit", "from logs to a policy for a cost budget, and a report"),
    "train": ("train", "learn a policy from a dataset"),
    "evaluate": ("evaluate", "measure a run's policies in the simulator"),
    "calibrate": ("calibrate", "choose eps for a cost budget, from data alone"),
    "choose": ("choose", "choose among any runs for a cost budget, from data alone"),
    "pilot": ("pilot", "prove with real episodes that a cost budget is kept"),
    "export": ("export", "write a policy as ONNX, to run where the robot is"),
    "render": ("evaluate", "film episodes of a run's policy"),
    "report": ("report", "write a page about runs or a bench"),
    "bench": ("bench", "run every method on every task, and make the paper's table"),
    "figure": ("figure", "draw one of the paper's figures"),
    "theory": ("theory", "check the paper's bounds on finite CMDPs"),
    "algos": ("lists", "list the methods"),
    "tasks": ("lists", "list the benchmark's tasks"),
    "runs": ("lists", "list runs: settings, progress, measured cost and reward"),
    "completion": ("completion", "print the script that completes verbs and options in a shell"),
    "doctor": ("lists", "show what is installed, and how to get what is missing"),
}
"""The verb -> the module here that holds a function of that name, and one line about it."""
ALL = ", ".join(VERBS)

HELP = f"""lspc {__version__}: safe policies from logged, cost-labelled data

usage: lspc VERB ...        (lspc VERB --help explains each)

{{verbs}}

Every verb also takes
  --config FILE   options from a TOML file (steps = 500); the command line wins
  --quiet         no progress bars or notes; results, warnings and errors stay

A first run:
  lspc fit logs.csv --budget 10 --out model    from your logs, no simulator
  lspc train --preset cpu --out runs/first     from the bundled BallCircle data
  lspc report runs/first                       a page about what was learned
"""


def main(arguments: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with end_at_once():
            _answer(arguments)
    except BrokenPipeError:
        _stop_writing()
    except (UserError, OSError) as error:
        for line in str(error).splitlines() or [repr(error)]:
            print(f"lspc: {visible(line)}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt as stopped:
        print(f"\nlspc: {str(stopped) or 'stopped'}", file=sys.stderr)
        sys.exit(130)
    finally:  # not left to Python, which would tell of a reader that is gone
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _stop_writing()


def _stop_writing() -> None:
    """The reader, such as `head`, has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _answer(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        verbs = "\n".join(f"  {name:<10} {line}" for name, (_, line) in VERBS.items())
        print(HELP.format(verbs=verbs), end="")
    elif arguments[0] == "--version":
        print(__version__)
    else:
        _call(arguments[0], *take_common(arguments[1:]))


def _call(verb: str, rest: list[str], quiet: bool) -> None:
    if verb not in VERBS:
        near = get_close_matches(verb, VERBS, n=1)
        raise UserError(f"unknown verb {verb!r}: {f'did you mean {near[0]}?' if near else f'choose one of {ALL}'}")
    use_compilation_cache()
    import tyro

    function = getattr(importlib.import_module(f"lspc.cli.{VERBS[verb][0]}"), verb)
    with ExitStack() as stack:
        if quiet:
            from lspc.report import terminal

            stack.enter_context(terminal.quiet())
        if any(word.startswith("--no-") for word in rest):
            from lspc.cli.options import settle_switches

            rest = settle_switches(verb, rest)
        if verb == "train":  # its options depend on the method
            function(rest)
        else:
            tyro.cli(function, args=rest, prog=f"lspc {verb}")
