"""How far two correct evaluations of a NumPy expression may differ, and whether two results differ by more.

A bound is an array of |ours - NumPy's| for each element, in float64: 0 where both must be equal to the bit,
`ULPS` units in the last place after an elementary function, the usual n * eps * sum|x| after a float sum, and
first-order propagation from there; `inf` means "anything goes".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: an elementary function is within 4 ulp of the truth, on both sides
ULPS = 8


def exact(value: np.ndarray) -> np.ndarray:
    return np.zeros(value.shape)


def magnitude(value: np.ndarray) -> np.ndarray:
    """|value| in float64; NaN counts as infinite."""
    wide = np.abs(value.astype(np.complex128 if value.dtype.kind == "c" else np.float64))
    return np.where(np.isnan(wide), np.inf, wide)


def finfo(dtype: np.dtype) -> Any:
    return np.finfo(dtype) if dtype.kind in "fc" else np.finfo(np.float64)


def ulp(value: np.ndarray) -> np.ndarray:
    """One unit in the last place of `value`'s dtype, in float64."""
    limits = finfo(value.dtype)
    size = np.minimum(magnitude(value), float(limits.max))
    return np.maximum(size * float(limits.eps), float(limits.smallest_subnormal))


def rounded(bound: np.ndarray, value: np.ndarray, rounds: float = 1) -> np.ndarray:
    """A propagated bound with the rounding of the result's own, or infinite where it may overflow."""
    bound = np.where(np.isnan(bound), np.inf, bound)
    total = np.where(bound > 0, bound * 1.01 + rounds * ulp(value), 0.0)
    spills = (magnitude(value) + total >= float(finfo(value.dtype).max) / 2) & (total > 0)
    return np.broadcast_to(np.where(spills, np.inf, total), value.shape)


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b where 0 * inf is 0."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)


Bounds = Callable[[np.ndarray, Sequence[np.ndarray], Sequence[np.ndarray]], np.ndarray]


def sum_bound(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    return e[0] + e[1]


def product_bound(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    a, b = magnitude(v[0]), magnitude(v[1])
    wild = (np.isinf(a) & (e[1] > 0)) | (np.isinf(b) & (e[0] > 0))
    return np.where(wild, np.inf, times(a, e[1]) + times(b, e[0]) + times(e[0], e[1]))


def quotient_bound(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    a, b = magnitude(v[0]), magnitude(v[1])
    room = b - e[1]
    moved = (e[0] > 0) | (e[1] > 0)
    bound = (e[0] + times(magnitude(r), e[1])) / np.where(room > 0, room, 1.0)
    return np.where(
        moved & ((room <= 0) | ~np.isfinite(a) | ~np.isfinite(b)), np.inf, np.where(moved, bound, 0.0)
    )


def _sqrt_bound(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    x = v[0].astype(np.float64)
    return np.where(
        e[0] == 0, 0.0, np.where(x > e[0], e[0] / np.sqrt(np.where(x > e[0], x - e[0], 1.0)), np.inf)
    )


def lipschitz(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    return np.where(np.isfinite(v[0]) | (e[0] == 0), e[0], np.inf)


def _largest(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    """max and min do not say which of +0.0 and -0.0 they take."""
    zeros = [x == 0 for x in v]
    signs = np.signbit(v[0].astype(np.float64)) != np.signbit(v[1].astype(np.float64))
    return np.maximum(e[0], e[1]) + np.where(zeros[0] & zeros[1] & signs & (r.dtype.kind == "f"), 1e-300, 0.0)


#: ufuncs that are exact on exact operands -> the bound they propagate; None: only for exact operands
UNARY: dict[str, Bounds | None] = {
    "negative": lambda r, v, e: e[0], "positive": lambda r, v, e: e[0], "absolute": lambda r, v, e: e[0],
    "fabs": lambda r, v, e: e[0], "conjugate": lambda r, v, e: e[0], "sqrt": _sqrt_bound,
    "square": lambda r, v, e: product_bound(r, (v[0], v[0]), (e[0], e[0])),
    "rint": None, "floor": None, "ceil": None, "trunc": None, "sign": None, "invert": None,
    "logical_not": None,
    "isnan": None, "isinf": None, "isfinite": None, "signbit": None, "spacing": None, "reciprocal": None,
    "bitwise_count": None,
}  # fmt: skip
BINARY: dict[str, Bounds | None] = {
    "add": sum_bound, "subtract": sum_bound, "multiply": product_bound, "divide": quotient_bound,
    "maximum": _largest, "minimum": _largest, "fmax": _largest, "fmin": _largest,
    "floor_divide": None, "remainder": None, "fmod": None, "less": None, "less_equal": None, "greater": None,
    "greater_equal": None, "equal": None, "not_equal": None, "logical_and": None, "logical_or": None,
    "logical_xor": None, "bitwise_and": None, "bitwise_or": None, "bitwise_xor": None, "left_shift": None,
    "right_shift": None, "copysign": None, "nextafter": None, "heaviside": None, "gcd": None, "lcm": None,
}  # fmt: skip
SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%",
    "less": "<",
    "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
#: within `ULPS` of each other on exact operands; True where the slope is at most 1: a bound passes through
ELEMENTARY = {
    "exp": False, "exp2": False, "expm1": False, "log": False, "log2": False, "log10": False, "log1p": False,
    "sin": True, "cos": True, "tan": False, "arcsin": False, "arccos": False, "arctan": True, "sinh": False,
    "cosh": False, "tanh": True, "arcsinh": True, "arccosh": False, "arctanh": False, "cbrt": False,
    "deg2rad": True, "rad2deg": False,
}  # fmt: skip
ELEMENTARY2 = ("arctan2", "hypot", "logaddexp", "power")


def fold_bound(
    op: str, r: np.ndarray, v: np.ndarray, e: np.ndarray, axes: tuple[int, ...], keep: bool
) -> np.ndarray:
    """The bound of a reduction's result."""
    n = math.prod(v.shape[a] for a in axes)
    kw: dict[str, Any] = {"axis": axes, "keepdims": keep}
    if r.dtype.kind not in "fc" or n == 0:
        return exact(r)
    if op in ("max", "min", "ptp"):
        zero = v.astype(np.float64) == 0
        signs = (zero & np.signbit(v.astype(np.float64))).any(**kw) & (
            zero & ~np.signbit(v.astype(np.float64))
        ).any(**kw)
        bound = e.max(**kw) + np.where((r == 0) & signs, 1e-300, 0.0)
        return bound if op != "ptp" else rounded(bound, r)
    limits = finfo(r.dtype)
    eps = float(limits.eps)
    size = magnitude(v)
    whole = np.isfinite(v)
    total = np.where(whole, size, 0.0).sum(**kw)
    if op == "prod":
        grows, shrinks = (
            np.maximum(size, 1.0).prod(**kw),
            np.minimum(np.where(size == 0, 1.0, size), 1.0).prod(**kw),
        )
        risky = (grows >= float(limits.max) / 4) | (shrinks <= float(limits.tiny) * 4)
        return np.where(n == 1, 0.0, np.where(risky, np.inf, rounded(2 * n * eps * magnitude(r), r)))
    moved = e.sum(**kw)
    spread = 2 * (n - 1) * eps * total
    bound = np.where(total >= float(limits.max) / 4, np.inf, moved + spread)
    if op == "sum":
        return rounded(bound, r)
    if op == "mean":
        return rounded(bound / n + eps * magnitude(r), r)
    middle = np.where(whole, v, 0).astype(np.float64).sum(axis=axes, keepdims=True) / n
    far = np.abs(np.where(whole, v, 0).astype(np.float64) - middle)
    e_mean = (
        np.where(whole, size, 0.0).sum(axis=axes, keepdims=True) * 2 * n * eps
        + e.sum(axis=axes, keepdims=True)
    ) / n
    e_far = e + e_mean + 2 * eps * (far + np.abs(middle)) + 2 * float(limits.smallest_subnormal)
    bound = (
        (2 * far * e_far + e_far * e_far).sum(**kw) / n
        + 2 * n * eps * (far * far).sum(**kw) / n
        + eps * magnitude(r)
    )
    if r.dtype == np.float16:
        bound = np.where(magnitude(r) > 30000, np.inf, bound + ulp(r))
    bound = np.where(
        (np.square(far).sum(**kw) >= float(finfo(v.dtype).max) / 8)
        | (total >= float(finfo(v.dtype).max) / 8),
        np.inf,
        bound,
    )
    bound = np.where(whole.all(**kw), bound, 0.0 if not e.any() else np.inf)
    if op == "std":
        variance = np.square(r.astype(np.float64))
        twice = bound if r.dtype != np.float16 else bound + ulp(r) * (1 + magnitude(r))
        bound = np.where(
            variance > 2 * twice, twice / np.sqrt(np.maximum(variance, 1e-300)), np.sqrt(3 * twice)
        ) + 2 * eps * magnitude(r)
        bound = np.where(np.isfinite(r), bound, np.where(np.isnan(r), bound * 0, np.inf))
    return rounded(bound, r, 2)


def difference(expected: np.ndarray, found: np.ndarray, bound: np.ndarray) -> str:
    """Why `found` is not `expected`, or nothing."""
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype} instead of {expected.dtype}"
    if found.shape != expected.shape:
        return f"shape {found.shape} instead of {expected.shape}"
    if expected.dtype.kind == "c":
        return difference(expected.real, found.real, bound) or difference(expected.imag, found.imag, bound)
    if expected.dtype.kind != "f":
        wrong = expected != found
    else:
        with np.errstate(all="ignore"):
            same = (expected == found) & ((np.signbit(expected) == np.signbit(found)) | (bound > 0)) | (
                np.isnan(expected) & np.isnan(found)
            )
            near = np.abs(expected.astype(np.float64) - found.astype(np.float64)) <= bound
            wrong = ~(same | near | np.isinf(bound))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    shown = f"{found[at]!r} instead of {expected[at]!r}, allowed {bound[at]:.3g}"
    return f"{int(wrong.sum())} of {wrong.size} elements differ, first at {at}: {shown}"
