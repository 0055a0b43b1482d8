"""`x[mask]`: how many elements it has depends on values, so it stays the whole array beside its mask.

Element-wise functions, sums and the like, and `y[mask] = ...` with the same mask are all that it can do:
`y[y < 0] *= 2`, `y[m] = np.sqrt(x[m])`, `x[m].mean()`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..errors import UnsupportedError
from ..graph import Node
from . import promote
from .context import Trace, here
from .size_value import SizeValue
from .tracer import Tracer

_WAY_ROUND = "use np.where(mask, x, 0), where= of a reduction, or np.count_nonzero(mask)"


class Masked(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements of `value`, a traced array, where `mask` of the same shape holds."""

    __slots__ = ("_trace", "mask", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Tracer, mask: Node) -> None:
        self.value, self.mask, self._trace = value, mask, value._trace

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return 1

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            self._refuse(
                f"numpy.{ufunc.__name__}.{method}"
                if method != "__call__"
                else f"numpy.{ufunc.__name__} with options"
            )
        masked = next(v for v in (*inputs, *(out or ())) if isinstance(v, Masked))
        results = ufunc(*(masked._operand(v) for v in inputs))
        if not isinstance(results, tuple):
            results = (results,)
        if out is not None:
            for target, result in zip(out, results, strict=True):
                if not np.can_cast(result.dtype, target.dtype, "same_kind"):
                    raise TypeError(
                        f"{here()}: cannot cast {ufunc.__name__} output from {result.dtype} to "
                        f"{target.dtype} with "
                        f"casting rule 'same_kind'"
                    )
            results = tuple(r.astype(t.dtype) for r, t in zip(results, out, strict=True))
        found = tuple(Masked(r, masked.mask) for r in results)
        return found if len(found) > 1 else found[0]

    def _operand(self, value: Any) -> Any:
        """An operand over the whole array."""
        if isinstance(value, Masked):
            if value.mask is not self.mask:
                raise UnsupportedError(
                    f"{here()}: x[mask1] with y[mask2]: whether they fit depends on values; {_WAY_ROUND}"
                )
            return value.value
        if isinstance(value, SizeValue) or not np.ndim(value):
            return value
        raise UnsupportedError(
            f"{here()}: x[mask] with an array: whether they fit depends on values; {_WAY_ROUND}"
        )

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = getattr(self, function.__name__, None) if function.__name__ in _REDUCTIONS else None
        if rule is None or args[0] is not self:
            self._refuse(f"{function.__module__}.{function.__name__}")
        return rule(*args[1:], **kwargs)

    def astype(self, dtype: Any) -> Masked:
        return Masked(self.value.astype(dtype), self.mask)

    def copy(self) -> Masked:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        self._refuse("this use")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse(f"x[mask].{name}")

    def __getitem__(self, key: Any) -> NoReturn:
        self._refuse("x[mask][...]")

    def __len__(self) -> int:
        self._refuse("len(x[mask])")

    def __iter__(self) -> NoReturn:
        self._refuse("a loop over x[mask]")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"{here()}: {what}: a boolean mask gives an array whose size depends on values; {_WAY_ROUND}"
        )


#: reductions whose `where=` means the same; of nothing, max and min would have to raise
_REDUCTIONS = ("sum", "prod", "mean", "var", "std", "any", "all")


def _reduction(name: str) -> Any:
    def rule(self: Masked, axis: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
        if axis not in (None, 0, -1) or kwargs.keys() - {"ddof"}:
            self._refuse(f"{name} with options")
        given = kwargs if dtype is None else {"dtype": dtype, **kwargs}
        return getattr(self.value, name)(where=Tracer.of(self._trace, self.mask), **given)

    return rule


for _name in _REDUCTIONS:
    setattr(Masked, _name, _reduction(_name))


def mask_node(trace: Trace, key: Any, x: Tracer) -> Node:
    """A mask for the leading axes of `x`; the sizes must be equal."""
    mask = promote.node_of(trace, key)
    for axis, (have, want) in enumerate(zip(mask.shape, x.node.shape, strict=False)):
        known = trace.hint(have), trace.hint(want)
        if None not in known and known[0] != known[1]:
            raise IndexError(
                f"{here()}: boolean index did not match indexed array along axis {axis}; size of axis is "
                f"{known[1]} but "
                f"size of corresponding boolean axis is {known[0]}"
            )
        trace.same(have, want, "boolean index did not match indexed array")
    return mask
