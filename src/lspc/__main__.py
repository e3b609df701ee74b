"""`lspc` and `python -m lspc`: the command line, and Ctrl-C before it begins."""

import signal

# Python's own answer to Ctrl-C would be a traceback out of whatever is being imported. `main` changes it once it can
# catch what is raised.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from lspc.cli import main

if __name__ == "__main__":
    main()
