"""`x[mask]`, whose size depends on values: as long as that does for it, the whole array beside its mask.

Element-wise functions, sums and the like, and `y[mask] = ...` with the same mask need no more than that:
`y[y < 0] *= 2`, `y[m] = np.sqrt(x[m])`, `x[m].mean()`. Everything else works on the elements found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..graph import Node
from . import promote
from .array_api import namespace_of
from .context import Trace, here
from .finding import chosen, find_true
from .size_value import SizeLike, SizeValue
from .tracer import Tracer

#: methods that change the array
_CHANGING = frozenset({"fill", "partition", "put", "sort"})


class Masked(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements of `value`, a traced array, where `mask` of the same shape holds: at the positions `found`.

    `_array` is the traced array in its place, once it has been written into.
    """

    _is_tracer = True
    __slots__ = ("_array", "_trace", "found", "mask", "value")
    __hash__ = None  # type: ignore[assignment]
    __array_namespace__ = namespace_of

    def __init__(self, value: Tracer, mask: Node, found: tuple[Node, ...]) -> None:
        self.value, self.mask, self.found, self._trace = value, mask, found, value._trace
        self._array: Tracer | None = None

    def array(self) -> Tracer:
        """The elements found, as an array of their number."""
        if self._array is not None:
            return self._array
        return Tracer.of(self._trace, chosen(self._trace, self.value.node, self.found))

    def _changeable(self) -> Tracer:
        self._array = self.array()
        return self._array

    @property
    def node(self) -> Node:
        """The current value, of the elements found."""
        return self.array().node

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return 1

    @property
    def shape(self) -> tuple[SizeLike, ...]:
        return self.array().shape

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and ufunc.signature is None and self._goes_with(inputs, out):
            return self._everywhere(ufunc, inputs, out)
        found: dict[str, Any] = {k: _found(v) for k, v in kwargs.items()}
        if out is not None:
            found["out"] = tuple(o._changeable() if type(o) is Masked else o for o in out)
        result = getattr(ufunc, method)(*map(_found, inputs), **found)
        return result if out is None or len(out) > 1 else out[0]

    def _goes_with(self, inputs: tuple[Any, ...], out: Any) -> bool:
        """True where all arrays are elements of one mask, so that the whole arrays can be computed with."""
        for value in (*inputs, *(out or ())):
            if type(value) is Masked:
                if value._array is not None or value.mask is not self.mask:
                    return False
            elif any(value is o for o in out or ()) or (type(value) is not SizeValue and np.ndim(value)):
                return False
        return True

    def _everywhere(self, ufunc: Any, inputs: tuple[Any, ...], out: Any) -> Any:
        results = ufunc(*(v.value if type(v) is Masked else v for v in inputs))
        several = isinstance(results, tuple)
        found = [Masked(r, self.mask, self.found) for r in (results if several else (results,))]
        for target, result in zip(out or (), found, strict=out is not None):
            if not np.can_cast(result.dtype, target.dtype, "same_kind"):
                raise TypeError(
                    f"{here()}: cannot cast {ufunc.__name__} output from {result.dtype} to {target.dtype} with "
                    f"casting rule 'same_kind'"
                )
            target.value = result.value.astype(target.dtype)
        answer = found if out is None else list(out)
        return tuple(answer) if several else answer[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ in _REDUCTIONS and args and args[0] is self:
            return getattr(self, function.__name__)(*args[1:], **kwargs)
        return function(*map(_found, args), **{k: _found(v) for k, v in kwargs.items()})

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        if self._array is not None or args or kwargs:
            return self.array().astype(dtype, *args, **kwargs)
        return Masked(self.value.astype(dtype), self.mask, self.found)

    def copy(self, order: str = "C") -> Any:
        return Masked(self.value, self.mask, self.found) if self._array is None else self._array.copy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._changeable() if name in _CHANGING else self.array(), name)

    def __getitem__(self, key: Any) -> Any:
        if (
            type(key) is Masked
            and key.dtype == bool
            and self._goes_with((key,), None)
            and self._array is None
        ):
            both = promote.elementwise(self._trace, promote.OPS["logical_and"], (self.mask, key.value.node))
            return Masked(self.value, both, find_true(self._trace, both))
        return self.array()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._changeable()[key] = value

    def __len__(self) -> int:
        return len(self.array())

    def __iter__(self) -> Iterator[Tracer]:
        return iter(self.array())

    def __bool__(self) -> bool:
        return bool(self.array())

    def __int__(self) -> int:
        return int(self.array())

    def __float__(self) -> float:
        return float(self.array())

    def __complex__(self) -> complex:
        return complex(self.array())

    def __index__(self) -> int:
        return self.array().__index__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array().__array__(dtype, copy)

    def __format__(self, spec: str) -> str:
        return format(self.array(), spec)

    def __repr__(self) -> str:
        return repr(self.array()) if self._trace.open else f"{self.value!r}[mask]"


def _found(value: Any) -> Any:
    """`value` with the elements found in place of whole arrays, however nested."""
    if type(value) is Masked:
        return value.array()
    if type(value) in (tuple, list):
        return type(value)(map(_found, value))
    return value


#: reductions whose `where=` means the same; of nothing, max and min would have to raise
_REDUCTIONS = ("sum", "prod", "mean", "var", "std", "any", "all")


def _reduction(name: str) -> Any:
    def rule(self: Masked, axis: Any = None, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if self._array is not None or args or axis not in (None, 0, -1) or kwargs.keys() - {"ddof"}:
            positional = (axis, dtype, *args) if dtype is not None or args else (axis,)
            return getattr(self.array(), name)(*positional, **kwargs)
        given = kwargs if dtype is None else {"dtype": dtype, **kwargs}
        return getattr(self.value, name)(where=Tracer.of(self._trace, self.mask), **given)

    return rule


for _name in _REDUCTIONS:
    setattr(Masked, _name, _reduction(_name))


def mask_node(trace: Trace, key: Any, x: Tracer) -> Node:
    """A mask for the leading axes of `x`; the sizes must be equal."""
    return fitting(trace, promote.node_of(trace, key), x.node, 0)


def fitting(trace: Trace, mask: Node, x: Node, first: int) -> Node:
    """The mask, for the axes of `x` from `first` on; the sizes must be equal."""
    for axis, (have, want) in enumerate(zip(mask.shape, x.shape[first:], strict=False), start=first):
        known = trace.hint(have), trace.hint(want)
        if None not in known and known[0] != known[1]:
            raise IndexError(
                f"{here()}: boolean index did not match indexed array along axis {axis}; size of axis is "
                f"{known[1]} but size of corresponding boolean axis is {known[0]}"
            )
        trace.same(have, want, "boolean index did not match indexed array", "IndexError")
    return mask
