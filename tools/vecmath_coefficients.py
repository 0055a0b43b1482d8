"""Writes aotarray/vecmath/coefficients.py: minimax polynomials found by Sollya (`apt-get install sollya`).

    python tools/vecmath_coefficients.py >aotarray/vecmath/coefficients.py

Method: `fpminimax` (N. Brisebarre and S. Chevillard, "Efficient polynomial L-infinity approximations", ARITH
18, 2007), which finds coefficients that are floating-point numbers already. Each row names what is
approximated, in terms of x; the comment above each result gives the largest relative error, of the
polynomial alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath


@dataclass(frozen=True)
class Polynomial:
    """`function` over `interval` to `precision` (24 or 53) bits, of `degree`, its error weighted."""

    name: str
    function: str
    degree: int
    interval: str
    precision: int = 53
    weight: str = "relative"
    title: str = ""


FORMATS = {24: "SG", 53: "D"}
ATANH = "(log((1+sqrt(x))/(1-sqrt(x)))/sqrt(x)-2)/x"


def erfc_scaled(k: int) -> str:
    """exp(a*a) erfc(a) (1 + 2 a) in (a - k) / (a + k): Shepherd and Laframboise, Math. Comp. 36, 1981."""
    a = f"({k}*(1+x)/(1-x))"
    return f"erfc({a})*exp({a}^2)*(1+2*{a})"


def number(x: object) -> str:
    """A constant of Sollya."""
    return f"({mpmath.nstr(x, 60)})"


def gamma_series(first: int) -> str:
    """log(gamma(2 + x)) without terms of a degree below `first`: DLMF 5.7.3."""
    terms = [(1 - mpmath.euler, 1), *((mpmath.zeta(k, 2) * (-1) ** k / k, k) for k in range(2, 190))]
    return "+".join(f"{number(c)}*x^{k - first}" for c, k in terms if k >= first)


def digamma_series() -> str:
    """digamma(2 + x): the derivative of the above."""
    terms = [(1 - mpmath.euler, 0), *((mpmath.zeta(k, 2) * (-1) ** k, k - 1) for k in range(2, 190))]
    return "+".join(f"{number(c)}*x^{k}" for c, k in terms)


def bernoulli_series(divide: Callable[[int], int]) -> str:
    """sum of B(2k) / divide(k) x^(k - 1), asymptotic in 1 / z^2 for z of 8 and more: DLMF 5.11.1, 5.11.2."""
    return "+".join(f"{number(mpmath.bernoulli(2 * k) / divide(k))}*x^{k - 1}" for k in range(1, 22))


mpmath.mp.dps = 70
LOG_GAMMA = f"({gamma_series(1)})/(x+1)"
GAMMA = f"(exp({gamma_series(0)})-1)/x"
DIGAMMA = f"({digamma_series()})/(x+2-{number(mpmath.findroot(mpmath.digamma, 1.46))})"
STIRLING = bernoulli_series(lambda k: 2 * k * (2 * k - 1))
STIRLING_FACTOR = f"(exp(x*({STIRLING.replace('x^', '(x^2)^')}))-1)/x"
DIGAMMA_FAR = bernoulli_series(lambda k: 2 * k)

POLYNOMIALS = (
    Polynomial("EXP_F64", "(exp(x)-1-x)/x^2", 9, "[-0.34666;0.34666]"),
    Polynomial("EXP_F32", "(exp(x)-1-x)/x^2", 4, "[-0.34666;0.34666]", 24),
    Polynomial("EXP2_F64", "(2^x-1)/x", 10, "[-0.50001;0.50001]"),
    Polynomial("EXP2_F32", "(2^x-1)/x", 5, "[-0.50001;0.50001]", 24),
    Polynomial("SINH_F64", "(sinh(sqrt(x))/sqrt(x)-1)/x", 4, "[1e-9;0.1202]"),
    Polynomial("SINH_F32", "(sinh(sqrt(x))/sqrt(x)-1)/x", 2, "[1e-6;0.1202]", 24),
    Polynomial("COSH_F64", "(cosh(sqrt(x))-1)/x", 5, "[1e-9;0.1202]"),
    Polynomial("COSH_F32", "(cosh(sqrt(x))-1)/x", 2, "[1e-6;0.1202]", 24),
    Polynomial("LOG_F64", ATANH, 6, "[1e-9;0.02945]"),
    Polynomial("LOG_F32", "(log(1+x)-x)/x^2", 9, "[-0.2929;0.41422]", 24),
    Polynomial("LOG_TAIL_F64", f"({ATANH}-2/3)/x", 6, "[1e-7;0.02945]"),
    Polynomial("LOG_SHORT_F64", "log(1+x)/x", 12, "[-0.2929;0.41422]"),
    Polynomial("EXP_SHORT_F64", "(exp(x)-1-x)/x^2", 5, "[-0.34666;0.34666]"),
    Polynomial("CBRT_F64", "x^(-1/3)", 5, "[1;2]"),
    Polynomial("CBRT_F32", "x^(-1/3)", 3, "[1;2]", 24),
    Polynomial("SIN_F64", "(sin(sqrt(x))/sqrt(x)-1)/x", 5, "[1e-9;0.617]"),
    Polynomial("SIN_F32", "(sin(sqrt(x))/sqrt(x)-1)/x", 2, "[1e-6;0.617]", 24),
    Polynomial("SIN_WIDE_F64", "(sin(sqrt(x))/sqrt(x)-1)/x", 7, "[1e-9;2.4676]"),
    Polynomial("SIN_WIDE_F32", "(sin(sqrt(x))/sqrt(x)-1)/x", 4, "[1e-6;2.4676]", 24),
    Polynomial("COS_F64", "(cos(sqrt(x))-1+x/2)/x^2", 5, "[1e-5;0.617]"),
    Polynomial("COS_F32", "(cos(sqrt(x))-1+x/2)/x^2", 2, "[1e-4;0.617]", 24),
    Polynomial("ATAN_F64", "(atan(sqrt(x))/sqrt(x)-1)/x", 19, "[1e-9;1]"),
    Polynomial("ATAN_F32", "(atan(sqrt(x))/sqrt(x)-1)/x", 8, "[1e-6;1]", 24),
    Polynomial("ASIN_F64", "(asin(sqrt(x))/sqrt(x)-1)/x", 12, "[1e-9;0.25]"),
    Polynomial("ASIN_F32", "(asin(sqrt(x))/sqrt(x)-1)/x", 5, "[1e-6;0.25]", 24),
    Polynomial("ERF_F64", "erf(sqrt(x))/sqrt(x)-1", 11, "[1e-9;0.85]", 53, "absolute"),
    Polynomial("ERF_F32", "erf(sqrt(x))/sqrt(x)-1", 6, "[1e-6;0.85]", 24, "absolute"),
    Polynomial("LOG_ERFC_F64", "log(erfc(x))", 17, "[0.92;6]", 53, "erfc(x)"),
    Polynomial("LOG_ERFC_F32", "log(erfc(x))", 7, "[0.92;4]", 24, "erfc(x)"),
    Polynomial("ERFC_F64", erfc_scaled(4), 22, "[-1;0.7501]"),
    Polynomial("ERFC_F32", erfc_scaled(2), 10, "[-1;0.6731]", 24),
    Polynomial("LOG_GAMMA_F64", LOG_GAMMA, 28, "[-0.99999;1]", title="loggamma(2+x)/(x*(x+1))"),
    Polynomial("LOG_GAMMA_SHORT", LOG_GAMMA, 15, "[-0.99999;1]", title="loggamma(2+x)/(x*(x+1))"),
    Polynomial("STIRLING_F64", STIRLING, 7, "[1e-9;1b-6]", title="(loggamma(z)-...)*z, x=1/z^2,"),
    Polynomial("GAMMA_F64", GAMMA, 15, "[1e-9;1]", title="(gamma(2+x)-1)/x"),
    Polynomial("GAMMA_SHORT", GAMMA, 9, "[1e-9;1]", title="(gamma(2+x)-1)/x"),
    Polynomial("STIRLING_FACTOR_F64", STIRLING_FACTOR, 9, "[1e-9;0.125]", title="(exp(STIRLING/z)-1)*z, x=1/z,"),
    Polynomial("DIGAMMA_F64", DIGAMMA, 28, "[-1;1]", title="digamma(2+x)/(x-root)"),
    Polynomial("DIGAMMA_SHORT", DIGAMMA, 15, "[-1;1]", title="digamma(2+x)/(x-root)"),
    Polynomial("DIGAMMA_FAR_F64", DIGAMMA_FAR, 8, "[1e-9;1b-6]", title="(log(z)-1/(2*z)-digamma(z))*z^2, x=1/z^2,"),
)


def script(p: Polynomial) -> str:
    """The Sollya program that prints a polynomial's error and then its coefficients."""
    if p.weight in ("relative", "absolute"):
        found = (
            f"fpminimax({p.function}, {p.degree}, [|{FORMATS[p.precision]}...|], {p.interval}, {p.weight})"
        )
        error = f"P-({p.function})" if p.weight == "absolute" else f"P/({p.function})-1"
    else:  # rounded coefficients near the best of a weighted norm
        best = f"remez(({p.function})*({p.weight}), {p.degree}, {p.interval}, {p.weight})"
        found = f"fpminimax({best}, {p.degree}, [|{FORMATS[p.precision]}...|], {p.interval}, absolute)"
        found = f"roundcoefficients({best}, [|{FORMATS[p.precision]}...|])" if p.precision == 53 else found
        error = f"(P-({p.function}))*({p.weight})"
    return (
        f"prec=200; P={found}; E=dirtyinfnorm({error},{p.interval}); display=decimal; print(round(E,10,RN));"
        f"display=hexadecimal; for i from 0 to {p.degree} do print(coeff(P,i)); quit;"
    )


def hexadecimal(text: str) -> str:
    """A coefficient as Sollya prints it, as Python's shortest decimal."""
    return repr(float.fromhex(text))


def main() -> int:
    """Print the module."""
    print('"""Polynomial coefficients, lowest first. Made by tools/vecmath_coefficients.py: do not edit."""')
    print("# fmt: off")
    for p in POLYNOMIALS:
        done = subprocess.run(["sollya"], input=script(p), capture_output=True, text=True, check=True)
        numbers = re.findall(r"^-?(?:0x)?[0-9][0-9a-fp.+-]*$", done.stdout, re.MULTILINE)
        error, *coefficients = numbers
        if len(coefficients) != p.degree + 1:
            print(done.stdout, done.stderr, file=sys.stderr)
            return 1
        print(f"# {p.title or p.function} on {p.interval}: error {float(error):.2g}")
        print(f"{p.name} = (")
        for c in coefficients:
            print(f"    {hexadecimal(c)},")
        print(")")
    return 0


if __name__ == "__main__":
    sys.exit(main())
