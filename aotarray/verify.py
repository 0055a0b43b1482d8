"""What is legal in a graph: operands, dtypes, shapes and parameters of every kind of op, at each stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import sizes
from .errors import VerifyError
from .graph import Graph, Node, axis_name, elementwise_dtype, has_effects, infer, size_names, subgraphs
from .ops import OPS
from .sizes import Dim
from .types import ArrayType, is_supported

_RELATIONS = ("eq", "ne", "ge")


def verify(graph: Graph, simplified: bool = False, names: frozenset[str] = frozenset()) -> Graph:
    """The graph itself, after checking every rule; VerifyError names the node and the rule it breaks.

    `simplified` adds what holds once the passes have run: no view of a view, no op that does nothing, equal nodes are
    one object (each body of a loop or choice makes its own while it is traced). `names` are
    the sizes that a graph inside another one knows from there.
    """
    known = _size_names(graph) | names | graph.measured.keys()
    seen: dict[Any, Node] = {}
    live: set[int] = set()
    for node in graph.nodes():
        for operand in node.operands:
            _check(node, operand.number in live, f"operand %{operand.number} comes after its user")
        live.add(node.number)
        _check(node, OPS.get(node.op.name) is node.op, "its op is not the op table's")
        _check(
            node,
            node.op.arity in (None, len(node.operands)),
            f"{node.op.name} takes {node.op.arity} operands",
        )
        _check(
            node, is_supported(node.dtype) and node.dtype.isnative, f"dtype {node.dtype} cannot be compiled"
        )
        for dim in node.shape:
            _check(node, not isinstance(dim, int) or dim >= 0, f"size {dim} is negative")
            _check(node, sizes.names(dim) <= known, f"size {dim} has a name that no argument defines")
        key = (
            node.op.name,
            tuple(o.number for o in node.operands),
            tuple(sorted(node.params.items())),
            node.type,
        )
        _check(
            node,
            not simplified or key not in seen,
            f"it equals %{seen[key].number if key in seen else ''}: equal nodes are one object",
        )
        seen[key] = node
        _KINDS[node.op.kind](node, graph, known)
        measured = size_names((node.shape, *node.params.values())) & graph.measured.keys()
        _check(
            node,
            all(graph.measured[n] in node.measures and graph.measured[n].number in live for n in measured),
            "it mentions a size before that is measured",
        )
        for inner in subgraphs(node):
            verify(inner, simplified, known)
        if simplified:
            _verify_simplified(node)
    _verify_interface(graph, known)
    return graph


def _check(node: Node, holds: bool, message: str) -> None:
    if not holds:
        where = f" ({node.where})" if node.where.line else ""
        raise VerifyError(f"{node!r}{where}: {message}")


def _size_names(graph: Graph) -> frozenset[str]:
    return frozenset(n for node in graph.inputs for dim in node.shape for n in sizes.names(dim))


def _measured_inside(graph: Graph) -> frozenset[str]:
    """The sizes that are measured in loops and choices."""
    inner = [g for node in graph.nodes() for g in subgraphs(node)]
    return frozenset().union(*(_measured_inside(g) | g.measured.keys() for g in inner))


def _verify_interface(graph: Graph, known: frozenset[str]) -> None:
    if len(graph.inputs) != len(graph.input_names):
        raise VerifyError(f"{graph.name}: {len(graph.inputs)} inputs but {len(graph.input_names)} names")
    for index, node in enumerate(graph.inputs):
        _check(node, node.op.name == "input" and node.params == {"index": index}, f"it is not input {index}")
    live = graph.nodes()
    for node in live:
        _check(node, has_effects(node) == (node in graph.effects), "it is among effects just if it has any")
    for relation, a, b, *_ in graph.checks:
        if relation not in _RELATIONS:
            raise VerifyError(f"{graph.name}: no relation {relation} of sizes")
        if not sizes.names(a) | sizes.names(b) <= known | _measured_inside(graph):
            raise VerifyError(f"{graph.name}: the check of {a} and {b} has a name that no argument defines")


def _verify_simplified(node: Node) -> None:
    names = [o.op.name for o in node.operands]
    if node.op.name in ("view", "reshape"):
        _check(node, names != [node.op.name], f"a {node.op.name} of a {node.op.name} is one {node.op.name}")
    if node.op.name == "cast" and "copy" not in node.params:
        _check(node, node.operands[0].dtype != node.dtype, "a cast to the same dtype does nothing")
    _check(node, node.op.name != "positive", "positive does nothing")


# -- kinds ------------------------------------------------------------------------------------------
def _leaf(node: Node, graph: Graph, known: frozenset[str]) -> None:
    name = node.op.name
    if name == "input":
        index = node.params["index"]
        _check(
            node,
            index < len(graph.inputs) and graph.inputs[index] is node,
            f"it is not input {index} of the graph",
        )
    elif name == "literal":
        _check(
            node,
            len(node.params["bytes"]) == node.dtype.itemsize and not node.shape,
            "a literal is one scalar",
        )
    elif name == "constant":
        array = graph.constants[node.params["index"]]
        _check(node, (array.dtype, array.shape) == (node.dtype, node.shape), "its array has another type")
    elif name == "size":
        _check(
            node, sizes.names(node.params["value"]) <= known, "its size has a name that no argument defines"
        )
        _check(node, node.dtype == np.int64 and not node.shape, "a size is an int64 scalar")
    elif name == "iota":
        _check(
            node,
            node.shape == (node.params["length"],) and node.dtype.kind == "i",
            "an iota is a vector of its length",
        )
    elif name == "parameter":
        _check(node, False, "a parameter belongs to a body that is being traced")


def _elementwise(node: Node, graph: Graph, known: frozenset[str]) -> None:
    dtypes = tuple(o.dtype for o in node.operands)
    for operand in node.operands:
        _check(
            node,
            operand.shape == node.shape,
            f"operand %{operand.number} has shape {operand.type}: all shapes are equal",
        )
    _check(node, elementwise_dtype(node.op, dtypes, node.params) == node.dtype, "its dtype is not its op's")
    if node.op.name == "where":
        _check(node, dtypes[0] == np.bool_, "the condition is not bool")
        _check(node, dtypes[1] == dtypes[2], "both values have one dtype")
    elif node.op.name == "guard":
        _check(node, dtypes[1] == np.bool_, "the condition is not bool")
        _check(node, {"exception", "message"} <= set(node.params), "it does not say what to raise")
    elif node.op.name == "complex":
        _check(node, dtypes[0] == dtypes[1] and dtypes[0].kind == "f", "both parts are floats of one dtype")
    elif isinstance(node.op.ufunc, np.ufunc):
        loop = node.op.ufunc.resolve_dtypes((*dtypes, None))[: len(dtypes)]
        _check(node, loop == dtypes, f"no loop of {node.op.name} takes {', '.join(map(str, dtypes))}")


def _view(node: Node, graph: Graph, known: frozenset[str]) -> None:
    (operand,) = node.operands
    index: tuple[Dim, ...] = node.params["map"]
    axes = {axis_name(a) for a in range(len(node.shape))}
    _check(node, node.params["shape"] == node.shape, "its shape is not its parameter's")
    _check(node, operand.dtype == node.dtype, "a view keeps the dtype")
    _check(
        node,
        len(index) == len(operand.shape),
        f"its map has {len(index)} indices for rank {len(operand.shape)}",
    )
    for dim, extent in zip(index, operand.shape, strict=True):
        _check(
            node, sizes.names(dim) <= axes | known, f"index {dim} has a name that is neither axis nor size"
        )
        _check(node, _is_affine(dim, axes), f"index {dim} is neither affine nor clamped")
        _inside(node, dim, extent)


def _is_affine(index: Dim, axes: set[str]) -> bool:
    """True for sums of axes times sizes, and the smaller or larger of two such."""
    if isinstance(index, int):
        return True
    for monomial, _ in index.terms:
        moving = [a for a in monomial if (a in axes if isinstance(a, str) else _moves(a.args, axes))]
        clamped = (
            isinstance(a, str) or (a.name in ("min", "max") and all(_is_affine(d, axes) for d in a.args))
            for a in moving
        )
        if len(moving) > 1 or not all(clamped):
            return False
    return True


def _moves(dims: tuple[Dim, ...], axes: set[str]) -> bool:
    return any(sizes.names(d) & axes for d in dims)


def _inside(node: Node, index: Dim, extent: Dim) -> None:
    """Where everything is a number: the index stays in the operand."""
    if not isinstance(extent, int) or not all(isinstance(d, int) and d > 0 for d in node.shape):
        return
    first = sizes.substitute(index, {axis_name(a): 0 for a in range(len(node.shape))})
    low = high = first
    for a, length in enumerate(node.shape):
        step = sizes.linear_coefficient(index, axis_name(a))
        if not (
            isinstance(low, int)
            and isinstance(high, int)
            and isinstance(step, int)
            and isinstance(length, int)
        ):
            return
        low, high = low + min(step * (length - 1), 0), high + max(step * (length - 1), 0)
    if isinstance(low, int) and isinstance(high, int):
        _check(node, low >= 0 and high < extent, f"index {index} leaves the {extent} elements of its operand")


def _reshape(node: Node, graph: Graph, known: frozenset[str]) -> None:
    (operand,) = node.operands
    _check(node, operand.dtype == node.dtype, "a reshape keeps the dtype")
    before, after = operand.type.size, node.type.size
    _check(
        node,
        before == after or not (isinstance(before, int) and isinstance(after, int)),
        "a reshape keeps the size",
    )


def _axes(node: Node) -> tuple[int, ...]:
    axes: tuple[int, ...] = node.params["axes"]
    rank = len(node.operands[0].shape)
    _check(
        node,
        axes == tuple(sorted(set(axes))) and all(0 <= a < rank for a in axes),
        f"axes {axes} are not sorted axes of rank {rank}",
    )
    return axes


def _reduce(node: Node, graph: Graph, known: frozenset[str]) -> None:
    (operand,) = node.operands
    axes = _axes(node)
    _check(node, bool(axes), "it folds no axis")
    _check(node, node.dtype == operand.dtype, "it has the dtype of its operand, which is the accumulator's")
    _check(node, node.op.name not in ("any", "all") or node.dtype == np.bool_, "any and all fold bools")
    kept = tuple(d for a, d in enumerate(operand.shape) if a not in axes)
    _check(node, node.shape == kept, "its shape is that of its operand without the axes")


def _argreduce(node: Node, graph: Graph, known: frozenset[str]) -> None:
    (operand,) = node.operands
    axis = _axis(node)
    _check(node, node.dtype == np.int64, "a position is an int64")
    _check(
        node,
        node.shape == operand.shape[:axis] + operand.shape[axis + 1 :],
        "its shape is that of its operand without the axis",
    )


def _axis(node: Node) -> int:
    axis: int = node.params["axis"]
    _check(node, 0 <= axis < len(node.operands[0].shape), f"there is no axis {axis}")
    return axis


def _scan(node: Node, graph: Graph, known: frozenset[str]) -> None:
    _axis(node)
    (operand,) = node.operands
    _check(
        node,
        (node.dtype, node.shape) == (operand.dtype, operand.shape),
        "a running fold has the type of its operand",
    )


def _gather(node: Node, graph: Graph, known: frozenset[str]) -> None:
    x, *indices = node.operands
    axes = _axes(node)
    position = node.params["position"]
    _check(node, len(indices) == len(axes) > 0, "it takes one index array for each gathered axis")
    for index in indices:
        _check(
            node,
            index.dtype == np.int64 and index.shape == indices[0].shape,
            "index arrays are int64 of one shape",
        )
    rest = tuple(d for a, d in enumerate(x.shape) if a not in axes)
    _check(node, 0 <= position <= len(rest), f"there is no position {position}")
    _check(
        node,
        node.shape == rest[:position] + indices[0].shape + rest[position:],
        "its shape is not its operands'",
    )
    _check(node, node.dtype == x.dtype, "a gather keeps the dtype")


def _concat(node: Node, graph: Graph, known: frozenset[str]) -> None:
    axis = _axis(node)
    total: Dim = 0
    for operand in node.operands:
        _check(node, operand.dtype == node.dtype, "all pieces have its dtype")
        _check(node, len(operand.shape) == len(node.shape), "all pieces have its rank")
        total = total + operand.shape[axis]
        for a, (d, e) in enumerate(zip(operand.shape, node.shape, strict=True)):
            both = isinstance(d, int) and isinstance(e, int)
            _check(node, a == axis or d == e or not both, "all pieces have its sizes along the other axes")
    _check(node, node.shape[axis] == total, "its size along the axis is the sum of its pieces'")


def _update(node: Node, graph: Graph, known: frozenset[str]) -> None:
    base, value = node.operands
    region = node.params["region"]
    _check(node, (node.dtype, node.shape) == (base.dtype, base.shape), "an update has the type of its base")
    _check(node, value.dtype == base.dtype, "the value has the dtype of the base")
    _check(node, len(region) == len(base.shape), "its region has one entry for each axis of the base")
    used = [axis for *_, axis in region if axis is not None]
    _check(node, len(set(used)) == len(used), "an axis of the value moves along one axis of the base")
    for start, step, length, axis in region:
        _check(
            node,
            sizes.names(start) | sizes.names(length) <= known,
            "its region has a name that no argument defines",
        )
        if axis is not None:
            _check(node, isinstance(step, int) and step != 0, "the step of a region is a non-zero int")
            _check(
                node,
                value.shape[axis] == length,
                f"the region has {length} elements where the value has {value.shape[axis]}",
            )
    _check(
        node,
        all(d == 1 for a, d in enumerate(value.shape) if a not in used),
        "an axis of the value moves nowhere",
    )


def _put(node: Node, graph: Graph, known: frozenset[str]) -> None:
    base, value, *positions = node.operands
    axes = _axes(node)
    _check(node, (node.dtype, node.shape) == (base.dtype, base.shape), "a put has the type of its base")
    _check(node, value.dtype == base.dtype, "the value has the dtype of the base")
    rest = tuple(d for a, d in enumerate(base.shape) if a not in axes)
    _check(node, value.shape == rest, "the shape of the value is that of the base without the axes")
    _check(node, len(positions) == len(axes) > 0, "it takes one position for each axis")
    _check(node, _types(positions) == [(np.dtype(np.int64), ())] * len(axes), "positions are int64 scalars")


def _count(node: Node, graph: Graph, known: frozenset[str]) -> None:
    (mask,) = node.operands
    _check(
        node, mask.dtype == np.bool_ and len(mask.shape) > 0, "it counts the true elements of a bool array"
    )
    _check(
        node,
        node.type == infer(node.op, node.operands, node.params),
        "it has a number for each block, and in all",
    )


def _measure(node: Node, graph: Graph, known: frozenset[str]) -> None:
    (value,) = node.operands
    scalar = value.dtype == np.int64 and (not value.shape or value.op.name == "count")
    _check(node, scalar, "a size is an int64 scalar, or what is counted")
    _check(node, graph.measured.get(node.params["name"]) is node, "its name is that of another size")


def _positions(node: Node, graph: Graph, known: frozenset[str]) -> None:
    mask, counts = node.operands
    _check(node, counts.op.name == "count" and counts.operands == (mask,), "it is told how many there are")
    _check(node, 0 <= node.params["axis"] < len(mask.shape), f"there is no axis {node.params['axis']}")
    length = graph.measured.get(str(node.params["length"]))
    _check(node, length is None or length.operands == (counts,), "its length is how many there are")
    _check(
        node, node.type == infer(node.op, node.operands, node.params), "it has an int64 for each true element"
    )


def _library(node: Node, graph: Graph, known: frozenset[str]) -> None:
    if node.op.name != "call":
        same = len({o.dtype for o in node.operands} | {node.dtype}) == 1
        _check(node, same, "operands and result have one dtype")
        return
    routine, result = node.params["routine"], node.params["result"]
    for value in routine.values():
        inside = value[0] != "operand" or 0 <= value[1] < len(node.operands)
        _check(node, inside, f"{routine.name} has no operand {value[1:]}")
        named = value[0] != "size" or sizes.names(value[1]) <= known
        _check(node, named, f"{routine.name} takes a size with a name that no argument defines")
    _check(node, routine.base < len(node.operands), f"{routine.name} has no operand {routine.base}")
    _check(node, result == 0 or routine.returns == "several", f"{routine.name} has no result {result}")
    if routine.base >= 0:
        base = node.operands[routine.base]
        _check(
            node, (base.dtype, base.shape) == (node.dtype, node.shape), "it has the type of what it changes"
        )


def _effect(node: Node, graph: Graph, known: frozenset[str]) -> None:
    _check(node, node in graph.effects, "it is not among the effects of its graph")
    _check(node, node.type == ArrayType(np.dtype(bool), ()), "an effect has the type of nothing")
    if node.op.name == "check":
        fine = len(node.operands) > 0 and _types(node.operands[:1]) == [(np.dtype(bool), ())]
        _check(node, fine, "it checks a bool scalar")


def _control(node: Node, graph: Graph, known: frozenset[str]) -> None:
    name, types = node.op.name, [(o.dtype, o.shape) for o in node.operands]
    if name == "branch":
        _check(
            node, len(types) > 0 and types[0] == (np.dtype(np.int64), ()), "it is chosen by an int64 scalar"
        )
        for branch in node.params["branches"]:
            _takes(node, branch, types[1:])
            _check(
                node, _types(branch.outputs) == _types(node.params["branches"][0].outputs), "branches differ"
            )
        return
    count: int = node.params["carried"]
    body: Graph = node.params["body"]
    if name == "while":
        _check(
            node, _types(node.params["cond"].outputs) == [(np.dtype(bool), ())], "its condition is no bool"
        )
        _takes(node, node.params["cond"], types)
        _takes(node, body, types)
        _check(node, _types(body.outputs) == types[:count], "a step changes the types of what is carried")
        return
    index = (np.dtype(np.int64), ())
    sliced = node.params["sliced"]
    _check(node, types[:2] == [index, index], "its bounds are int64 scalars")
    state, arrays, others = types[2 : 2 + count], types[2 + count :][:sliced], types[2 + count + sliced :]
    _check(node, all(len(shape) > 0 for _, shape in arrays), "what it goes along has an axis")
    _takes(node, body, [index, *state, *((dtype, shape[1:]) for dtype, shape in arrays), *others])
    _check(node, _types(body.outputs)[:count] == state, "a step changes the types of what is carried")


def _takes(node: Node, graph: Graph, types: list[tuple[np.dtype, tuple[Dim, ...]]]) -> None:
    _check(node, _types(graph.inputs) == types, "the inputs of a graph inside are not what it is given")


def _types(nodes: Sequence[Node]) -> list[tuple[np.dtype, tuple[Dim, ...]]]:
    return [(n.dtype, n.shape) for n in nodes]


def _result(node: Node, graph: Graph, known: frozenset[str]) -> None:
    (made,) = node.operands
    _check(node, made.op.kind == "control", "it is the result of a loop or a choice")
    index: int = node.params["index"]
    if made.op.name == "branch":
        expected = _types(made.params["branches"][0].outputs)
    else:
        first, count = 2 if made.op.name == "loop" else 0, made.params["carried"]
        expected = _types(made.operands[first : first + count])
        if made.op.name == "loop":
            length = made.params["length"]
            expected += [(o.dtype, (length, *o.shape)) for o in made.params["body"].outputs[count:]]
    _check(node, 0 <= index < len(expected), f"there is no result {index}")
    _check(node, (node.dtype, node.shape) == expected[index], "its type is not that of the result")


_KINDS: dict[str, Callable[[Node, Graph, frozenset[str]], None]] = {
    "leaf": _leaf, "elementwise": _elementwise, "view": _view, "reshape": _reshape, "reduce": _reduce,
    "argreduce": _argreduce, "scan": _scan, "gather": _gather, "concat": _concat, "update": _update, "put": _put,
    "library": _library, "control": _control, "result": _result, "effect": _effect,
    "count": _count, "measure": _measure, "positions": _positions,
}  # fmt: skip
