"""`lspc` and `python -m lspc`: the command line, and Ctrl-C while it is still being imported."""

import signal

# Python's own answer to Ctrl-C would be a traceback out of whatever is being imported.
usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if usual:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from lspc.cli import main  # noqa: E402

if usual:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    main()
