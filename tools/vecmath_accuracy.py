"""Measures the scalar functions' errors and prints the table of docs/accuracy.md.

    python tools/vecmath_accuracy.py --points 1000000 >docs/accuracy.md

True values are glibc's in x87 extended precision (11 bits more than float64), and mpmath's for the special functions.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import mpmath
import numpy as np

from aotarray import vecmath
from aotarray.vecmath.arrays import array_function
from aotarray.vecmath.primitives import NUMPY

FUNCTIONS = """exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh
arcsinh arccosh arctanh power cbrt hypot logaddexp logaddexp2 erf erfc erfcx ndtr log_ndtr
gammaln gamma digamma""".split()  # noqa: SIM905
COMPLEX = "exp log log2 log10 sqrt sin cos sinh cosh sign".split()  # noqa: SIM905
COMPLEX_HEADER = """
## Complex functions
Each part's error, as above, on machines with fused multiply-add. `divide` and `reciprocal` have NumPy's bits,
and so have `tan`, `tanh`, the inverse functions and `power`, which are the C library's. `log1p` is within 2
units where NumPy's rounding of 1 + x loses digits. `exp2` and `expm1` are NumPy's formulas on real functions
of this page: `exp2` loses what im * ln2 rounded once has lost, the real part of `expm1` what its two terms
cancel.
"""
BY_ARGUMENT = ("logaddexp", "logaddexp2")  # these cancel near 0: in units of the larger argument
HEADER = """# Accuracy of elementary functions

Largest errors seen, in units in the last place of the result (0.5 is correct rounding), over {points} random
arguments of every kind a function and dtype (20000 for the special functions): any bit pattern, moderate
numbers, numbers near 1, and for sin, cos and tan neighbours of multiples of pi/2. Made by
`python tools/vecmath_accuracy.py --points {points}`.

`v3` stands for machines with fused multiply-add (x86-64-v3 and v4, to the same bits), `v2` for those without.
Rounding functions, `fmod`, `remainder`, `floor_divide` and all integer functions are exact, `sqrt` is
correctly rounded. logaddexp and logaddexp2 cancel where the result is near 0, as NumPy's do: their errors
are in units of the larger argument (at least 1/2).

`power` with one of the exponents -3, -2.5, -2, -1.5, -0.5, 1.5, 2.5, 3 and 4 written as a constant has a
function of its own: within 1.5 units (`tests/test_vecmath_accuracy.py`).
"""


def points(name: str, dtype: str, count: int, arity: int) -> list[Any]:
    """Arguments of all kinds, `count` of each."""
    rng = np.random.default_rng(17)
    kind, word = NUMPY[dtype], np.uint64 if dtype == "f64" else np.uint32
    found = []
    for _ in range(arity):
        anywhere = rng.integers(0, np.iinfo(word).max, count, dtype=word).view(kind)
        moderate = (rng.standard_normal(count) * rng.choice([0.01, 0.3, 1, 5, 30, 300], count)).astype(kind)
        near_one = (1 + rng.standard_normal(count) * 0.1).astype(kind)
        parts = [anywhere, moderate, near_one]
        if name in ("sin", "cos", "tan"):
            multiples = np.floor(2.0 ** rng.uniform(0, 40, count)).astype(np.longdouble) * (np.pi / 2)
            parts.append(multiples.astype(kind))
        together = np.concatenate(parts)
        # Below 0 these have zeros that are differences of larger terms.
        found.append(np.abs(together) if name in ("gammaln", "digamma") else together)
    if arity == 2:
        rng.shuffle(found[1][:count])
    return found


def scaled_erfc(x: Any) -> Any:
    """exp(x*x) erfc(x), for large arguments by its asymptotic series (DLMF 7.12.1)."""
    if x < 1e4:
        return mpmath.exp(x * x) * mpmath.erfc(x)
    inverse = 1 / (x * x)
    return (1 - inverse / 2 * (1 - inverse * 3 / 2 * (1 - inverse * 5 / 2))) / (x * mpmath.sqrt(mpmath.pi))


def normal_cdf(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def log_normal_cdf(x: Any) -> Any:
    if x > 0:
        return mpmath.log1p(-normal_cdf(-x))
    return mpmath.log(scaled_erfc(-x / mpmath.sqrt(2)) / 2) - x * x / 2


def gamma(x: Any) -> Any:
    if x < 0 and x == mpmath.floor(x):
        return mpmath.nan
    return mpmath.mpf(0) if x < -190 else mpmath.gamma(x)


#: functions that glibc has not in extended precision, and arguments between which they are neither 0 nor infinite
BY_MPMATH = {
    "erf": (mpmath.erf, -120.0, 120.0), "erfc": (mpmath.erfc, -120.0, 120.0),
    "erfcx": (scaled_erfc, -27.0, 1e400), "ndtr": (normal_cdf, -120.0, 120.0),
    "log_ndtr": (log_normal_cdf, -1e400, 120.0), "gammaln": (mpmath.loggamma, 0.0, 1e400),
    "gamma": (gamma, -1e400, 190.0), "digamma": (mpmath.digamma, 0.0, 1e400),
}  # fmt: skip


def true_values(name: str, arguments: list[Any]) -> Any:
    """The function in extended precision."""
    wide = [a.astype(np.longdouble) for a in arguments]
    if name not in BY_MPMATH:
        return getattr(np, name)(*wide)
    exact, low, high = BY_MPMATH[name]

    def one(x: float) -> Any:
        value = exact(mpmath.mpf(min(max(x, low), high)))
        rounded = float(value)
        return np.longdouble(rounded) + np.longdouble(float(value - rounded) if np.isfinite(rounded) else 0.0)

    mpmath.mp.prec = 200
    return np.array([one(float(x)) for x in arguments[0]], dtype=np.longdouble)


def worst(name: str, dtype: str, cpu: str, count: int) -> tuple[float, list[float]]:
    """The largest error and its arguments; the classes (NaN, infinity) must agree."""
    arity = vecmath.FUNCTIONS[name].arity
    arguments = points(name, dtype, min(count, 20_000) if name in BY_MPMATH else count, arity)
    found = array_function(name, dtype, cpu)(*arguments)
    with np.errstate(all="ignore"):
        true = true_values(name, arguments)
        rounded = true.astype(NUMPY[dtype])
        ordinary = np.isfinite(rounded) & np.isfinite(found)
        alike = ordinary | (found == rounded) | ((found != found) & (rounded != rounded))
        scale = np.abs(rounded)
        if name in BY_ARGUMENT:
            scale = np.maximum(np.maximum(np.abs(arguments[0]), np.abs(arguments[1])), NUMPY[dtype](0.5))
        gap = np.abs(found.astype(np.longdouble) - true) / np.spacing(scale).astype(np.longdouble)
        gap = np.where(alike, np.where(ordinary, gap, 0), np.inf)
    at = int(np.argmax(gap))
    return float(gap[at]), [float(a[at]) for a in arguments]


def complex_points(dtype: str, count: int) -> Any:
    """Parts of all sizes together, and values of magnitude near 1."""
    rng = np.random.default_rng(19)
    sizes = (1e-8, 0.1, 1, 20, 300 if dtype == "f64" else 40)
    a, b = rng.standard_normal((2, count)) * rng.choice(sizes, (2, count))
    kind = np.complex128 if dtype == "f64" else np.complex64
    return np.concatenate([a + 1j * b, np.exp(1j * rng.uniform(-4, 4, count))]).astype(kind)


def worst_complex(name: str, dtype: str, part: str, count: int) -> tuple[float, Any]:
    """The largest error of a part and its argument; results out of the normal range are left out."""
    z = complex_points(dtype, count)
    found = array_function(f"complex_{name}_{part}", dtype)(z.real, z.imag)
    with np.errstate(all="ignore"):
        wide = z.astype(np.clongdouble)
        if name in ("log2", "log10"):
            true = np.log(wide) / np.log(np.longdouble(int(name[3:])))
        else:
            true = getattr(np, name)(wide)
        true = getattr(true, part)
        rounded = true.astype(NUMPY[dtype])
        usual = np.isfinite(rounded) & (np.abs(rounded) >= np.finfo(NUMPY[dtype]).tiny)
        gap = np.abs(found.astype(np.longdouble) - true) / np.spacing(np.abs(rounded)).astype(np.longdouble)
        gap = np.where(usual, gap, 0)
    at = int(np.argmax(gap))
    return float(gap[at]), z[at]


def print_complex(count: int) -> float:
    """The table of complex functions that are made of real ones; the largest error."""
    print(COMPLEX_HEADER)
    print("| function | complex64 real | at | imag | at | complex128 real | at | imag | at |")
    print("|---|---|---|---|---|---|---|---|---|")
    largest = 0.0
    for name in COMPLEX:
        cells = [f"`{name}`"]
        for dtype in ("f32", "f64"):
            for part in ("real", "imag"):
                error, at = worst_complex(name, dtype, part, count)
                cells += [f"{error:.2f}", f"{at:.9g}"]
                largest = max(largest, error)
        print("| " + " | ".join(cells) + " |", flush=True)
    return largest


def main() -> int:
    """Print the table; exit 1 where an error is over 4.5 units."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000, help="arguments of each kind")
    parser.add_argument("--only", nargs="*", default=FUNCTIONS, help="functions")
    options = parser.parse_args()
    print(HEADER.format(points=options.points))
    print("| function | float32 v3 | at | float32 v2 | float64 v3 | at | float64 v2 |")
    print("|---|---|---|---|---|---|---|")
    largest = 0.0
    for name in options.only:
        cells = [f"`{name}`"]
        for dtype in ("f32", "f64"):
            with_fma, at = worst(name, dtype, "x86-64-v3", options.points)
            without, _ = worst(name, dtype, "x86-64-v2", options.points)
            cells += [f"{with_fma:.2f}", ", ".join(f"{x:.9g}" for x in at), f"{without:.2f}"]
            largest = max(largest, with_fma, without)
        print("| " + " | ".join(cells) + " |", flush=True)
    if options.only == FUNCTIONS:
        largest = max(largest, print_complex(options.points))
    return int(largest > 4.5)


if __name__ == "__main__":
    sys.exit(main())
