"""`SizeValue`: a size of a traced array, as the user's code sees it. Arithmetic stays symbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from .. import sizes
from ..errors import LeakError
from ..graph import Node, literal_value
from ..sizes import Dim
from .array_api import namespace_of
from .context import Trace, active, here

if TYPE_CHECKING:
    from .tracer import Tracer

SizeLike = Union[int, "SizeValue"]


class SizeValue:
    """A named or derived size. `+ - * // %` with ints and sizes stay symbolic; asking for an int fixes it."""

    __slots__ = ("_trace", "dim")
    # Set by tracer.py, so that arrays and NumPy scalars combine with sizes as traced values.
    __array_ufunc__: Any
    __array_function__: Any
    __array_namespace__ = namespace_of

    def __init__(self, dim: sizes.Size, trace: Trace) -> None:
        self.dim = dim
        self._trace = trace

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` goes by: sizes are ints."""
        return int

    def __index__(self) -> int:
        return self._trace.fix(self.dim, "range, indexing or a function that takes an int")

    __int__ = __index__

    def __float__(self) -> float:
        return float(self._trace.fix(self.dim, "float()"))

    def __bool__(self) -> bool:
        return self._trace.decide(self.dim, "ne", 0)

    def __hash__(self) -> int:
        return hash(self._trace.fix(self.dim, "a hash"))

    def __repr__(self) -> str:
        return str(self.dim)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return str(self.dim) if not spec else format(self._trace.fix(self.dim, "formatting"), spec)

    def _compare(self, other: Any, relation: str) -> Any:
        """The outcome in the call being traced, which becomes part of the key: not the sizes themselves."""
        dim = as_dim(other)
        if dim is None:
            return getattr(self.tracer(), f"__{relation}__")(other)
        if self._trace.is_measured(self.dim - dim):  # a traced bool, for np.where and aotarray.cond
            return getattr(self.tracer(), f"__{relation}__")(wrap(dim, self._trace))
        return self._trace.decide(self.dim, relation, dim)

    def __eq__(self, other: object) -> Any:
        # A cache that some function keeps may hold sizes of calls that are over: they are equal to nothing else.
        return self._compare(other, "eq") if self._trace.open else self is other

    def __ne__(self, other: object) -> Any:
        return self._compare(other, "ne") if self._trace.open else self is not other

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "lt")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "le")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "gt")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "ge")

    def __neg__(self) -> SizeLike:
        return wrap(-self.dim, self._trace)

    def __pos__(self) -> SizeLike:
        return self

    __floor__ = __ceil__ = __trunc__ = __pos__

    def __round__(self, digits: int | None = None) -> SizeLike:
        return self

    def __abs__(self) -> SizeLike:
        return self if self >= 0 else -self

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def tracer(self) -> Tracer:
        """The size as a traced (weak) integer."""
        as_dim(self)
        from .tracer import Tracer

        return Tracer.of(self._trace, self._trace.graph.apply("size", where=here(), value=self.dim))


def as_dim(value: Any) -> Dim | None:
    """An int or size as a `Dim`; None for anything else."""
    if isinstance(value, SizeValue):
        if value._trace is not active():
            raise LeakError(
                f"{here()}: a size of a traced array is used outside the call it belongs to; return it "
                f"from the function "
                f"instead of keeping it"
            )
        return value.dim
    if getattr(value, "_is_tracer", False):
        value._trace.require_open()
        dim = _dim_of(value.node)
        if dim is not None:
            return dim
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return None
    try:
        return int(value.__index__())
    except TypeError:
        return None


def _dim_of(node: Node) -> Dim | None:
    """Integer arithmetic of sizes that went through NumPy (`np.int64(2) * n`), as a size again."""
    name, operands = node.op.name, node.operands
    if name == "size":
        found: Dim = node.params["value"]
        return found
    if name == "literal" and node.dtype.kind in "iu" and not node.shape:
        return int(literal_value(node))
    if name == "cast" and node.dtype == np.int64:
        return _dim_of(operands[0])
    exact = _EXACT.get(
        {"subtract": "sub", "multiply": "mul", "floor_divide": "floordiv", "remainder": "mod"}.get(name, name)
    )
    if exact is None or node.dtype != np.int64 or node.shape:
        return None
    a, b = (_dim_of(o) for o in operands)
    return None if a is None or b is None else exact(a, b)


def wrap(dim: Dim, trace: Trace) -> SizeLike:
    """A `Dim` as the user sees it: an int, or a `SizeValue`."""
    return dim if isinstance(dim, int) else SizeValue(dim, trace)


def _arithmetic(exact: Callable[[Dim, Dim], Dim], name: str) -> tuple[Any, Any]:
    def forward(self: SizeValue, other: Any) -> Any:
        own, dim = as_dim(self), None if getattr(other, "_is_tracer", False) else as_dim(other)
        if own is None or dim is None:
            return getattr(self.tracer(), f"__{name}__")(other)
        return wrap(exact(own, dim), self._trace)

    def backward(self: SizeValue, other: Any) -> Any:
        dim = as_dim(other)
        if dim is None:
            return getattr(self.tracer(), f"__r{name}__")(other)
        return wrap(exact(dim, self.dim), self._trace)

    return forward, backward


_EXACT: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": sizes.floordiv,
    "mod": sizes.mod,
}
for _name, _exact in _EXACT.items():
    _forward, _backward = _arithmetic(_exact, _name)
    setattr(SizeValue, f"__{_name}__", _forward)
    setattr(SizeValue, f"__r{_name}__", _backward)


def _through_tracer(name: str) -> Any:
    def method(self: SizeValue, *others: Any) -> Any:
        return getattr(self.tracer(), name)(*others)

    return method


for _name in ("truediv", "pow", "and", "or", "xor", "lshift", "rshift"):
    setattr(SizeValue, f"__{_name}__", _through_tracer(f"__{_name}__"))
    setattr(SizeValue, f"__r{_name}__", _through_tracer(f"__r{_name}__"))
