"""`python -m flows.cli` is `paceline`."""

from flows.cli import main

main()
