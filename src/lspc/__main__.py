"""`python -m lspc`."""

from lspc.cli import main

main()
