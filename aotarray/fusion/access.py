"""How a node reads others: index expressions carried from a root through views down to stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import sizes
from ..graph import Node, axis_name
from ..sizes import Dim

Index = tuple[Dim, ...]

#: reductions over at most this many elements (a constant) are unrolled into the loop that uses them
INLINE_REDUCTION = 16


def loop_index(axis: int) -> Dim:
    """The loop variable of domain axis `axis`, as a size expression."""
    return sizes.name(f"@{axis}")


@dataclass(frozen=True)
class Access:
    """A stored value read at an index, written in the loop variables of the reading nest."""

    node: Node
    index: Index


def inlines_reduction(node: Node) -> bool:
    """A fold of a few elements, cheap enough to unroll in the loop that uses it."""
    return node.op.kind == "reduce" and 0 <= folded(node) <= INLINE_REDUCTION


def folded(node: Node) -> int:
    """How many elements a reduction folds into one, or -1 when that depends on sizes."""
    total = sizes.product(node.operands[0].shape[a] for a in node.params["axes"])
    return total if isinstance(total, int) else -1


def domain_of(node: Node) -> tuple[tuple[Dim, ...], tuple[int, ...]]:
    """The loops that compute a root: extents without axes of size 1, and which of them are folded."""
    if node.op.kind == "reduce":
        shape = node.operands[0].shape
        kept = [a for a, d in enumerate(shape) if d != 1]
        reduced = tuple(k for k, a in enumerate(kept) if a in node.params["axes"])
        return tuple(shape[a] for a in kept), reduced
    if node.op.kind == "count":
        return tuple(d for d in node.operands[0].shape if d != 1), ()
    return tuple(d for d in node.shape if d != 1), ()


def squeezed(shape: tuple[Dim, ...], first: int = 0) -> Index:
    """Loop variables for the axes of a shape; axes of size 1 are at 0."""
    index: list[Dim] = []
    axis = first
    for extent in shape:
        if extent == 1:
            index.append(0)
        else:
            index.append(loop_index(axis))
            axis += 1
    return tuple(index)


def identity(node: Node) -> Index:
    """The index at which a root is computed. For a reduction: of its operand."""
    return squeezed(node.operands[0].shape if node.op.kind == "reduce" else node.shape)


def settled(node: Node, index: Index) -> Index:
    """The index of `node` with 0 along axes of size 1, where there is nothing else: one spelling for one element."""
    return tuple(0 if d == 1 else i for i, d in zip(index, node.shape, strict=True))


def map_index(node: Node, index: Index) -> Index:
    """The operand index that a view reads for its own `index`."""
    return mapped(node.params["map"], node.operands[0].shape, index)


def mapped(map: Index, shape: Sequence[Dim], index: Index) -> Index:
    """The index that a map makes of another one, in an array of this shape."""
    values = {axis_name(a): i for a, i in enumerate(index)}
    found = (sizes.substitute(d, values) for d in map)
    return tuple(0 if d == 1 else i for i, d in zip(found, shape, strict=True))


def operand_uses(node: Node, index: Index) -> list[tuple[Node, Index]]:
    """Where each operand is read when `node` is computed at `index` (a root reduction: operand index).

    Data-dependent and conditional reads are given as a distinct pseudo index, so that they count as uses.
    """
    kind = node.op.kind
    if kind == "elementwise":
        return [(o, index) for o in node.operands]
    if kind == "view":
        return [(node.operands[0], map_index(node, index))]
    if kind == "reduce":
        operand = node.operands[0]
        if len(index) == len(operand.shape):
            return [(operand, index)]
        return [(operand, reduced_index(node, index))]
    if kind in ("scan", "argreduce"):
        return [(node.operands[0], squeezed(node.operands[0].shape))]
    if kind == "concat":
        return concat_pieces(node, index)
    if kind == "update":
        return [(node.operands[0], index), (node.operands[1], update_index(node, index)[1])]
    if kind == "put":
        at = tuple(i for a, i in enumerate(index) if a not in node.params["axes"])
        return [(node.operands[0], index), (node.operands[1], at), *((o, ()) for o in node.operands[2:])]
    if kind == "gather":
        indices, rest = gather_split(node, index)
        axes: tuple[int, ...] = node.params["axes"]
        read: list[Dim] = list(rest)
        for axis in sorted(axes):
            read.insert(axis, sizes.name(f"?{node.number}.{axis}"))
        x = node.operands[0]
        return [(x, settled(x, tuple(read))), *((o, indices) for o in node.operands[1:])]
    if kind in ("reshape", "library", "control", "result", "effect", "count", "measure", "positions"):
        return [(o, squeezed(o.shape)) for o in node.operands]
    return []


def reduced_index(node: Node, index: Index) -> Index:
    """The operand index of an inlined reduction, with a fresh variable for each folded axis."""
    full: list[Dim] = list(index)
    for axis in node.params["axes"]:
        full.insert(axis, sizes.name(f"@{node.number}r{axis}") if node.operands[0].shape[axis] != 1 else 0)
    return tuple(full)


def concat_indices(node: Node, index: Index) -> list[Index]:
    """For each operand of a concatenation, the index at which it would be read."""
    axis = node.params["axis"]
    start: Dim = 0
    found = []
    for operand in node.operands:
        at = list(index)
        at[axis] = index[axis] - start
        found.append(settled(operand, tuple(at)))
        start = start + operand.shape[axis]
    return found


def concat_pieces(node: Node, index: Index) -> list[tuple[Node, Index]]:
    """The operands of a concatenation that may have the element at `index`, and where: one, where that is known."""
    pieces = list(zip(node.operands, concat_indices(node, index), strict=True))
    place = index[node.params["axis"]]
    if isinstance(place, int):
        end: Dim = 0
        for k, operand in enumerate(node.operands):
            end = end + operand.shape[node.params["axis"]]
            if not isinstance(end, int):
                break
            if place < end:
                return pieces[k : k + 1]
    return pieces


def gather_split(node: Node, index: Index) -> tuple[Index, Index]:
    """(index into the index arrays, index along the axes of `x` that are not gathered)."""
    position = node.params["position"]
    count = len(node.operands[1].shape)
    return index[position : position + count], index[:position] + index[position + count :]


def update_index(node: Node, index: Index) -> tuple[list[tuple[str, Dim, Dim]], Index]:
    """Conditions under which `index` lies in the updated region, and the value's index there.

    A condition is ("eq", a, b), ("ge", a, b), ("lt", a, b) or ("multiple", a, step).
    """
    conditions: list[tuple[str, Dim, Dim]] = []
    value = node.operands[1]
    at: list[Dim] = [0] * len(value.shape)
    for (start, step, length, axis), i, extent in zip(node.params["region"], index, node.shape, strict=True):
        if axis is None:
            conditions.append(("eq", i, start))
            continue
        offset = i - start
        if isinstance(step, int) and step < 0:
            offset, step = -offset, -step
        if step == 1 and start == 0 and length == extent:
            at[axis] = i
            continue
        if step == 1:
            conditions += [("ge", offset, 0), ("lt", offset, length)]
            at[axis] = offset
        else:
            conditions += [("ge", offset, 0), ("multiple", offset, step), ("lt", offset, length * step)]
            at[axis] = sizes.floordiv(offset, step)
    return conditions, settled(value, tuple(at))


def reads_what_it_changes(node: Node, index: Index) -> bool:
    """True when the value of an update at `index` is made of the base there, as in `y[1:] *= 2`."""
    base, value = node.operands
    _, at = update_index(node, index)
    stack, seen = [(value, at)], set()
    while stack:
        found, place = stack.pop()
        if found is base and place == index:
            return True
        if found.number > base.number and (found.number, place) not in seen:  # made after the base
            seen.add((found.number, place))
            stack.extend(operand_uses(found, place))
    return False


def accesses(root: Node, roots: set[int]) -> list[Access]:
    """All stored values that computing `root` reads, each at each distinct index."""
    found: dict[tuple[int, Index], Access] = {}
    seen: set[tuple[int, Index]] = set()
    stack = operand_uses(root, identity(root))
    if root.op.name in ("input", "constant"):
        return [Access(root, identity(root))]
    while stack:
        node, index = stack.pop()
        key = (node.number, index)
        if key in seen:
            continue
        seen.add(key)
        if node.number in roots or node.op.name in ("input", "constant"):
            found[key] = Access(node, index)
        else:
            stack.extend(operand_uses(node, index))
    return list(found.values())
