"""`Tracer`: what a traced function sees in place of an array. Operators and methods record nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import sizes
from ..errors import ConcretizationError, TraceError, UnsupportedError
from ..graph import Node, topological
from ..interpret import evaluate
from ..ops import OPS, UFUNC_OPS
from ..sizes import Dim
from . import promote, views
from .context import Trace, current_body, here
from .size_value import SizeLike, SizeValue, wrap

#: what a traced value leaves in the message of a check
MARK = "\0{}\0"
SHARED = (
    "two names may share this array's memory, and one was written into: which path the program takes decides; "
    "give each its own with .copy()"
)
_RESHAPED = (
    "an array and its reshape, one of them written into: whether they share memory depends on the layout in NumPy; "
    "reshape a copy (x.copy().reshape(...))"
)
#: kind of dtype -> the class of a weak scalar
_PYTHON: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


@dataclass(eq=False)
class Storage:
    """One array of the traced function. Writing replaces its node; every view of it sees that."""

    node: Node
    argument: str = ""
    #: an argument that is written into: in the caller's memory, of whatever layout
    inout: bool = False
    #: a NumPy scalar rather than an array without axes: `s += 1` makes a new one, and views of it are copies
    scalar: bool = False
    #: how often it was written into
    version: int = 0
    #: the value whose order of axes it has in memory; C order where there is none
    like: Node | None = None
    #: a reshape that may be a view or a copy, as NumPy's layout has it: its source, and that one's version
    origin: tuple[Storage, int] | None = None
    #: the body of a loop in which it was made, and alone can be written into
    body: int = field(default_factory=current_body)
    #: arrays that it may be, as some path of the program has it, and their versions then
    maybe: tuple[tuple[Storage, int], ...] = ()
    #: arrays that are none of these where this one is
    apart: tuple[Storage, ...] = ()
    #: why nobody knows what it holds; empty where it is known
    lost: str = ""

    def is_current(self) -> bool:
        """False when what this is a reshape of has changed since."""
        if self.origin is None:
            return True
        source, version = self.origin
        return source.version == version and source.is_current()

    @property
    def state(self) -> tuple[Any, ...]:
        """What writing changes. Without the origin's version, a reshape is not current any more."""
        return self.node, self.version, self.maybe, self.lost, self.origin

    @state.setter
    def state(self, state: tuple[Any, ...]) -> None:
        self.node, self.version, self.maybe, self.lost = state[:4]
        if self.origin is not None:
            self.origin = state[4] if len(state) > 4 else (self.origin[0], -1)


class Tracer:
    """A traced array: a storage seen through a chain of views."""

    _is_tracer = True
    __slots__ = ("_lenses", "_storage", "_trace")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: Trace, storage: Storage, lenses: tuple[views.Lens, ...] = ()) -> None:
        self._trace = trace
        self._storage = storage
        self._lenses = lenses

    @classmethod
    def of(cls, trace: Trace, node: Node) -> Tracer:
        """A computed array with the value of `node`; without axes it is a scalar, as in NumPy."""
        return cls(trace, Storage(node, scalar=not node.shape, like=node))

    # -- what it is -----------------------------------------------------------------------------
    @property
    def node(self) -> Node:
        """The current value."""
        self._trace.require_open()
        if not self._storage.is_current():
            raise self._undecided()
        self._require_known()
        node = self._storage.node
        for lens in self._lenses:
            node = lens.read(self._trace.graph, node)
        return node

    @property
    def shape(self) -> tuple[SizeLike, ...]:
        return tuple(wrap(d, self._trace) for d in self.node.shape)

    @shape.setter
    def shape(self, shape: Any) -> None:
        raise UnsupportedError(
            f"{here()}: assigning to x.shape is not supported in compiled functions; use x = x.reshape(shape)"
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{here()}: a traced array has no attribute {name!r} that compiled functions support"
        )

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` goes by: the class of the value that NumPy would have here."""
        node = self._storage.node
        if not self._storage.scalar and not node.type.weak:
            return np.ndarray
        return _PYTHON[node.dtype.kind] if node.type.weak else node.dtype.type

    @property
    def dtype(self) -> np.dtype:
        return self.node.dtype

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    @property
    def size(self) -> SizeLike:
        return wrap(self.node.type.size, self._trace)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> SizeLike:
        return wrap(self.node.type.size * self.dtype.itemsize, self._trace)

    def __len__(self) -> int:
        shape = self.node.shape
        if not shape:
            raise TypeError(f"{here()}: len() of unsized object")
        return self._trace.fix(shape[0], "len()")

    def __repr__(self) -> str:
        return f"Tracer<{self._storage.node.type}>" if not self._trace.open else f"Tracer<{self.node.type}>"

    def __iter__(self) -> Iterator[Tracer]:
        shape = self.node.shape
        if not shape:
            raise TypeError(f"{here()}: iteration over a 0-d array")
        for k in range(self._trace.fix(shape[0], "iteration over an array")):
            yield self[k]

    # -- what it is not: a concrete value --------------------------------------------------------
    def _concrete(self, use: str, instead: str) -> ConcretizationError:
        return ConcretizationError(
            f"{here()}: {use} needs the value of a traced array, which is not known while tracing; {instead}"
        )

    def _known(self, use: str, instead: str) -> np.ndarray[Any, Any]:
        """The value where it depends on no argument: of constants, and of sizes (which get fixed)."""
        found = known_value(self._trace, self.node, use)
        if found is None:
            raise self._concrete(use, instead)
        return found

    def __bool__(self) -> bool:
        return bool(self._known(
            "a condition (`if`, `while`, `and`, `or`, `not`)",
            "use np.where(condition, a, b), or & | ~ between arrays; aotarray.cond chooses between functions, and "
            "aotarray.while_loop repeats one",
        ))  # fmt: skip

    def __float__(self) -> float:
        return float(self._known(
            "float(), or writing into a plain NumPy array,",
            "use astype(np.float64), make arrays to write into inside the function (np.zeros, np.array), "
            "or make the "
            "argument static (static_argnames)",
        ))  # fmt: skip

    def __int__(self) -> int:
        return int(
            self._known("int()", "use astype(np.int64), or make the argument static (static_argnames)")
        )

    def __complex__(self) -> complex:
        return complex(self._known("complex()", "use astype(np.complex128)"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise TypeError(f"{here()}: only integer scalar arrays can be converted to a scalar index")
        return int(
            self._known(
                "an index or a range",
                "make the argument static (static_argnames), or index with an array; aotarray.fori_loop counts to "
                "a traced number",
            )
        )

    def item(self, *args: Any) -> Any:
        return self._known("item()", "index the array instead").item(*args)

    def tolist(self) -> Any:
        return self._known("tolist()", "return the array and convert the result").tolist()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        found = self._known(
            "a function that does not go through NumPy's protocols (np.vectorize, for one), or writing into a plain "
            "NumPy array,",
            "use the NumPy function for it, and make arrays to write into inside the function (np.zeros, "
            "np.array)",
        )
        found = np.array(found, dtype=dtype)
        found.flags.writeable = False  # nobody may believe that writing into it changes the traced array
        return found

    def __format__(self, spec: str) -> str:
        if self._trace.texts is not None:
            self._trace.texts.append((self, spec))
            return MARK.format(len(self._trace.texts) - 1)
        if spec:
            raise self._concrete("formatting", "print outside the compiled function")
        return repr(self)

    # -- protocols --------------------------------------------------------------------------------
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .ufuncs import call_ufunc

        return call_ufunc(self._trace, ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call_function(self._trace, function, args, kwargs)

    # -- indexing ---------------------------------------------------------------------------------
    def fill(self, value: Any) -> None:
        self[...] = value

    def __getitem__(self, key: Any) -> Any:
        from .indexing import get_item

        return get_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from .indexing import set_item

        set_item(self, key, value)

    def view_through(self, lens: views.Lens) -> Tracer:
        """A view of this array."""
        if self._storage.scalar:
            return Tracer(self._trace, Storage(lens.read(self._trace.graph, self.node)))
        if isinstance(lens, views.Reshape) and not self.in_order(gaps=True):
            return self.perhaps_copied(lens.read(self._trace.graph, self.node))
        return Tracer(self._trace, self._storage, (*self._lenses, lens))

    def with_memory(self, node: Node, like: Node | None = None) -> Tracer:
        """An array of its own, or a scalar where this is one."""
        return Tracer(self._trace, Storage(node, scalar=self._storage.scalar, like=like))

    def in_order(self, gaps: bool = False) -> bool:
        """True when the elements surely lie one after another, in C order, or nobody may write into them.

        With `gaps` the parts of complex numbers do too: reshapes of these are views, while `ravel` copies them.
        """
        storage = self._storage
        if storage.argument or storage.inout:
            return bool(storage.argument)
        kept = views.keep_order(storage.node.shape, self._lenses)
        kept = kept and (gaps or not any(isinstance(lens, views.Part) for lens in self._lenses))
        return kept and (storage.like is None or views.follows_c_order(storage.like))

    def perhaps_copied(self, node: Node) -> Tracer:
        """What NumPy gives as a view or as a copy of this, as its layout has it; after a write only one can be read."""
        return Tracer(self._trace, Storage(node, origin=(self._storage, self._storage.version)))

    def write(self, value: Any) -> None:
        """Overwrite all elements, as `self[...] = value` does."""
        if self._storage.scalar:
            raise TypeError(f"{here()}: 'numpy.{self.dtype}' object does not support item assignment")
        if self._storage.argument:
            name = self._storage.argument
            parameter = name.partition("[")[0].partition(".")[0]
            raise TraceError(
                f"{here()}: writing into argument {name!r}: compiled functions are pure; write into a copy "
                f"({name} = {name}.copy()), or have the caller's array changed: jit(f, inout=({parameter!r},)), or "
                f"in a spec {f'{parameter}: inout {self._storage.node.type}'!r}"
            )
        if not self._trace.note_write(self._storage):
            raise TraceError(
                f"{here()}: writing into an array that was made outside of this body of a loop or choice; let the loop "
                f"carry it (make it part of init, and return it), or return the new array from the choice"
            )
        trace, node = self._trace, self.node
        new = promote.node_of(trace, value)
        if not np.can_cast(new.dtype, node.dtype, "unsafe"):
            raise TypeError(f"{here()}: cannot write {new.dtype} into {node.dtype}")
        new = promote.fit_rank(trace, new, len(node.shape))
        promote.broadcast_shapes(trace, [node.shape, new.shape], "assignment")
        new = promote.broadcast_node(trace, promote.cast(trace, new, node.dtype), node.shape)
        self._storage.node = _written(trace, self._storage.node, self._lenses, new)
        self._storage.version += 1
        lose_others(trace, self._storage)
        self._lose_sources()

    def _require_known(self) -> None:
        """Raise where another name may have written into this array, or not."""
        storage = self._storage
        if storage.lost:
            kind = UnsupportedError if storage.lost.startswith(_RESHAPED) else TraceError
            raise kind(f"{here()}: {storage.lost}")
        if any(source.version != version for source, version in storage.maybe):
            raise TraceError(f"{here()}: {SHARED}")

    def _lose_sources(self) -> None:
        """After a write into what may be a view or a copy: what its source holds depends on the layout."""
        storage = self._storage
        while storage.origin is not None:
            source, _ = storage.origin
            self._trace.note_write(source)
            source.lost, source.version = f"{_RESHAPED} (line {here().line} writes)", source.version + 1
            storage.origin = source, source.version
            storage = source

    def _undecided(self) -> UnsupportedError:
        return UnsupportedError(f"{here()}: {_RESHAPED}")

    def _inplace(self, op: str, other: Any) -> Tracer:
        result = promote.elementwise(self._trace, OPS[op], (self.node, promote.node_of(self._trace, other)))
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(
                f"{here()}: cannot cast the result of {op} from {result.dtype} to {self.dtype} with "
                f"casting rule 'same_kind'"
            )
        if result.shape != self.node.shape:
            promote.broadcast_shapes(self._trace, [self.node.shape, result.shape], op)
            if len(result.shape) != len(self.node.shape):
                raise ValueError(f"{here()}: non-broadcastable output operand of {op}")
        self.write(Tracer.of(self._trace, result))
        return self


def lose_others(trace: Trace, storage: Storage) -> None:
    """After a write into an array: what it may have been is not known any more."""
    for source, _ in storage.maybe:
        if source.argument or source.inout:
            label = f"argument {source.argument!r}" if source.argument else "an inout argument"
            raise TraceError(
                f"{here()}: this array may be {label}, or not: which path the program takes decides; write into "
                f"a copy, or into the argument itself"
            )
        if not trace.note_write(source):
            continue
        before = (source, source.version)
        source.lost, source.version = f"{SHARED} (line {here().line} writes)", source.version + 1
        for other in storage.apart:
            if before in other.maybe and trace.note_write(other):
                other.maybe = tuple((source, source.version) if m == before else m for m in other.maybe)
    storage.maybe = ()


def _written(trace: Trace, base: Node, lenses: Sequence[views.Lens], value: Node) -> Node:
    """The base's new value when `value` is written through a chain of views."""
    if not lenses:
        return value
    first, *rest = lenses
    inner = _written(trace, first.read(trace.graph, base), rest, value)
    return first.write(trace.graph, base, inner)


# -- operators ------------------------------------------------------------------------------------
def _operable(value: Any) -> bool:
    return isinstance(
        value, (Tracer, SizeValue, bool, int, float, complex, np.ndarray, np.generic, list, tuple)
    )


def _binary(op: str, swapped: bool = False) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        if not _operable(other):
            return NotImplemented
        pair = (self.node, promote.node_of(self._trace, other))
        node = promote.elementwise(self._trace, OPS[op], pair[::-1] if swapped else pair, operator=True)
        return Tracer.of(self._trace, node)

    return method


def _unary(op: str) -> Callable[[Tracer], Tracer]:
    def method(self: Tracer) -> Tracer:
        return Tracer.of(self._trace, promote.elementwise(self._trace, OPS[op], (self.node,), operator=True))

    return method


def _in_place(op: str) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        if self._storage.scalar:
            return _binary(op)(self, other)
        return self._inplace(op, other)

    return method


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
for _name, _op in _OPERATORS.items():
    setattr(Tracer, f"__{_name}__", _binary(_op))
    setattr(Tracer, f"__r{_name}__", _binary(_op, swapped=True))
    setattr(Tracer, f"__i{_name}__", _in_place(_op))
for _name, _op in {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}.items():
    setattr(Tracer, f"__{_name}__", _binary(_op))
for _name, _op in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}.items():
    setattr(Tracer, f"__{_name}__", _unary(_op))


def known_value(trace: Trace, node: Node, use: str) -> np.ndarray[Any, Any] | None:
    """The value of a node that depends on no argument, else None. Sizes that it depends on are fixed."""
    env: dict[str, int] = {}
    order = topological((node,))
    if any(n.op.name in ("input", "parameter") or n.op.kind == "control" for n in order):
        return None
    for n in order:
        for dim in (*n.shape, *_dims_in(tuple(n.params.values()))):
            for name in sizes.names(dim):
                if (
                    not name.startswith("%") and name not in trace.graph.measured
                ):  # "%": along an axis of a view
                    env[name] = trace.fix(sizes.name(name), use)
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for n in order:
            operands = [values[o.number] for o in n.operands]
            constant = n.op.name == "constant"
            found = trace.graph.constants[n.params["index"]] if constant else evaluate(n, operands, env)
            values[n.number] = np.asarray(found)
    result: np.ndarray[Any, Any] = values[node.number]
    return result


def _dims_in(value: Any) -> Iterator[Dim]:
    if isinstance(value, sizes.Size):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _dims_in(item)


def call_function(trace: Trace, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `__array_function__` answers."""
    from .functions import FUNCTIONS

    trace.require_open()
    rule = FUNCTIONS.get(function)
    if rule is not None:
        return rule(*args, **kwargs)
    name = f"{function.__module__}.{function.__name__}"
    try:
        known = [_plain_array(v, name) for v in (args, kwargs)]
    except ConcretizationError:
        raise UnsupportedError(
            f"{here()}: {name} is not supported in compiled functions; write it with those of "
            f"docs/supported.md, or call it outside and pass the result as an argument"
        ) from None
    return function(*known[0], **known[1])


def _plain_array(value: Any, name: str) -> Any:
    """`value` with traced constants as real arrays."""
    if isinstance(value, Tracer):
        return value._known(name, "")
    if isinstance(value, (tuple, list)):
        return type(value)(_plain_array(v, name) for v in value)
    if isinstance(value, dict):
        return {k: _plain_array(v, name) for k, v in value.items()}
    return value


def _size_function(self: SizeValue, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    return call_function(self._trace, function, args, kwargs)


def _size_ufunc(self: SizeValue, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    from .ufuncs import call_ufunc

    return call_ufunc(self._trace, ufunc, method, inputs, kwargs)


SizeValue.__array_ufunc__ = _size_ufunc
SizeValue.__array_function__ = _size_function
Dims = tuple[Dim, ...]
__all__ = ["UFUNC_OPS", "Storage", "Tracer"]
