"""`python -m aotarray.cli`, the same as the command `aotarray`."""

from . import main

main(prog_name="aotarray")
