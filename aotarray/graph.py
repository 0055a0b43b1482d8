"""The graph: immutable, typed SSA nodes, interned so that equal nodes are one object."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from . import sizes
from .errors import VerifyError
from .ops import COUNT_BLOCK, OPS, Op
from .sizes import Dim
from .types import ArrayType


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


NOWHERE = SourceLine("", 0, "")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One op applied to operands. Built only by `Graph.apply`, which interns it: equal nodes are one object."""

    op: Op
    operands: tuple[Node, ...]
    params: Mapping[str, Any]
    type: ArrayType
    where: SourceLine
    number: int
    #: what measures the sizes that the node's type or parameters mention: as necessary as operands
    measures: tuple[Node, ...] = ()

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"%{self.number} = {self.op.name} : {self.type}"


def axis_name(axis: int) -> str:
    """The name that stands for the index along output axis `axis` in the map of a view."""
    return f"%{axis}"


#: a relation of sizes that must hold: (relation, a, b, message, exception)
SizeCheck = tuple[str, Dim, Dim, str, str]


@dataclass(eq=False)
class Graph:
    """A traced function: nodes in the order they were made, inputs and outputs, captured constants.

    Loops and choices hold graphs too: of what they do, with their operands as inputs. `effects` happen in order: nodes
    of kind effect, and loops and choices with such inside.
    """

    name: str = "function"
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    effects: list[Node] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    input_names: list[str] = field(default_factory=list)
    checks: list[SizeCheck] = field(default_factory=list)
    #: sizes that are known only once a node has its value
    measured: dict[str, Node] = field(default_factory=dict)
    #: sizes in the call that asked for the graph: what kernels may be tuned to, never what they rely on
    hints: dict[str, int] = field(default_factory=dict)
    #: the inputs that the function writes into, when declared so
    inout: frozenset[int] = frozenset()
    #: number of an output -> the inout input whose last value it is
    written: dict[int, int] = field(default_factory=dict)
    #: so many outputs, the last ones, are values of inout inputs alone, and not returned
    hidden: int = 0
    _interned: dict[Any, Node] = field(default_factory=dict, repr=False)
    _constant_numbers: dict[bytes, int] = field(default_factory=dict, repr=False)
    _count: int = 0

    def emptied(self) -> Graph:
        """The same function without nodes and checks: a pass fills in inputs, outputs, effects and checks again."""
        return Graph(
            self.name, constants=self.constants, hints=self.hints, inout=self.inout, written=self.written,
            hidden=self.hidden,
        )  # fmt: skip

    def apply(
        self,
        op: str,
        operands: Iterable[Node] = (),
        where: SourceLine = NOWHERE,
        type: ArrayType | None = None,
        **params: Any,
    ) -> Node:
        """The node `op(*operands, **params)`; its type is inferred where the op's rule can."""
        operands = tuple(operands)
        type = type or infer(OPS[op], operands, params)
        key = (op, tuple(o.number for o in operands), tuple(sorted(params.items())), type)
        found = self._interned.get(key)
        if found is None:
            measures = self._measures(type.shape, *params.values()) if self.measured else ()
            found = Node(OPS[op], operands, params, type, where, self._count, measures)
            self._count += 1
            self._interned[key] = found
            if op == "measure":
                self.measured[params["name"]] = found
        return found

    def _measures(self, *values: Any) -> tuple[Node, ...]:
        """What measures the sizes in a node's shape and parameters."""
        found = {name for value in values for name in size_names(value) if name in self.measured}
        return tuple(self.measured[name] for name in sorted(found))

    def input(self, type: ArrayType, name: str) -> Node:
        """The next argument of the function."""
        node = self.apply("input", type=type, index=len(self.inputs))
        self.inputs.append(node)
        self.input_names.append(name)
        return node

    def literal(self, value: Any, dtype: np.dtype, where: SourceLine = NOWHERE, weak: bool = False) -> Node:
        """A scalar known at trace time. Its bytes are the key, so that -0.0, 0.0 and each NaN differ."""
        scalar = np.asarray(value).astype(dtype)
        return self.apply("literal", type=ArrayType(dtype, (), weak), where=where, bytes=scalar.tobytes())

    def constant(self, array: np.ndarray, where: SourceLine = NOWHERE) -> Node:
        """A captured array; equal arrays are one constant. The data are copied."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        digest = hashlib.sha256(repr((array.dtype.str, array.shape)).encode() + array.tobytes()).digest()
        if digest not in self._constant_numbers:
            self._constant_numbers[digest] = len(self.constants)
            self.constants.append(array.copy())
        index = self._constant_numbers[digest]
        return self.apply("constant", type=ArrayType(array.dtype, array.shape), where=where, index=index)

    def require(self, relation: str, a: Dim, b: Dim, message: str, exception: str = "ValueError") -> None:
        """Have the launcher check that `a relation b` ("eq", "ne", "ge") before anything runs, or, where a size is
        measured, once it is; then what fails raises `exception`."""
        if isinstance(a, int) and isinstance(b, int):
            return
        check = (relation, a, b, message, exception)
        if check not in self.checks:
            self.checks.append(check)

    @property
    def returned(self) -> list[Node]:
        """The outputs that the function returns."""
        return self.outputs[: len(self.outputs) - self.hidden]

    @property
    def made(self) -> int:
        """How many nodes were made so far: the number of the next one."""
        return self._count

    @property
    def known(self) -> int:
        """How many nodes `apply` would give again."""
        return len(self._interned)

    def forget(self, known: int) -> None:
        """Have `apply` make anew what was made since `known` was asked for."""
        while len(self._interned) > known:
            self._interned.popitem()

    def __str__(self) -> str:
        from .show import show_graph

        return show_graph(self)

    def nodes(self) -> list[Node]:
        """The live nodes, operands before users, in a deterministic order. What is checked is live."""
        return topological([*self.results, *self.checked])

    @property
    def checked(self) -> list[Node]:
        """What measures the sizes that checks are about."""
        return list(self._measures(tuple((a, b) for _, a, b, *_ in self.checks))) if self.measured else []

    @property
    def results(self) -> list[Node]:
        """What the graph is for: its effects in order, and its outputs."""
        return [*self.effects, *self.outputs]


def literal_value(node: Node) -> Any:
    """The NumPy scalar of a literal node."""
    return np.frombuffer(node.params["bytes"], node.dtype)[0]


def subgraphs(node: Node) -> list[Graph]:
    """The graphs that a loop or a choice runs."""
    if node.op.kind != "control":
        return []
    if node.op.name == "branch":
        return list(node.params["branches"])
    return [node.params[name] for name in ("cond", "body") if name in node.params]


def has_effects(node: Node) -> bool:
    """True for an effect, and for a loop or choice with one inside."""
    return node.op.kind == "effect" or any(graph.effects for graph in subgraphs(node))


def size_names(value: Any) -> frozenset[str]:
    """The names of sizes in a shape or a parameter, however nested."""
    if isinstance(value, sizes.Size):
        return sizes.names(value)
    if isinstance(value, tuple):
        return frozenset().union(*map(size_names, value))
    if isinstance(value, Graph):
        inside = [size_names((n.type.shape, *n.params.values())) for n in (*value.inputs, *value.nodes())]
        checked = size_names(tuple((a, b) for _, a, b, *_ in value.checks))
        return checked.union(*inside) - value.measured.keys()
    return frozenset()


def topological(outputs: Iterable[Node]) -> list[Node]:
    """All nodes that `outputs` need, operands first; what measures a size comes before all that mention it."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, Iterator[Node]]] = []
    for output in outputs:
        if output.number in seen:
            continue
        seen.add(output.number)
        stack.append((output, iter(output.measures + output.operands)))
        while stack:
            node, rest = stack[-1]
            for operand in rest:
                if operand.number not in seen:
                    seen.add(operand.number)
                    stack.append((operand, iter(operand.measures + operand.operands)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def infer(op: Op, operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    """The type of `op(*operands, **params)`."""
    if op.kind == "elementwise":
        shape = operands[0].shape
        return ArrayType(elementwise_dtype(op, tuple(o.dtype for o in operands), params), shape)
    rule = _RULES.get(op.name)
    if rule is None:
        raise VerifyError(f"op {op.name} needs an explicit type")
    return rule(operands, params)


def elementwise_dtype(op: Op, dtypes: tuple[np.dtype, ...], params: Mapping[str, Any]) -> np.dtype:
    """The result dtype of an element-wise op on operands that already have a loop's exact dtypes."""
    if op.name == "cast":
        target: np.dtype = np.dtype(params["dtype"])
        return target
    if op.name == "where":
        return dtypes[1]
    if op.name == "guard":
        return dtypes[0]
    if op.name == "philox":
        return np.dtype(np.uint64)
    if op.name in ("real", "imag"):
        return np.dtype(np.zeros((), dtypes[0]).real.dtype)
    if op.name == "complex":
        return np.dtype(np.result_type(dtypes[0], np.complex64))
    return _ufunc_result(op.ufunc, dtypes)


@lru_cache(maxsize=4096)
def _ufunc_result(ufunc: Any, dtypes: tuple[np.dtype, ...]) -> np.dtype:
    resolved: np.dtype = ufunc.resolve_dtypes((*dtypes, None))[-1]
    return resolved


def _drop_axes(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    x = operands[0]
    axes = params["axes"]
    return ArrayType(x.dtype, tuple(s for a, s in enumerate(x.shape) if a not in axes))


def _drop_axis_int64(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    x = operands[0]
    return ArrayType(np.dtype(np.int64), tuple(s for a, s in enumerate(x.shape) if a != params["axis"]))


def _same(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    return ArrayType(operands[0].dtype, operands[0].shape)


def _concat(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    axis = params["axis"]
    total: Dim = 0
    for operand in operands:
        total = total + operand.shape[axis]
    shape = list(operands[0].shape)
    shape[axis] = total
    return ArrayType(operands[0].dtype, tuple(shape))


def _with_shape(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    return ArrayType(operands[0].dtype, params["shape"])


def _int64_scalar(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    return ArrayType(np.dtype(np.int64), (), True)


def _iota(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    return ArrayType(np.dtype(np.int64), (params["length"],))


def _count(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    blocks = sizes.floordiv(operands[0].type.size + (COUNT_BLOCK - 1), COUNT_BLOCK)
    return ArrayType(np.dtype(np.int64), (blocks + 1,))


def _measure(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    return ArrayType(np.dtype(np.int64), ())


def _matmul(operands: tuple[Node, ...], params: Mapping[str, Any]) -> ArrayType:
    a, b = operands
    return ArrayType(a.dtype, (*a.shape[:-1], b.shape[-1]))


_RULES = {
    "sum": _drop_axes, "prod": _drop_axes, "max": _drop_axes, "min": _drop_axes, "any": _drop_axes, "all": _drop_axes,
    "argmax": _drop_axis_int64, "argmin": _drop_axis_int64,
    "cumsum": _same, "cumprod": _same, "update": _same, "put": _same, "concat": _concat,
    "view": _with_shape, "reshape": _with_shape, "gather": _with_shape,
    "size": _int64_scalar, "iota": _iota, "matmul": _matmul, "count": _count, "measure": _measure, "positions": _iota,
}  # fmt: skip
