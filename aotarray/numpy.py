"""NumPy's namespace for compiled functions: `import aotarray.numpy as anp`.

Plain `import numpy as np` works in compiled functions; this module is for people who come from
`jax.numpy`, and for code that wants traced sizes accepted everywhere. Each function accepts traced arrays,
traced sizes and plain arrays alike; outside a compiled function it is NumPy's own. Dtypes and constants are
NumPy's objects. The module is a namespace of the array API standard 2024.12 (docs/array_api.md): traced arrays
name it in `__array_namespace__()`.

>>> import aotarray.numpy as anp
>>> anp.hypot(3.0, 4.0).item()
5.0
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .trace import array_api

#: NumPy's names that make no sense in a compiled function, or are no part of arrays' arithmetic
_HIDDEN = frozenset(
    {"test", "show_config", "show_runtime", "info", "get_include", "load", "save", "savez", "savetxt"}
)


def _wrapper(dotted: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, and the rule for it while a function is traced."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        from .trace.context import active
        from .trace.promote import is_traced

        if active() is None:
            return original(*args, **kwargs)
        from .trace.functions import FUNCTIONS
        from .trace.functions.creation import CREATION

        if dotted in CREATION:
            from .trace.standins import creation

            return creation(dotted)(*args, **kwargs)
        rule = FUNCTIONS.get(original)
        if rule is not None and is_traced((*args, *kwargs.values())):
            return rule(*args, **kwargs)
        return original(*args, **kwargs)

    call.__module__ = __name__
    return call


class _Namespace(types.ModuleType):
    """A part of NumPy (`linalg`) whose functions accept traced values."""

    def __init__(self, part: types.ModuleType) -> None:
        super().__init__(f"{__name__}.{part.__name__.partition('.')[2]}", part.__doc__)
        self._part = part
        self._prefix = f"{part.__name__.partition('.')[2]}."

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = _adapt(self._prefix + name, getattr(self._part, name))
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted(n for n in dir(self._part) if not n.startswith("_"))


def _adapt(dotted: str, value: Any) -> Any:
    """What stands for NumPy's `value` here: ufuncs, dtypes and constants are its own objects."""
    if dotted in array_api.FUNCTIONS:
        return array_api.FUNCTIONS[dotted]
    if isinstance(value, types.ModuleType):
        return _Namespace(value)
    if isinstance(value, (np.ufunc, type)) or not callable(value):
        return value
    return _wrapper(dotted, value)


#: the version of the array API standard that this NumPy's functions and these follow
__array_api_version__ = min(array_api.VERSION, getattr(np, "__array_api_version__", array_api.VERSIONS[1]))


def __array_namespace_info__() -> array_api.NamespaceInfo:
    """Devices, dtypes and capabilities, as the array API standard has them."""
    return array_api.NamespaceInfo()


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name in _HIDDEN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "special":
        from . import special

        globals()[name] = special
        return special
    try:
        original = getattr(np, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, nor has numpy") from None
    value = _adapt(name, original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(n for n in np.__all__ if n not in _HIDDEN)
