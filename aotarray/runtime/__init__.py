"""Running compiled programs: the launcher, the encoding of programs, images."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """The launcher, or where it is not built: that this is the source folder, and what to do."""
    if name != "_launcher":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        raise ImportError(
            f"{__path__[0]} has no built launcher: this is aotarray's source, which hides the installed"
            " package from a Python that starts beside it. Start Python in another folder, or"
            " `pip install -e .` here"
        ) from None
