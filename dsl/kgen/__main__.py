"""`python -m kgen`."""

from kgen.cli.main import main

main()
