"""Random numbers that depend on a key alone: the same in compiled functions and outside, for any threads.

Numbers come from the counter-based generator Philox 4x64-10. What NumPy defines for it is the same here, to
the bit: `bits(key(s), n)` are the words of `numpy.random.Philox(key=s)`, and `uniform(key(s), n)` are the
numbers of `numpy.random.Generator(numpy.random.Philox(key=s)).random(n)`. A key is an array of two uint64. A
function of a key always gives the same numbers: `split` it, or `fold_in` a counter, for others.

>>> import aotarray.random as random
>>> first, second = random.split(random.key(0))
>>> random.uniform(first, (2, 3)).shape
(2, 3)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import sizes
from .philox import high_product, word_at
from .trace.context import active, here

_NUMBERS, _SPLIT, _FOLD = range(3)  # streams of a key
_TWO_PI = 2 * np.pi


def key(seed: Any) -> Any:
    """The key, uint64[2], of an int up to 128 bits, or of a traced integer."""
    if getattr(seed, "_is_tracer", False):
        word = seed.astype(np.uint64)
        return np.stack([word, word * np.uint64(0)])
    number = int(seed)
    if not 0 <= number < 1 << 128:
        raise ValueError("a seed is an integer from 0 to 2**128 - 1")
    return np.array([number & (1 << 64) - 1, number >> 64], np.uint64)


def split(key: Any, num: int = 2) -> Any:
    """`num` new keys, uint64[num, 2], each as good as any other."""
    number = np.arange(num, dtype=np.uint64)[:, None] * np.uint64(4) + np.arange(2, dtype=np.uint64)
    return _words(key, number, _SPLIT)


def fold_in(key: Any, data: Any) -> Any:
    """A new key, uint64[2], of a key and an integer (a step, an index), which may be traced."""
    step = data.astype(np.uint64) if hasattr(data, "astype") else np.uint64(int(data) & (1 << 64) - 1)
    return _words(key, (step << np.uint64(2)) + np.arange(2, dtype=np.uint64), _FOLD)


def bits(key: Any, shape: Any = ()) -> Any:
    """uint64 words of all values alike."""
    return _words(key, _numbers(shape), _NUMBERS)


def uniform(key: Any, shape: Any = (), dtype: Any = np.float64, low: Any = 0.0, high: Any = 1.0) -> Any:
    """Floats (float64 or float32) from `low`, included, to `high`, excluded."""
    found = _unit(key, _numbers(shape), _float_dtype(dtype))
    return found if type(low) is float and type(high) is float and (low, high) == (0.0, 1.0) else (
        found * (high - low) + low
    )  # fmt: skip


def normal(key: Any, shape: Any = (), dtype: Any = np.float64, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Normally distributed floats (float64 or float32), by the method of Box and Muller."""
    kind = _float_dtype(dtype)
    number = _numbers(shape)
    if kind == np.float64:
        first = _words(key, number << np.uint64(1), _NUMBERS) >> np.uint64(11)
        second = _words(key, (number << np.uint64(1)) + np.uint64(1), _NUMBERS) >> np.uint64(11)
    else:
        word = _words(key, number, _NUMBERS)
        first, second = (word & np.uint64(0xFFFFFFFF)) >> np.uint64(8), word >> np.uint64(40)
    step = kind.type(2.0**-53 if kind == np.float64 else 2.0**-24)
    above = (first + np.uint64(1)).astype(kind) * step  # log of what is above 0
    found = np.sqrt(kind.type(-2) * np.log(above)) * np.cos(second.astype(kind) * (step * kind.type(_TWO_PI)))
    plain = type(loc) is float and type(scale) is float and (loc, scale) == (0.0, 1.0)
    return found if plain else found * scale + loc


def integers(key: Any, low: Any, high: Any = None, shape: Any = (), dtype: Any = np.int64) -> Any:
    """Integers from `low`, included, to `high`, excluded (from 0 to `low` when there is no `high`).

    The upper half of a word times their number: one in 2**64 / number is drawn once too often at most.
    """
    if high is None:
        low, high = 0, low
    if isinstance(low, int) and isinstance(high, int) and not low < high:
        raise ValueError("low >= high")
    span = (
        np.uint64(high - low)
        if isinstance(high, int) and isinstance(low, int)
        else (high - low).astype(np.uint64)
    )
    with np.errstate(over="ignore"):
        found = high_product(bits(key, shape), span)
        return (found.astype(np.int64) + low).astype(dtype)


def _float_dtype(dtype: Any) -> Any:
    kind = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise TypeError(f"{here()}: random numbers are float64 or float32, not {kind}")
    return kind


def _unit(key: Any, number: Any, kind: Any) -> Any:
    """Multiples of 2**-53, or 2**-24, from 0 to 1, as NumPy makes them: of a word, or of each half of one."""
    if kind == np.float64:
        return (_words(key, number, _NUMBERS) >> np.uint64(11)).astype(kind) * 2.0**-53
    word = _words(key, number >> np.uint64(1), _NUMBERS) >> ((number & np.uint64(1)) * np.uint64(32))
    return ((word & np.uint64(0xFFFFFFFF)) >> np.uint64(8)).astype(kind) * kind.type(2.0**-24)


def _numbers(shape: Any) -> Any:
    """0, 1, ... in C order, as uint64 of `shape`, which may hold traced sizes."""
    trace = active()
    if trace is None:
        dims = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        return np.arange(int(np.prod(dims, dtype=np.int64)), dtype=np.uint64).reshape(dims)
    from .trace.functions.creation import shape_of
    from .trace.size_value import wrap
    from .trace.tracer import Tracer

    dims = shape_of(trace, shape)
    parts: list[Any] = []
    for axis, dim in enumerate(dims):
        along: Any = Tracer.of(trace, trace.graph.apply("iota", where=here(), length=dim))
        step = sizes.product(dims[axis + 1 :])
        along = along if step == 1 else along * wrap(step, trace)
        parts.append(along[(slice(None), *(None,) * (len(dims) - 1 - axis))])
    return sum(parts[1:], parts[0]).astype(np.uint64) if parts else np.uint64(0)


def _words(key: Any, number: Any, stream: int) -> Any:
    """The words of these numbers, in a stream of a key."""
    if np.shape(key) != (2,) or key.dtype != np.uint64:
        raise TypeError(f"{here()}: a key is an array of two uint64: make it with key(seed) or split(key)")
    trace = active()
    if trace is None:
        with np.errstate(over="ignore"):
            return word_at(number, np.uint64(stream), key[0], key[1], np.where)
    from .trace import promote
    from .trace.tracer import Tracer

    nodes = [promote.node_of(trace, v) for v in (number, np.uint64(stream), key[0], key[1])]
    shape = promote.broadcast_shapes(trace, [n.shape for n in nodes], "random numbers")
    wide = [promote.broadcast_node(trace, n, shape) for n in nodes]
    return Tracer.of(trace, trace.graph.apply("philox", wide, here()))
