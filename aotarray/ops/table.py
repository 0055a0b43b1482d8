"""One row per op: its NumPy callable, arity, price and how its scalar form is spelled in source.

A spelling is a template over operand texts. `{T}` is the result dtype's name, for integers narrower
than the machine's, whose Python arithmetic would widen. A row without a template calls the scalar
function of the op's own name (`sin(t0)`), defined in `vecmath`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .special import SPECIAL

#: elements of a mask that are counted together: fixed, and small enough for their positions to stay in cache
COUNT_BLOCK = 2048

#: Prices in units of one vectorised addition; the cost model of fusion and threading uses them.
CHEAP, DIVISION, ELEMENTARY, HEAVY = 1, 4, 14, 30


@dataclass(frozen=True, slots=True)
class Op:
    """One op. `kind` says how it maps indices:

    leaf         input, literal, constant, size, iota: no operands; parameter: what the body of a loop is given,
                 while it is traced
    elementwise  all operands have the node's shape; `guard` is its first, and the program raises where its
                 second, a bool, holds
    view         an affine index map; moves no data
    reshape      the same elements in C order under another shape
    reduce       folds axes away;  argreduce: position of an extreme along one axis
    scan         running fold along one axis
    gather, concat, update: data movement decided per element; a `trusted` gather needs no look at its positions
    put          its first operand with the second at positions, int64 scalars, along some axes
    count        how many elements of a mask are true, before each of its blocks and in all (`COUNT_BLOCK`)
    measure      gives a size its name: the scalar, or the last element of `count`, is that size from here on
    positions    where a mask is true: the index along one of its axes, of each true element in order
    library      a call of a routine on whole arrays: matmul, or `call` of any `Routine`, of which the node is
                 one result
    control      a loop or a choice, with graphs among its parameters; `result` is one of its values
    effect       what happens at this point of the program: `check` raises where its first operand, a bool scalar,
                 is false; `print` prints. The other operands fill the fields of `text`; listed in `Graph.effects`
    """

    name: str
    kind: str
    arity: int | None = None
    ufunc: Callable[..., Any] | None = None
    cost: int = CHEAP
    spelling: dict[str, str] = field(default_factory=dict)

    def template(self, code: str) -> str | None:
        """The spelling for operands of dtype `code`, or None for a call of the scalar function."""
        kind = code[0]
        if kind == "u" and "u" not in self.spelling:
            kind = "i"
        return self.spelling.get(kind, self.spelling.get("*"))


OPS: dict[str, Op] = {}
#: NumPy ufunc -> op, for the ufuncs that map one to one.
UFUNC_OPS: dict[Any, Op] = {}


def _op(name: str, kind: str, arity: int | None = None, ufunc: Any = None, cost: int = CHEAP, **spelling: str) -> None:
    if "any" in spelling:
        spelling["*"] = spelling.pop("any")
    op = Op(name, kind, arity, ufunc, cost, spelling)
    OPS[name] = op
    if isinstance(ufunc, np.ufunc):
        UFUNC_OPS[ufunc] = op


def _ufunc(name: str, arity: int, cost: int = CHEAP, **spelling: str) -> None:
    _op(name, "elementwise", arity, SPECIAL.get(name) or getattr(np, name), cost, **spelling)


# fmt: off
#       name             kind        arity
_op("input",            "leaf",      0)
_op("literal",          "leaf",      0)
_op("constant",         "leaf",      0)
_op("size",             "leaf",      0)
_op("iota",             "leaf",      0)
_op("view",             "view",      1)
_op("reshape",          "reshape",   1)
_op("cast",             "elementwise", 1)
_op("where",            "elementwise", 3, np.where, any="where({0}, {1}, {2})")
_op("real",             "elementwise", 1, np.real)
_op("imag",             "elementwise", 1, np.imag)
_op("complex",          "elementwise", 2)
_op("guard",            "elementwise", 2)
_op("philox",           "elementwise", 4, cost=100)
_op("sum",              "reduce",    1, np.add)
_op("prod",             "reduce",    1, np.multiply)
_op("max",              "reduce",    1, np.maximum)
_op("min",              "reduce",    1, np.minimum)
_op("any",              "reduce",    1, np.logical_or)
_op("all",              "reduce",    1, np.logical_and)
_op("argmax",           "argreduce", 1, np.argmax)
_op("argmin",           "argreduce", 1, np.argmin)
_op("cumsum",           "scan",      1, np.cumsum)
_op("cumprod",          "scan",      1, np.cumprod)
_op("gather",           "gather",    None)
_op("concat",           "concat",    None, np.concatenate)
_op("update",           "update",    2)
_op("put",              "put",       None)
_op("count",            "count",     1)
_op("measure",          "measure",   1)
_op("positions",        "positions", 2)
_op("matmul",           "library",   2, np.matmul)
_op("call",             "library",   None)
_op("parameter",        "leaf",      0)
_op("while",            "control",   None)
_op("loop",             "control",   None)
_op("branch",           "control",   None)
_op("result",           "result",    1)
_op("check",            "effect",    None)
_op("print",            "effect",    None)

# The reduce and argreduce rows carry the ufunc that folds, which is also an op of its own below.
UFUNC_OPS.clear()

#          name           arity  cost      spelling by operand kind: f float, i integer, b bool, any
_ufunc("add",              2, f="{0} + {1}", i="{T}({0} + {1})", b="{0} | {1}")
_ufunc("subtract",         2, f="{0} - {1}", i="{T}({0} - {1})")
_ufunc("multiply",         2, f="{0} * {1}", i="{T}({0} * {1})", b="{0} & {1}")
_ufunc("divide",           2, DIVISION, f="{0} / {1}")
_ufunc("floor_divide",     2, HEAVY)
_ufunc("remainder",        2, HEAVY)
_ufunc("fmod",             2, HEAVY)
_ufunc("power",            2, HEAVY)
_ufunc("negative",         1, f="-{0}", i="{T}(-{0})")
_ufunc("positive",         1, any="{0}")
_ufunc("absolute",         1, b="{0}")
_ufunc("fabs",             1)
_ufunc("rint",             1, i="{0}", b="{0}")
_ufunc("floor",            1, i="{0}", b="{0}")
_ufunc("ceil",             1, i="{0}", b="{0}")
_ufunc("trunc",            1, i="{0}", b="{0}")
_ufunc("sign",             1)
_ufunc("heaviside",        2)
_ufunc("sqrt",             1, DIVISION)
_ufunc("square",           1, f="{0} * {0}", i="{T}({0} * {0})", b="{0}")
_ufunc("reciprocal",       1, DIVISION, i="where({0} == 1, {T}(1), where({0} == -1, {T}(-1), {T}(0)))",
       u="where({0} == 1, {T}(1), {T}(0))")
_ufunc("cbrt",             1, ELEMENTARY)
_ufunc("exp",              1, ELEMENTARY)
_ufunc("exp2",             1, ELEMENTARY)
_ufunc("expm1",            1, ELEMENTARY)
_ufunc("log",              1, ELEMENTARY)
_ufunc("log2",             1, ELEMENTARY)
_ufunc("log10",            1, ELEMENTARY)
_ufunc("log1p",            1, ELEMENTARY)
_ufunc("logaddexp",        2, HEAVY)
_ufunc("logaddexp2",       2, HEAVY)
_ufunc("sin",              1, ELEMENTARY)
_ufunc("cos",              1, ELEMENTARY)
_ufunc("tan",              1, ELEMENTARY)
_ufunc("arcsin",           1, ELEMENTARY)
_ufunc("arccos",           1, ELEMENTARY)
_ufunc("arctan",           1, ELEMENTARY)
_ufunc("arctan2",          2, HEAVY)
_ufunc("hypot",            2, DIVISION)
_ufunc("sinh",             1, ELEMENTARY)
_ufunc("cosh",             1, ELEMENTARY)
_ufunc("tanh",             1, ELEMENTARY)
_ufunc("arcsinh",          1, ELEMENTARY)
_ufunc("arccosh",          1, ELEMENTARY)
_ufunc("arctanh",          1, ELEMENTARY)
_ufunc("deg2rad",          1)
_ufunc("rad2deg",          1)
_ufunc("radians",          1)
_ufunc("degrees",          1)
_ufunc("gcd",              2, HEAVY)
_ufunc("lcm",              2, HEAVY)
_ufunc("conjugate",        1, any="{0}")
_ufunc("bitwise_and",      2, any="{T}({0} & {1})", b="{0} & {1}")
_ufunc("bitwise_or",       2, any="{T}({0} | {1})", b="{0} | {1}")
_ufunc("bitwise_xor",      2, any="{T}({0} ^ {1})", b="{0} ^ {1}")
_ufunc("invert",           1, any="{T}(~{0})", b="not {0}")
_ufunc("left_shift",       2)
_ufunc("right_shift",      2)
_ufunc("bitwise_count",    1, i="bit_count({0})")
_ufunc("less",             2, any="{0} < {1}")
_ufunc("less_equal",       2, any="{0} <= {1}")
_ufunc("greater",          2, any="{0} > {1}")
_ufunc("greater_equal",    2, any="{0} >= {1}")
_ufunc("equal",            2, any="{0} == {1}")
_ufunc("not_equal",        2, any="{0} != {1}")
_ufunc("logical_and",      2, b="{0} & {1}")
_ufunc("logical_or",       2, b="{0} | {1}")
_ufunc("logical_xor",      2, b="{0} ^ {1}")
_ufunc("logical_not",      1, b="not {0}")
_ufunc("maximum",          2, b="{0} | {1}")
_ufunc("minimum",          2, b="{0} & {1}")
_ufunc("fmax",             2, b="{0} | {1}")
_ufunc("fmin",             2, b="{0} & {1}")
_ufunc("isnan",            1, i="False", b="False")
_ufunc("isinf",            1, i="False", b="False")
_ufunc("isfinite",         1, i="True", b="True")
_ufunc("signbit",          1)
_ufunc("copysign",         2)
_ufunc("nextafter",        2)
_ufunc("spacing",          1)
_ufunc("ldexp",            2)
_ufunc("erf",              1, HEAVY)
_ufunc("erfc",             1, HEAVY)
_ufunc("erfcx",            1, HEAVY)
_ufunc("ndtr",             1, HEAVY)
_ufunc("log_ndtr",         1, HEAVY)
_ufunc("gammaln",          1, HEAVY)
_ufunc("gamma",            1, HEAVY)
_ufunc("digamma",          1, HEAVY)
# fmt: on
