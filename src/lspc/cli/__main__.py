"""`python -m lspc.cli`."""

from lspc.cli import main

main()
