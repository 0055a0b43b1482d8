"""Evaluates a graph with NumPy, node by node: the definition that every backend is tested against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import sizes
from .graph import Graph, Node, axis_name, literal_value
from .sizes import Dim


def interpret(graph: Graph, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of `graph` for concrete `arguments` (arrays or scalars, one for each input)."""
    arrays = [np.asarray(a, dtype=n.dtype) for a, n in zip(arguments, graph.inputs, strict=True)]
    env = bind_sizes(graph, arrays)
    values: dict[int, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            if node.op.name == "input":
                values[node.number] = arrays[node.params["index"]]
            elif node.op.name == "constant":
                values[node.number] = graph.constants[node.params["index"]]
            else:
                operands = [values[o.number] for o in node.operands]
                values[node.number] = np.asarray(evaluate(node, operands, env))
    return [np.array(values[o.number]) for o in graph.outputs]


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
    """An affine map is an offset and a stride for each output axis."""
    x, shape = operands[0], _shape(node, env)
    if 0 in shape:
        return np.empty(shape, node.dtype)
    index: list[Dim] = [sizes.substitute(d, env) for d in node.params["map"]]
    zero = {axis_name(a): 0 for a in range(len(shape))}
    origin = tuple(sizes.evaluate(d, zero) for d in index)
    strides = []
    for a in range(len(shape)):
        step = [sizes.evaluate(d, {**zero, axis_name(a): 1}) - o for d, o in zip(index, origin, strict=True)]
        strides.append(sum(s * t for s, t in zip(step, x.strides, strict=True)))
    base = x[tuple(slice(o, None) for o in origin)] if x.ndim else x
    return np.lib.stride_tricks.as_strided(base, shape, tuple(strides), writeable=False)


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


_RULES: dict[str, Any] = {
    "literal": lambda node, operands, env: literal_value(node),
    "size": lambda node, operands, env: np.int64(sizes.evaluate(node.params["value"], env)),
    "iota": lambda node, operands, env: np.arange(sizes.evaluate(node.params["length"], env), dtype=np.int64),
    "cast": _cast,
    "complex": lambda node, operands, env: (operands[0] + operands[1] * 1j).astype(node.dtype),
    "view": _view,
    "reshape": lambda node, operands, env: operands[0].reshape(_shape(node, env)),
    "sum": _reduce, "prod": _reduce, "max": _reduce, "min": _reduce, "any": _reduce, "all": _reduce,
    "argmax": _argreduce, "argmin": _argreduce, "cumsum": _scan, "cumprod": _scan,
    "gather": _gather, "update": _update,
    "concat": lambda node, operands, env: np.concatenate(operands, axis=node.params["axis"]),
}  # fmt: skip
