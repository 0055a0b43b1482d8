"""Which scalar functions exist, for which dtypes, and the Python body of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aotarray.vecmath.primitives import Scalar, dtype_of
from aotarray.vecmath.trace import PURE, Value

Body = Callable[..., Scalar]


@dataclass(frozen=True)
class ScalarFunction:
    """One function: `result` is "same" (the arguments' dtype), "bool", or a dtype.

    `imported` functions call one of the launcher's C functions.
    """

    name: str
    arity: int
    dtypes: tuple[str, ...]
    result: str = "same"
    imported: bool = False

    def result_dtype(self, dtype: str) -> str:
        """The dtype of the result for arguments of `dtype`."""
        return {"same": dtype, "bool": "b1"}.get(self.result, self.result)


FUNCTIONS: dict[str, ScalarFunction] = {}
BODIES: dict[tuple[str, str], Body] = {}
RARE: dict[str, tuple[str, Body, Body]] = {}

FLOATS = ("f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED


def define(name: str, *dtypes: str, result: str = "same") -> Callable[[Body], Body]:
    """Register a body as `name` for these dtypes; further dtypes may come from further bodies."""

    def register(body: Body) -> Body:
        arity = body.__code__.co_argcount
        known = FUNCTIONS.get(name, ScalarFunction(name, arity, (), result))
        FUNCTIONS[name] = ScalarFunction(name, arity, known.dtypes + dtypes, known.result)
        for dtype in dtypes:
            BODIES[name, dtype] = body
        return body

    return register


def define_imported(name: str, *dtypes: str) -> Callable[[Body], Body]:
    """Register a body that calls a C function; plain Python asks NumPy."""

    def register(body: Body) -> Body:
        FUNCTIONS[name] = ScalarFunction(name, body.__code__.co_argcount, dtypes, imported=True)
        for dtype in dtypes:
            BODIES[name, dtype] = body
        return body

    return register


def rare(condition: Body, dtype: str) -> Callable[[Body], Body]:
    """Make a function of one or two arguments of `dtype` a call that only happens where `condition` holds.

    The result is 0 elsewhere. The call sits out of line: LLVM's vectoriser is told of a vector form of it
    (attribute `vector-function-abi-variant`), which looks whether any lane needs the call. So a loop keeps
    its vectors, and pays a compare and a branch for the arguments that need long computations.
    """

    def wrap(body: Body) -> Body:
        name = body.__name__
        RARE[name] = (dtype, condition, body)

        def call(*operands: Scalar) -> Scalar:
            model = operands[0]
            if not isinstance(model, Value):
                return body(*operands) if condition(*operands) else type(model)(0)
            symbol = f"aot_{name}"
            letters = "v" * len(operands)
            variants = ",".join(f"_ZGV_LLVM_N{n}{letters}_{symbol}({symbol}_x{n})" for n in LANES)
            attributes = f' {PURE} "vector-function-abi-variant"="{variants}"'
            return model.builder.call(symbol, dtype_of(model), *operands, attributes=attributes)

        return call

    return wrap


LANES = (2, 4, 8, 16)
