"""Stand-ins for NumPy's creation functions and `len` during a trace, so that they accept traced sizes.

NumPy's protocols do not reach `np.zeros((n, m))`, `np.arange(n)` or `len(x)`. While any trace runs, wrappers
take the place of these functions in the modules `numpy` and `builtins`, and in the traced function's own
globals (for `from numpy import zeros`). A wrapper passes everything through, except in a thread that is
tracing. After the last trace the originals are back.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .array_api import check_device
from .context import active, here
from .functions import FUNCTIONS
from .functions.creation import CREATION, is_traced
from .functions.unsupported import REFUSALS
from .masked import Masked
from .size_value import wrap
from .tracer import Tracer

#: These make an array that may be written into, so they are traced whatever their arguments are.
_ALWAYS = frozenset(
    {
        "array",
        "empty",
        "empty_like",
        "eye",
        "full",
        "full_like",
        "identity",
        "ones",
        "ones_like",
        "zeros",
        "zeros_like",
    }
)
#: Packages whose own code keeps real arrays: it hands them to C.
_PASS = frozenset({"aotarray", "llvmlite", "matplotlib", "numba", "numpy", "pandas", "scipy", "sklearn"})
_RANDOM = (
    "choice", "exponential", "gamma", "integers", "normal", "permutation", "poisson", "rand", "randint",
    "randn", "random", "random_sample", "ranf", "sample", "shuffle", "standard_normal", "uniform",
)  # fmt: skip


#: These take sizes beside an array that need not be traced, or arrays in a list, where no protocol looks.
_BESIDE_ARRAYS = ("broadcast_shapes", "broadcast_to", "lexsort", "pad", "repeat", "reshape", "roll", "tile")
_RULES = CREATION | {n: FUNCTIONS[getattr(np, n)] for n in _BESIDE_ARRAYS if getattr(np, n) in FUNCTIONS}
_FREQUENCIES = ("fftfreq", "rfftfreq")


def _creation(name: str) -> Callable[..., Any]:
    return _stand_in(getattr(np, name), _RULES[name], name in _ALWAYS)


def _stand_in(original: Any, rule: Callable[..., Any], always: bool = False) -> Callable[..., Any]:
    @functools.wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if active() is None:
            return original(*args, **kwargs)
        if (
            is_traced(args)
            or is_traced(tuple(kwargs.values()))
            or (always and _called_by_user() and _fits(kwargs, args))
        ):
            check_device(kwargs.get("device"))
            return rule(*args, **kwargs)
        return original(*args, **kwargs)

    return stand_in


def _called_by_user() -> bool:
    module = sys._getframe(2).f_globals.get("__name__", "")
    return module.partition(".")[0] not in _PASS


def _fits(kwargs: Mapping[str, Any], args: tuple[Any, ...]) -> bool:
    """Arrays of objects, strings and dates are not traced; they may serve as plain Python values."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (type, str, np.dtype)) and value is not None:
            try:
                if np.dtype(value).kind not in "biufc":
                    return False
            except TypeError:
                return True
    return True


def _random(name: str) -> Callable[..., Any]:
    original = getattr(np.random, name)

    @functools.wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if active() is not None and _called_by_user():
            raise UnsupportedError(
                f"{here()}: numpy.random.{name} would draw once, while tracing, and give the same numbers "
                f"in every call; "
                f"draw outside and pass the array as an argument, or use aotarray.random"
            )
        return original(*args, **kwargs)

    return stand_in


_len = builtins.len


@functools.wraps(_len)
def _stand_in_len(obj: Any, /) -> Any:
    if type(obj) in (Tracer, Masked) and active() is not None and obj.ndim:
        return wrap(obj.node.shape[0], obj._trace)
    return _len(obj)


class _Patched:
    """One namespace whose originals are replaced while `count` traces run."""

    def __init__(self, namespace: dict[str, Any], wrappers: Mapping[str, tuple[Any, Any]]) -> None:
        self.namespace, self.wrappers, self.count = namespace, wrappers, 0

    def install(self) -> None:
        for name, (original, wrapper) in self.wrappers.items():
            if self.namespace.get(name) is original:
                self.namespace[name] = wrapper

    def restore(self) -> None:
        for name, (original, wrapper) in self.wrappers.items():
            if self.namespace.get(name) is wrapper:
                self.namespace[name] = original


_wrapped_creation = {name: (getattr(np, name), _creation(name)) for name in sorted(_RULES)}
_wrapped_refused = {
    name: (getattr(np, name), _stand_in(getattr(np, name), rule)) for name, rule in REFUSALS.items()
}
_wrapped_frequencies = {
    name: (getattr(np.fft, name), _stand_in(getattr(np.fft, name), FUNCTIONS[getattr(np.fft, name)]))
    for name in _FREQUENCIES
}
_by_original = {
    id(original): (original, wrapper)
    for wrapped in (_wrapped_creation, _wrapped_refused, _wrapped_frequencies)
    for original, wrapper in wrapped.values()
}


@functools.cache
def _modules() -> tuple[_Patched, ...]:
    """Made with the first trace, under the lock: to name `np.random` is to load it."""
    drawing = {n: (getattr(np.random, n), _random(n)) for n in _RANDOM if hasattr(np.random, n)}
    return (
        _Patched(vars(np), _wrapped_creation | _wrapped_refused),
        _Patched(vars(np.random), drawing),
        _Patched(vars(np.fft), _wrapped_frequencies),
        _Patched(vars(builtins), {"len": (_len, _stand_in_len)}),
    )


_patched: dict[int, _Patched] = {}
_lock = threading.Lock()


def _of_globals(namespace: dict[str, Any]) -> _Patched:
    """What a module imported by name (`from numpy import zeros`)."""
    found = {
        name: _by_original[id(value)] for name, value in list(namespace.items()) if id(value) in _by_original
    }
    return _Patched(namespace, found)


@contextmanager
def standing_in(function: Callable[..., Any] | None = None) -> Iterator[None]:
    """Have the stand-ins in place: in `numpy`, `builtins` and the globals of `function`."""
    own = getattr(plain_function(function), "__globals__", None)
    with _lock:
        namespaces = [*_modules()]
        if own is not None and own is not vars(np) and own is not vars(builtins):
            namespaces.append(_patched.setdefault(id(own), _of_globals(own)))
        for patched in namespaces:
            if patched.count == 0:
                patched.install()
            patched.count += 1
    try:
        yield
    finally:
        with _lock:
            for patched in namespaces:
                patched.count -= 1
                if patched.count == 0:
                    patched.restore()
                    _patched.pop(id(patched.namespace), None)


def plain_function(function: Any) -> Any:
    """The Python function inside partials, methods and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(getattr(function, "__func__", function))
    return function if hasattr(function, "__globals__") else type(function).__call__


def _after_fork() -> None:
    """In a forked child no other thread's trace goes on."""
    global _lock
    _lock = threading.Lock()
    made = _modules() if _modules.cache_info().currsize else ()
    for patched in (*made, *_patched.values()):
        patched.count = 0
        patched.restore()
    _patched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def creation(name: str) -> Callable[..., Any]:
    """What `aotarray.numpy` has for NumPy's function `name` in a traced function: it always makes traced arrays."""
    original, rule = _wrapped_creation[name][0], _RULES[name]

    @functools.wraps(original)
    def create(*args: Any, **kwargs: Any) -> Any:
        if not _fits(kwargs, args):
            return original(*args, **kwargs)
        check_device(kwargs.get("device"))
        return rule(*args, **kwargs)

    return create
