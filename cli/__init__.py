"""The command line: thin commands over the facade. Installed as `aotarray.cli`."""

from __future__ import annotations

from .program import main as main
