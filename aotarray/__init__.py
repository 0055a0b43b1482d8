"""aotarray compiles plain NumPy functions: in process with `jit`, ahead of time with `build`.

This module is the facade. It loads nothing until a name is used, so importing it costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotarray import debug as debug
    from aotarray import errors as errors
    from aotarray import numpy as numpy
    from aotarray import random as random
    from aotarray.api import build as build
    from aotarray.api import default_device as default_device
    from aotarray.api import device_put as device_put
    from aotarray.api import devices as devices
    from aotarray.api import export as export
    from aotarray.api import get_num_threads as get_num_threads
    from aotarray.api import jit as jit
    from aotarray.api import lower as lower
    from aotarray.api import set_num_threads as set_num_threads
    from aotarray.api import trace as trace
    from aotarray.api import trim_memory as trim_memory
    from aotarray.errors import AotarrayError as AotarrayError
    from aotarray.trace.control import cond as cond
    from aotarray.trace.control import fori_loop as fori_loop
    from aotarray.trace.control import map as map
    from aotarray.trace.control import scan as scan
    from aotarray.trace.control import switch as switch
    from aotarray.trace.control import while_loop as while_loop
    from aotarray.trace.effects import check as check

__version__ = "0.1.0"

#: public name -> the module that defines it
_NAMES = {
    "AotarrayError": "aotarray.errors",
    "build": "aotarray.api",
    "check": "aotarray.trace.effects",
    "cond": "aotarray.trace.control",
    "default_device": "aotarray.api",
    "device_put": "aotarray.api",
    "devices": "aotarray.api",
    "export": "aotarray.api",
    "fori_loop": "aotarray.trace.control",
    "get_num_threads": "aotarray.api",
    "jit": "aotarray.api",
    "lower": "aotarray.api",
    "map": "aotarray.trace.control",
    "scan": "aotarray.trace.control",
    "set_num_threads": "aotarray.api",
    "switch": "aotarray.trace.control",
    "trace": "aotarray.api",
    "trim_memory": "aotarray.api",
    "while_loop": "aotarray.trace.control",
}
_MODULES = ("debug", "errors", "numpy", "random")

__all__ = ["__version__", *_NAMES, *_MODULES]


class _Facade(ModuleType):
    """The module's class: `aotarray.trace` is the function, also after the package `aotarray.trace` loads."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _NAMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Facade


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module 'aotarray' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
