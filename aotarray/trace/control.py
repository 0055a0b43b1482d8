"""Loops and choices: `cond`, `switch`, `while_loop`, `fori_loop`, `scan`, `map`.

A body is traced once, into the graph of the whole function, with parameters in place of what it is given.
`bodies.py` then takes what depends on them out, as a graph of its own.

In plain Python, outside of any trace, the functions run as they read (`eager.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError
from ..graph import Node, SourceLine
from ..sizes import Dim
from ..types import ArrayType
from . import bodies, eager, promote
from .bodies import Body
from .context import Trace, active, here
from .size_value import SizeValue, wrap
from .tracer import Tracer
from .trees import Structure, flatten, leaf_names

COUNT = ArrayType(np.dtype(np.int64), (), True)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`; only that one runs.

    `pred` is a scalar. Both functions return arrays and numbers of the same dtypes and shapes, nested alike;
    a Python number becomes what the other function returns in its place.

    Raises TraceError, with the line, when the results differ.

    >>> import aotarray
    >>> aotarray.cond(True, lambda x: x + 1, lambda x: x - 1, 10)
    11
    """
    trace = active()
    if trace is None or (isinstance(pred, (bool, np.bool_)) and not getattr(pred, "_is_tracer", False)):
        return eager.choose(true_fn if pred else false_fn, operands)
    node = _scalar(trace, pred, "cond", "the condition")
    index = promote.cast(trace, promote.cast(trace, node, np.dtype(bool)), promote.INT64)
    return _choose(trace, "cond", index, (false_fn, true_fn), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`; an index that is too small or too large chooses the first or the last.

    `index` is an integer scalar. All functions return arrays and numbers of the same dtypes and shapes, nested alike.

    Raises TraceError, with the line, when the results differ.

    >>> import aotarray
    >>> aotarray.switch(5, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], 7)
    21
    """
    if not branches:
        raise TraceError(f"{here()}: switch: there is no branch to choose")
    trace = active()
    if trace is None or (isinstance(index, (int, np.integer)) and not promote.is_traced(index)):
        return eager.choose(branches[min(max(int(index), 0), len(branches) - 1)], operands)
    node = _integer(trace, index, "switch", "the index")
    return _choose(trace, "switch", node, tuple(branches), operands)


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """`carry = init`, then `carry = body_fn(carry)` while `cond_fn(carry)` holds; the last carry.

    `init` is an array, a number, or any tree of them; the body returns the same tree with the same dtypes and
    shapes. A Python number in `init` takes the dtype that the body returns for it. Traced values that the functions
    use from outside stay the same in all steps.

    Raises TraceError, with the line and the name of the leaf, when the body changes a type.

    >>> import aotarray
    >>> aotarray.while_loop(lambda x: x < 100, lambda x: x * 3, 1)
    243
    """
    trace = active()
    if trace is None:
        return eager.while_loop(cond_fn, body_fn, init)
    carry = _Carry(trace, "while_loop", init)

    def step(values: Sequence[Tracer]) -> Any:
        return body_fn(carry.structure.rebuild(iter(values)))

    def condition(values: Sequence[Tracer]) -> Any:
        return cond_fn(carry.structure.rebuild(iter(values)))

    body = carry.settle(step)
    test = bodies.run(trace, [n.type for n in carry.nodes], condition)
    if test.structure.kind != "leaf" or test.outputs[0].shape:
        shown = test.outputs[0].type if test.structure.kind == "leaf" else _shown(test.structure)
        raise TraceError(
            f"{test.where}: while_loop: the condition is {shown}, and must be a scalar; reduce it with .any() or .all()"
        )
    test.outputs = [promote.cast(trace, test.outputs[0], np.dtype(bool))]
    test.same = carry.same(test.parameters)
    outs, captured = bodies.extract(trace, [test, body])
    return carry.finish("while", [], captured, body.where, cond=outs[0], body=outs[1])


def fori_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """`carry = init`, then `carry = body_fn(i, carry)` for i from `lower` to `upper - 1`; the last carry.

    The bounds are ints, sizes or integer scalars, and may be known at run time only; `i` counts as a Python int.
    What `while_loop` says of `init` and of what the body returns holds here too.

    >>> import aotarray
    >>> aotarray.fori_loop(0, 5, lambda i, total: total + i, 0)
    10
    """
    trace = active()
    if trace is None:
        return eager.fori_loop(lower, upper, body_fn, init)
    carry = _Carry(trace, "fori_loop", init)
    bounds = [_integer(trace, b, "fori_loop", "a bound") for b in (lower, upper)]

    def step(values: Sequence[Tracer]) -> Any:
        return body_fn(values[0], carry.structure.rebuild(iter(values[1:])))

    body = carry.settle(step, [COUNT])
    (out,), captured = bodies.extract(trace, [body])
    return carry.finish("loop", bounds, captured, body.where, body=out, sliced=0, length=0, reverse=False)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: Any = None, reverse: bool = False
) -> tuple[Any, Any]:
    """`carry, y = f(carry, x)` for each x along the first axis of `xs`; the last carry, and all y stacked.

    `xs` is an array or a tree of arrays with one length of their first axis, or None with `length` given. `reverse`
    goes from the last x to the first; the y of an x keeps its place. What `while_loop` says of `init` holds here too.

    >>> import numpy as np, aotarray
    >>> total, running = aotarray.scan(lambda s, x: (s + x, s + x), 0.0, np.array([1.0, 2.0, 3.0]))
    >>> float(total), running.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    trace = active()
    if trace is None:
        return eager.scan(f, init, xs, length, reverse)
    carry = _Carry(trace, "scan", init)
    leaves: list[Any] = []
    rows = flatten(xs, leaves)
    arrays = [promote.node_of(trace, v) for v in leaves]
    extent = _length(trace, arrays, leaf_names(rows, "xs"), length)
    bounds = [promote.cast(trace, promote.node_of(trace, b), promote.INT64) for b in (0, wrap(extent, trace))]
    row_types = [ArrayType(a.dtype, a.shape[1:]) for a in arrays]

    def step(values: Sequence[Tracer]) -> Any:
        count = len(carry.nodes)
        state = carry.structure.rebuild(iter(values[1 : 1 + count]))
        result = f(state, rows.rebuild(iter(values[1 + count :])))
        if not isinstance(result, tuple) or len(result) != 2:
            raise TraceError(f"{here()}: scan: the function must return a pair (carry, y)")
        return result

    body = carry.settle(step, [COUNT], row_types, paired=True)
    for n in body.outputs[len(carry.kept) :]:
        if bodies.measures_inside(trace, body, n.shape):
            raise TraceError(
                f"{body.where}: scan: y is {n.type}, whose size depends on values and differs from step to step: it "
                f"cannot be stacked; let it be of one size (np.where), or reduce it"
            )
    (out,), captured = bodies.extract(trace, [body])
    stacks = [ArrayType(n.dtype, (extent, *n.shape)) for n in body.outputs[len(carry.kept) :]]
    result: tuple[Any, Any] = carry.finish(
        "loop", bounds, [*arrays, *captured], body.where, stacks,
        body=out, sliced=len(arrays), length=extent, reverse=bool(reverse),
    )  # fmt: skip
    return result


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """`f(x)` for each x along the first axis of `xs` (an array, or a tree of arrays), stacked.

    One x at a time, in order: where NumPy's own functions do the same for all at once, they are faster.

    >>> import numpy as np, aotarray
    >>> aotarray.map(lambda x: x.sum(), np.ones((2, 3))).tolist()
    [3.0, 3.0]
    """
    return scan(lambda carry, x: ((), f(x)), (), xs)[1]


# -- what is carried ------------------------------------------------------------------------------
class _Carry:
    """The values that a loop carries: how they nest, their names, and the nodes they start from."""

    def __init__(self, trace: Trace, what: str, init: Any) -> None:
        leaves: list[Any] = []
        self.trace, self.what = trace, what
        self.structure = flatten(init, leaves)
        self.names = leaf_names(self.structure, "carry")
        self.nodes = [promote.node_of(trace, v) for v in leaves]
        self.found = self.structure  # how what the body returns nests
        self.kept: list[int] = []  # the leaves that a step changes

    def settle(
        self, step: Callable[[Sequence[Tracer]], Any], first: Sequence[ArrayType] = (), last: Sequence[ArrayType] = (),
        paired: bool = False,
    ) -> Body:  # fmt: skip
        """The body, traced with types that it keeps: again where a Python number takes another dtype."""
        while True:
            body = bodies.run(self.trace, [*first, *(n.type for n in self.nodes), *last], step)
            self.found = body.structure
            inner = body.structure.children[0] if paired else body.structure
            if inner != self.structure:
                raise TraceError(
                    f"{body.where}: {self.what}: the body returns {_shown(inner)} where it is given "
                    f"{_shown(self.structure)}; return the carry nested as it came"
                )
            if not self._adapt(body):
                break
        count = len(self.nodes)
        mine = body.parameters[len(first) : len(first) + count]
        self.kept = [k for k in range(count) if body.outputs[k] is not mine[k]]
        body.outputs = [*(body.outputs[k] for k in self.kept), *body.outputs[count:]]
        body.same = self.same(mine)
        return body

    def same(self, parameters: Sequence[Node]) -> dict[int, Node]:
        """The parameters that stand for what no step changes, and what that is."""
        return {p.number: n for k, (p, n) in enumerate(zip(parameters, self.nodes, strict=True)) if k not in self.kept}

    def _adapt(self, body: Body) -> bool:
        """Make outputs have the types of what is carried; True when what is carried changed instead."""
        changed = False
        for k, name in enumerate(self.names):
            node, out = self.nodes[k], body.outputs[k]
            weaker = "bifc".index(kind_of(out)) <= "bifc".index(kind_of(node))
            if node.type.weak and not out.shape and (node.dtype != out.dtype or not out.type.weak):
                self.nodes[k] = promote.cast(self.trace, node, out.dtype)
                if out.type.weak:
                    self.nodes[k] = promote.weakened(self.trace, self.nodes[k])
                changed = True
            elif out.type.weak and not node.type.weak and not node.shape and weaker:
                body.outputs[k] = promote.cast(self.trace, out, node.dtype)
            elif node.dtype != out.dtype or not fits(self.trace, node.shape, out.shape):
                way = f"convert it with astype(np.{node.dtype})" if node.shape == out.shape else "keep its shape"
                raise TraceError(
                    f"{body.where}: {self.what}: {name} is {node.type} before a step and {out.type} after it; what a "
                    f"loop carries keeps its type: {way}, or start from what the body returns"
                )
            elif node.shape != out.shape:
                body.outputs[k] = bodies.seen_as(self.trace, out, node.shape)
        return changed

    def finish(
        self, op: str, bounds: list[Node], rest: Sequence[Node], where: SourceLine, stacks: Sequence[ArrayType] = (),
        **params: Any,
    ) -> Any:  # fmt: skip
        """The loop's node, and its results nested as the body returns them."""
        carried = [self.nodes[k] for k in self.kept]
        made = bodies.record(self.trace, op, [*bounds, *carried, *rest], where, carried=len(carried), **params)
        new = results(self.trace, made, [*(n.type for n in carried), *stacks])
        values = [next(new) if k in self.kept else Tracer.of(self.trace, n) for k, n in enumerate(self.nodes)]
        return self.found.rebuild(iter([*values, *new]))


def results(trace: Trace, made: Node, types: Sequence[ArrayType]) -> Iterator[Tracer]:
    """The values of a loop or a choice."""
    for k, kind in enumerate(types):
        yield Tracer.of(trace, trace.graph.apply("result", (made,), made.where, kind, index=k))


def kind_of(node: Node) -> str:
    return "i" if node.dtype.kind == "u" else node.dtype.kind


def fits(trace: Trace, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """True where two shapes are one: provably, or as a check when the program starts."""
    if len(a) != len(b):
        return False
    for d, e in zip(a, b, strict=True):
        if d == e:
            continue
        known = trace.hint(d), trace.hint(e)
        if trace.is_measured(d) or trace.is_measured(e):
            return False
        if (isinstance(d, int) and isinstance(e, int)) or (None not in known and known[0] != known[1]):
            return False
        trace.same(d, e, "what a loop carries keeps its shape")
    return True


def _shown(structure: Structure) -> str:
    """A structure as the reader would write it."""
    if structure.kind == "leaf":
        return "an array"
    if structure.kind == "none":
        return "None"
    inner = ", ".join(_shown(c) for c in structure.children)
    if structure.kind == "dict":
        pairs = zip(structure.key, structure.children, strict=True)
        return "{" + ", ".join(f"{k!r}: {_shown(c)}" for k, c in pairs) + "}"
    if structure.kind == "list":
        return f"[{inner}]"
    name = structure.key[0].__name__ if structure.kind == "object" else ""
    return f"{name}({inner}{',' if len(structure.children) == 1 and not name else ''})"


# -- scalars and lengths ----------------------------------------------------------------------------
def _scalar(trace: Trace, value: Any, what: str, name: str) -> Node:
    node = promote.node_of(trace, value)
    if node.shape:
        raise TraceError(
            f"{here()}: {what}: {name} is {node.type}, and must be a scalar; reduce it with .any() or .all()"
        )
    return node


def _integer(trace: Trace, value: Any, what: str, name: str) -> Node:
    node = promote.node_of(trace, value)
    if node.shape or node.dtype.kind not in "iu":
        raise TraceError(f"{here()}: {what}: {name} is {node.type}, and must be an integer scalar")
    return promote.cast(trace, node, promote.INT64)


def _length(trace: Trace, arrays: Sequence[Node], names: Sequence[str], length: Any) -> Dim:
    """The common length of first axes."""
    found: Dim | None = None
    if length is not None:
        if getattr(length, "_is_tracer", False):
            raise TraceError(
                f"{here()}: scan: length is a traced value; it must be an int or a size, because results get that "
                f"length; use fori_loop where nothing is stacked"
            )
        found = length.dim if isinstance(length, SizeValue) else int(length)
    for array, name in zip(arrays, names, strict=True):
        if not array.shape:
            raise TraceError(f"{here()}: scan: {name} is {array.type}, which has no axis to go along")
        found = array.shape[0] if found is None else trace.same(found, array.shape[0], f"scan along {name}")
    if found is None:
        raise TraceError(f"{here()}: scan: give arrays to go along (xs), or a length")
    return found


# -- choices ----------------------------------------------------------------------------------------
def _choose(
    trace: Trace, what: str, index: Node, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    """One of several functions, called with the operands."""
    start = trace.graph.made
    leaves: list[Any] = []
    nest = flatten(tuple(operands), leaves)
    nodes = [promote.node_of(trace, v) for v in leaves]
    where = here()
    found: list[Body] = []
    for function in functions:

        def call(values: Sequence[Tracer], function: Callable[..., Any] = function) -> Any:
            return function(*nest.rebuild(Tracer.of(trace, n) for n in nodes))

        found.append(bodies.run(trace, [], call))
    first = found[0].structure
    for body in found[1:]:
        if body.structure != first:
            raise TraceError(
                f"{where}: {what}: one function returns {_shown(first)}, another {_shown(body.structure)}; all must "
                f"return the same"
            )
    for k, name in enumerate(leaf_names(first, "result")):
        _unify(trace, what, where, name, k, found)
    outs, captured = bodies.extract(trace, found, start)
    made = bodies.record(trace, "branch", [index, *captured], where, branches=tuple(outs))
    return first.rebuild(results(trace, made, [n.type for n in found[0].outputs]))


def _unify(trace: Trace, what: str, where: Any, name: str, k: int, found: Sequence[Body]) -> None:
    """One type for result `k` of all branches: Python numbers take the others' dtype."""
    nodes = [body.outputs[k] for body in found]
    strong = [n for n in nodes if not n.type.weak]
    target = strong[0] if strong else max(nodes, key=lambda n: "bifc".index(kind_of(n)))
    for body, node in zip(found, nodes, strict=True):
        weaker = node.type.weak and "bifc".index(kind_of(node)) <= "bifc".index(kind_of(target))
        if (node.dtype != target.dtype and not weaker) or not fits(trace, target.shape, node.shape):
            raise TraceError(
                f"{where}: {what}: {name} is {target.type} from one function and {node.type} from another; all must "
                f"return the same dtypes and shapes"
            )
        if node.dtype != target.dtype or (node.type.weak and not target.type.weak):
            node = promote.cast(trace, node, target.dtype)
        body.outputs[k] = node if node.shape == target.shape else bodies.seen_as(trace, node, target.shape)


__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]
