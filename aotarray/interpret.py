"""Evaluates a graph with NumPy, node by node: the definition that every backend is tested against."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import sizes
from .graph import Graph, Node, axis_name, literal_value
from .ops import COUNT_BLOCK
from .philox import word_at
from .routines import Routine
from .sizes import Dim


def interpret(graph: Graph, arguments: Sequence[Any]) -> list[np.ndarray]:
    """What `graph` returns for concrete `arguments` (arrays or scalars, one for each input).

    Inout arguments are arrays that get their new values; where such an argument is returned, it is the same object.
    """
    arrays = [np.asarray(a, dtype=n.dtype) for a, n in zip(arguments, graph.inputs, strict=True)]
    with np.errstate(all="ignore"):
        found = [np.array(a) for a in _run(graph, arrays, bind_sizes(graph, arrays))]
    for k, number in graph.written.items():
        arguments[number][...] = found[k]
        found[k] = arguments[number]
    return found[: len(graph.returned)]


def _run(graph: Graph, arrays: Sequence[np.ndarray], env: Mapping[str, int]) -> list[np.ndarray]:
    """The outputs of a graph, or of one inside a loop, for arrays and sizes."""
    values: dict[int, Any] = {}
    env = dict(env)  # for the sizes that are measured here
    for node in graph.nodes():
        if node.op.name == "input":
            values[node.number] = arrays[node.params["index"]]
        elif node.op.name == "constant":
            values[node.number] = graph.constants[node.params["index"]]
        else:
            found = evaluate(node, [values[o.number] for o in node.operands], env)
            values[node.number] = found if node.op.kind == "control" else np.asarray(found)
    return [values[o.number] for o in graph.outputs]


def bind_sizes(graph: Graph, arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """The values of the named sizes, read off the arguments' shapes."""
    env: dict[str, int] = {}
    for array, node in zip(arrays, graph.inputs, strict=True):
        for dim, extent in zip(node.shape, array.shape, strict=True):
            for name in sizes.names(dim):
                if dim == sizes.name(name):
                    env.setdefault(name, extent)
    return env


def evaluate(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """One node's value."""
    rule = _RULES.get(node.op.name)
    if rule is not None:
        return rule(node, operands, env)
    ufunc: Any = node.op.ufunc
    return ufunc(*operands)


def _shape(node: Node, env: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes.evaluate(d, env) for d in node.shape)


def _view(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> np.ndarray:
    """Element (i, j, ...) is the operand's at the map's indices."""
    x, shape = operands[0], _shape(node, env)
    grids = np.ogrid[tuple(slice(n) for n in shape)]
    values = {**env, **{axis_name(a): grid for a, grid in enumerate(grids)}}
    index = []
    for dim, extent in zip(node.params["map"], x.shape, strict=True):
        position = np.asarray(_position(dim, values))
        assert 0 in shape or (0 <= position.min() and position.max() < extent), f"{node!r} leaves its operand"
        index.append(np.clip(position, 0, max(extent - 1, 0)))
    if 0 in shape:
        return np.empty(shape, node.dtype)
    return np.broadcast_to(x[tuple(index)], shape)


_CALLS = {"floordiv": np.floor_divide, "mod": np.remainder, "min": np.minimum, "max": np.maximum}


def _position(dim: Dim, values: Mapping[str, Any]) -> Any:
    """An index expression for all elements at once."""
    if isinstance(dim, int):
        return dim
    total: Any = 0
    for monomial, coefficient in dim.terms:
        term: Any = coefficient
        for atom in monomial:
            if isinstance(atom, str):
                term = term * values[atom]
            else:
                term = term * _CALLS[atom.name](*(_position(a, values) for a in atom.args))
        total = total + term
    return total


def _guard(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """The first operand, or the exception where the second holds anywhere."""
    value, wrong = operands
    if wrong.any():
        name = node.params["exception"]
        raise (getattr(builtins, name, None) or getattr(np.linalg, name))(node.params["message"])
    return value


def _cast(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """A complex value becomes a real number by its real part; as a truth value it counts whole."""
    (x,) = operands
    return (x.real if x.dtype.kind == "c" and node.dtype.kind not in "bc" else x).astype(node.dtype)


def _reduce(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """A fold; the largest of nothing is the dtype's least value (and the other way round), as in kernels."""
    if operands[0].size == 0 and node.op.name in ("max", "min"):
        low, high = _limits(node.dtype)
        return np.full(_shape(node, env), low if node.op.name == "max" else high, node.dtype)
    return node.op.ufunc.reduce(operands[0], axis=node.params["axes"], dtype=node.dtype)  # type: ignore[union-attr]


def _limits(dtype: np.dtype) -> tuple[Any, Any]:
    """The least and the largest value of a real dtype."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return (False, True) if dtype.kind == "b" else (-np.inf, np.inf)


def _argreduce(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    return node.op.ufunc(operands[0], axis=node.params["axis"])  # type: ignore[misc]


def _scan(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    return node.op.ufunc(operands[0], axis=node.params["axis"], dtype=node.dtype)  # type: ignore[misc]


def _gather(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """`x[..., idx, ...]` with the index arrays' axes put at `position` in the result."""
    x, *indices = operands
    axes: tuple[int, ...] = node.params["axes"]
    count = indices[0].ndim
    rest = [a for a in range(x.ndim) if a not in axes]
    taken = x.transpose(*axes, *rest)[tuple(indices)]
    order = list(range(count, count + len(rest)))
    position = node.params["position"]
    order[position:position] = range(count)
    return taken.transpose(order)


def _count(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """How many are true before each block, and in all."""
    flat = operands[0].ravel()
    before = np.concatenate([[0], np.cumsum(flat, dtype=np.int64)])
    return before[np.append(np.arange(0, flat.size, COUNT_BLOCK), flat.size)]


def _measure(node: Node, operands: Sequence[np.ndarray], env: dict[str, int]) -> Any:
    """The value of a size, which nodes after this one go by."""
    env[node.params["name"]] = int(operands[0].ravel()[-1])
    return operands[0].ravel()[-1]


def _update(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """A copy of the base with a region overwritten; see `Graph` op `update`."""
    base, value = operands
    result = np.array(base)
    index: list[Any] = []
    order: list[int] = []
    for start, step, length, axis in node.params["region"]:
        first = sizes.evaluate(start, env)
        if axis is None:
            index.append(first)
            continue
        n = sizes.evaluate(length, env)
        index.append(first + sizes.evaluate(step, env) * np.arange(n))
        order.append(axis)
    if any(isinstance(i, np.ndarray) and i.size == 0 for i in index):
        return result
    grids = np.ix_(*(np.atleast_1d(i) for i in index))
    order += [a for a in range(value.ndim) if a not in order]  # axes of size 1 that no axis of the base has
    target_shape = [len(np.atleast_1d(i)) for i in index]
    result[grids] = value.transpose(order).reshape(target_shape)
    return result


def _put(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """A copy of the base with the value at positions along some axes."""
    base, value, *positions = operands
    result = np.array(base)
    index: list[Any] = [slice(None)] * base.ndim
    for axis, position in zip(node.params["axes"], positions, strict=True):
        index[axis] = int(position)
    result[tuple(index)] = value
    return result


def _while(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> list[np.ndarray]:
    """Steps until the condition is false."""
    count = node.params["carried"]
    state, others = list(operands[:count]), operands[count:]
    while _run(node.params["cond"], [*state, *others], env)[0]:
        state = _run(node.params["body"], [*state, *others], env)
    return state


def _loop(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> list[np.ndarray]:
    """A counted number of steps, with one row of each sliced operand for each, and of each stacked result."""
    lower, upper, *rest = operands
    count, sliced = node.params["carried"], node.params["sliced"]
    state, rows, others = rest[:count], rest[count : count + sliced], rest[count + sliced :]
    body: Graph = node.params["body"]
    length = sizes.evaluate(node.params["length"], env)
    stacks = [np.empty((length, *_shape(o, env)), o.dtype) for o in body.outputs[count:]]
    steps = range(int(lower), int(upper))
    for i in reversed(steps) if node.params["reverse"] else steps:
        found = _run(body, [np.asarray(i), *state, *(x[i] for x in rows), *others], env)
        state = found[:count]
        for stack, row in zip(stacks, found[count:], strict=True):
            stack[i] = row
    return [*state, *stacks]


def _branch(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> list[np.ndarray]:
    """One of several graphs, the first or last where the index is out of range."""
    branches: tuple[Graph, ...] = node.params["branches"]
    index, *others = operands
    return _run(branches[min(max(int(index), 0), len(branches) - 1)], others, env)


def _call(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    """One result of a NumPy routine."""
    routine: Routine = node.params["routine"]
    written = [np.empty(_shape(node, env), node.dtype) if routine.base < 0 else np.array(operands[routine.base])]
    found = routine.call(operands, written, lambda dim: sizes.evaluate(dim, env)) or written
    return np.asarray(found[node.params["result"]])


def _filled(node: Node, operands: Sequence[np.ndarray]) -> str:
    """The text of an effect: values without axes are NumPy scalars, or Python numbers where they are weak."""
    nodes = node.operands[len(node.operands) - len(operands) :]
    values = [x.item() if n.type.weak else x[()] for n, x in zip(nodes, operands, strict=True)]
    text: str = node.params["text"]
    return text.format(*values)


def _check(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    if not operands[0]:
        raise getattr(builtins, node.params["exception"])(_filled(node, operands[1:]))
    return True


def _print(node: Node, operands: Sequence[np.ndarray], env: Mapping[str, int]) -> Any:
    print(_filled(node, operands))
    return True


_RULES: dict[str, Any] = {
    "check": _check, "print": _print,
    "while": _while, "loop": _loop, "branch": _branch,
    "result": lambda node, operands, env: operands[0][node.params["index"]],
    "call": _call,
    "literal": lambda node, operands, env: literal_value(node),
    "size": lambda node, operands, env: np.int64(sizes.evaluate(node.params["value"], env)),
    "iota": lambda node, operands, env: np.arange(sizes.evaluate(node.params["length"], env), dtype=np.int64),
    "cast": _cast, "guard": _guard,
    "philox": lambda node, operands, env: word_at(operands[0], operands[1], operands[2], operands[3], np.where),
    "complex": lambda node, operands, env: (operands[0] + operands[1] * 1j).astype(node.dtype),
    "view": _view,
    "reshape": lambda node, operands, env: operands[0].reshape(_shape(node, env)),
    "sum": _reduce, "prod": _reduce, "max": _reduce, "min": _reduce, "any": _reduce, "all": _reduce,
    "argmax": _argreduce, "argmin": _argreduce, "cumsum": _scan, "cumprod": _scan,
    "gather": _gather, "update": _update, "put": _put, "count": _count, "measure": _measure,
    "positions": lambda node, operands, env: np.nonzero(operands[0])[node.params["axis"]],
    "concat": lambda node, operands, env: np.concatenate(operands, axis=node.params["axis"]),
}  # fmt: skip
