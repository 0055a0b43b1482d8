"""np.einsum: the subscripts parsed, repeated labels as diagonals, then products of two operands at a time."""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedError
from .. import promote
from ..context import here
from ..tracer import Tracer
from .elementwise import cast_to, deliver
from .products import common, contract
from .registry import array, implements
from .shaping import diagonal_view, transpose


def _parse(subscripts: str, ranks: list[int]) -> tuple[list[list[Any]], list[Any]]:
    """Labels of each operand and of the result; axes of an ellipsis are numbered from the right."""
    text = subscripts.replace(" ", "")
    terms, arrow, result = text.partition("->")
    parts = terms.split(",")
    if len(parts) != len(ranks):
        raise ValueError(f"{here()}: einsum has {len(parts)} subscripts for {len(ranks)} operands")
    if not all(c.isalpha() or c in ",.->" for c in text):
        raise ValueError(
            f"{here()}: einsum: subscripts may hold letters, commas, '...' and '->', not {subscripts!r}"
        )
    labels = [_labels(part, rank) for part, rank in zip(parts, ranks, strict=True)]
    used = [k for term in labels for k in term]
    dots = sorted({k for k in used if isinstance(k, int)})
    if not arrow:
        letters = sorted({k for k in used if isinstance(k, str) and used.count(k) == 1})
        return labels, [*dots, *letters]
    lead, ellipsis, rest = result.partition("...")
    out: list[Any] = [*lead, *(dots if ellipsis else []), *rest]
    if len(set(out)) != len(out) or any(k not in used for k in out):
        raise ValueError(
            f"{here()}: einsum: the result's subscripts {result!r} must be distinct and appear in an operand"
        )
    return labels, out


def _labels(part: str, rank: int) -> list[Any]:
    lead, ellipsis, rest = part.partition("...")
    hidden = rank - len(lead) - len(rest)
    if hidden < 0 or (hidden > 0 and not ellipsis):
        raise ValueError(f"{here()}: einsum: subscripts {part!r} do not fit an operand of {rank} dimensions")
    return [*lead, *range(-hidden, 0), *rest]


def _interleaved(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """`einsum(a, [0, 1], b, [1, 2], [0, 2])` as subscripts and operands."""
    names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def text(indices: Any) -> str:
        return "".join("..." if k is Ellipsis else names[k] for k in indices)

    pairs = len(operands) // 2
    parts = ",".join(text(operands[2 * k + 1]) for k in range(pairs))
    result = f"->{text(operands[-1])}" if len(operands) % 2 else ""
    return parts + result, [operands[2 * k] for k in range(pairs)]


def _distinct(x: Any, labels: list[Any]) -> tuple[Any, list[Any]]:
    """A repeated label takes the diagonal of its axes."""
    for label in [k for n, k in enumerate(labels) if k in labels[:n]]:
        first = labels.index(label)
        second = labels.index(label, first + 1)
        x._trace.same(x.node.shape[first], x.node.shape[second], f"einsum: axes with subscript {label!r}")
        x = diagonal_view(x, 0, first, second)
        labels = [*(k for n, k in enumerate(labels) if n not in (first, second)), label]
    return x, labels


@implements("einsum")
def einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: Any = None,
    order: str = "K",
    casting: str = "safe",
) -> Any:
    if isinstance(operands[0], str):
        subscripts, values = operands[0], list(operands[1:])
    else:
        subscripts, values = _interleaved(operands)
    arrays = common(*values) if len(values) > 1 else [array(values[0])]
    if dtype is not None:
        arrays = [cast_to(a, dtype) for a in arrays]
    labels, result = _parse(subscripts, [a.ndim for a in arrays])
    terms = [_distinct(a, term) for a, term in zip(arrays, labels, strict=True)]
    found, have = terms[0]
    if len(terms) == 1 and out is None and sorted(have, key=str) == sorted(result, key=str):
        return transpose(found, [have.index(k) for k in result])  # a view
    if len(terms) == 1:
        one = Tracer.of(found._trace, found._trace.graph.literal(1, found.dtype, here()))
        return deliver(found._trace, _fit(contract(found, have, one, [], result), result), out)
    for n, (other, term) in enumerate(terms[1:], start=2):
        needed = {k for _, later in terms[n:] for k in later} | set(result)
        keep = result if n == len(terms) else [k for k in dict.fromkeys([*have, *term]) if k in needed]
        found, have = contract(*_broadcast(found, have, other, term), keep), keep
    return deliver(found._trace, found, out)


def _fit(x: Any, labels: list[Any]) -> Any:
    if x.ndim != len(labels):
        raise UnsupportedError(f"{here()}: einsum of these subscripts is not supported")
    return x


def _broadcast(
    a: Any, a_labels: list[Any], b: Any, b_labels: list[Any]
) -> tuple[Any, list[Any], Any, list[Any]]:
    """Shared axes in one size, as ellipses and axes of size 1 broadcast."""
    shapes = {"a": list(a.node.shape), "b": list(b.node.shape)}
    for n, label in enumerate(a_labels):
        if label in b_labels:
            m = b_labels.index(label)
            (size,) = promote.broadcast_shapes(a._trace, [(shapes["a"][n],), (shapes["b"][m],)], "einsum")
            shapes["a"][n] = shapes["b"][m] = size
    x, y = (
        Tracer.of(v._trace, promote.broadcast_node(v._trace, v.node, tuple(shapes[k])))
        for k, v in (("a", a), ("b", b))
    )
    return x, a_labels, y, b_labels
