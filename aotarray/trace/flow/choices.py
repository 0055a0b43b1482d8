"""A choice that a traced value makes: both ways are traced, what they leave different comes out of one op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import TraceError
from ...graph import Node, topological
from ...types import ArrayType
from .. import bodies, control, promote
from ..bodies import Body
from ..context import Trace, here
from ..control import kind_of
from ..trees import NONE, Structure, leaf_names
from . import aliases
from .jumps import RESULT
from .state import Pass, State, fill
from .values import Maybe, Seen, Unset, fresh, is_array, same, shown, zeros

#: additions that two ways of a choice may cost together to be computed both
BOTH = 16


def choose(state: State, test: Node, ways: Sequence[Callable[[], Any]]) -> None:
    """Run `ways[1]` where `test`, a traced bool, holds, else `ways[0]`; the variables are then what that one left."""
    state.refuse()
    merge = _Merge(state.trace, state)
    for way in ways:
        with state.body() as run:
            way()
        merge.passes.append(run)
    merge.finish(test)


def value_of(trace: Trace, test: Node, ways: Sequence[Callable[[], Any]], what: str) -> Any:
    """`ways[1]()` where `test` holds, else `ways[0]()`."""
    merge = _Merge(trace, None)
    for way in ways:
        with trace.body(writes=True) as number:
            record = trace.written[number]
            value = way()
            seen = [Seen.of(trace, value)]
            merge.passes.append(Pass(number, [value], seen, {}, {}, {}, {}, trace.effects[-1]))
            changed = list(record.values())
            for storage, before in changed:
                storage.state = before
            del trace.written[number]
        if changed:
            raise TraceError(
                f"{here()}: {what} that a traced value steers may not write into arrays; use `if`"
            )
    made = merge.value(what, [p.values[0] for p in merge.passes], [p.seen[0] for p in merge.passes])
    (found,) = merge.emit(test, [made])
    merge.tie()
    return found


class _Merge:
    """What two ways leave, side by side."""

    def __init__(self, trace: Trace, state: State | None) -> None:
        self.trace, self.state = trace, state
        self.start = trace.graph.made
        self.where = here()
        self.passes: list[Pass] = []
        self.outputs: list[list[Node]] = [[], []]
        #: new arrays, and what they are on each path
        self.arrays: list[aliases.Made] = []

    def finish(self, test: Node) -> None:
        """Give variables, arrays and containers what the choice makes of them."""
        state = self.state
        assert state is not None
        makers = [
            self.value(name, [p.values[k] for p in self.passes], [p.seen[k] for p in self.passes])
            for k, name in enumerate(state.names)
        ]
        written = {key: s for p in self.passes for key, s in p.storages.items()}
        states = {key: [p.nodes.get(key, s.state) for p in self.passes] for key, s in written.items()}
        for key in written:
            makers.append(self._node("an array", [s[0] for s in states[key]]))
        changed = {key: c for p in self.passes for key, c in p.containers.items()}
        for key in changed:
            before = Seen.of(self.trace, state.containers[key][1])
            seen = [p.contents.get(key, before) for p in self.passes]
            makers.append(self.value(state.containers[key][2], [object(), object()], seen))
        found = self.emit(test, makers)
        values, rest = found[: len(state.names)], iter(found[len(state.names) :])
        for key, storage in written.items():
            made = next(rest)
            if self.trace.note_write(storage):
                storage.state = (made.node, *_joined_state(states[key]))
        for container in changed.values():
            fill(container, next(rest))
        self.tie()
        state.put(values)

    def tie(self) -> None:
        """Tie the new arrays to those that they may be."""
        aliases.tie(self.arrays, [p.number for p in self.passes])

    def _node(self, name: str, nodes: Sequence[Node]) -> Callable[[Any], Any]:
        if nodes[0] is nodes[1]:
            return lambda new: fresh(self.trace, nodes[0], None)
        for outputs, node in zip(self.outputs, nodes, strict=True):
            outputs.append(node)
        return lambda new: fresh(self.trace, next(new), None)

    def value(self, name: str, values: Sequence[Any], seen: Sequence[Seen]) -> Callable[[Any], Any]:
        """How to make what a variable holds after the choice from the results of the op."""
        if all(s.structure is None for s in seen) or same(*values):
            kept = values[0]
            return lambda new: kept
        present = [s for s in seen if s.structure is not None]
        structure = present[0].structure
        assert structure is not None
        if any(s.structure != structure for s in present):
            raise TraceError(f"{self.where}: {_spoken(name)} is {_nested(present[0])} on one path of the choice and "
                             f"{_nested(present[1])} on the other; both must nest alike")  # fmt: skip
        why = f"the choice in line {self.where.line} gives it one on some of its paths only"
        makers: list[Callable[[Any], Any]] = []
        for k, label in enumerate(leaf_names(structure, name)):
            leaves = [s.leaves[k] for s in present]
            nodes = [s.nodes[k] for s in present]
            if len(present) > 1 and same(*leaves):
                makers.append(_keep(leaves[0]))
                continue
            if any(n is None for n in nodes):
                if len(present) == 1:
                    unset = Unset(name, f"{why}, and {shown(leaves[0])} cannot be chosen by a traced value")
                    return lambda new: unset
                raise TraceError(
                    f"{self.where}: {_spoken(label)} is {shown(leaves[0])} on one path of the choice and "
                    f"{shown(leaves[1])} on the other: only arrays and numbers can be chosen by a traced value"
                )
            made = [n for n in nodes if n is not None]
            if len(present) == 1:
                made.insert(int(seen[0] is present[0]), zeros(self.trace, made[0]))
            for outputs, node in zip(self.outputs, made, strict=True):
                outputs.append(node)
            self._unify(label)
            if len(present) == 1:
                leaves.insert(int(seen[0] is present[0]), None)
            makers.append(self._chosen(leaves, name != RESULT))
        flag = self._flag(name, seen)

        def make(new: Any) -> Any:
            value = structure.rebuild(iter([m(new) for m in makers]))
            holds = flag(new)
            return value if holds is True else Maybe(name, value, holds, why)

        return make

    def _chosen(self, leaves: Sequence[Any], shares: bool) -> Callable[[Any], Any]:
        """A leaf that comes out of the op: a new array, which may be one that exists already."""
        array = next((v for v in leaves if is_array(v)), None)
        paths = [aliases.storage_of(v) for v in leaves]

        def make(new: Any) -> Any:
            made = fresh(self.trace, next(new), array)
            if shares and is_array(made):
                self.arrays.append(aliases.Made(made._storage, paths))
            return made

        return make

    def _flag(self, name: str, seen: Sequence[Seen]) -> Callable[[Any], Any]:
        flags = [s.flag for s in seen]
        if name == RESULT or all(f is True for f in flags):
            return lambda new: True
        if same(*flags):
            return lambda new: flags[0]
        for outputs, flag in zip(self.outputs, flags, strict=True):
            outputs.append(promote.node_of(self.trace, flag))
        return lambda new: fresh(self.trace, next(new), None)

    def _unify(self, label: str) -> None:
        """One type for the last outputs: Python numbers take the other's dtype."""
        nodes = [outputs[-1] for outputs in self.outputs]
        target = next(
            (n for n in nodes if not n.type.weak), max(nodes, key=lambda n: "bifc".index(kind_of(n)))
        )
        for outputs, node in zip(self.outputs, nodes, strict=True):
            weaker = node.type.weak and "bifc".index(kind_of(node)) <= "bifc".index(kind_of(target))
            fits = node.shape == target.shape or control.fits(self.trace, target.shape, node.shape)
            if (node.dtype != target.dtype and not weaker) or not fits:
                raise TraceError(
                    f"{self.where}: {_spoken(label)} is {nodes[0].type} on one path of the choice and "
                    f"{nodes[1].type} on the other; both must give the same dtype and shape (astype converts)"
                )
            if node.dtype != target.dtype or (node.type.weak and not target.type.weak):
                node = promote.cast(self.trace, node, target.dtype)
                if target.type.weak:
                    node = promote.weakened(self.trace, node)
            outputs[-1] = (
                node if node.shape == target.shape else bodies.seen_as(self.trace, node, target.shape)
            )

    def emit(self, test: Node, makers: Sequence[Callable[[Any], Any]]) -> list[Any]:
        """The values that the makers make of the results."""
        trace, outputs = self.trace, self.outputs
        acts = any(p.effects or trace.checks[p.number] for p in self.passes)
        if not outputs[0] and not acts:
            return [m(iter(())) for m in makers]
        if not acts and self._is_cheap():
            nodes = [_select(trace, test, a, b) for a, b in zip(outputs[1], outputs[0], strict=True)]
            new = iter(nodes)
            return [m(new) for m in makers]
        index = promote.cast(trace, test, promote.INT64)
        found = [
            Body(p.number, self.where, [], o, NONE, p.effects)
            for p, o in zip(self.passes, outputs, strict=True)
        ]
        graphs, captured = bodies.extract(trace, found, self.start)
        made = bodies.record(trace, "branch", [index, *captured], self.where, branches=tuple(graphs))
        types = [_joined(a.type, b.type) for a, b in zip(*outputs, strict=True)]
        new = iter([t.node for t in control.results(trace, made, types)])
        return [m(new) for m in makers]

    def _is_cheap(self) -> bool:
        """True for scalars that cost little and raise nothing: computing both ways is simpler than a jump."""
        price = 0
        for node in topological([n for outputs in self.outputs for n in outputs]):
            if node.number < self.start:
                continue
            if node.op.kind not in ("leaf", "elementwise") or node.op.name == "guard" or node.shape:
                return False
            price += 0 if node.op.kind == "leaf" else node.op.cost
        return price <= BOTH and not any(n.shape for n in self.outputs[0])


def _select(trace: Trace, test: Node, a: Node, b: Node) -> Node:
    """`a` where `test` holds, else `b`: scalars of one type."""
    if a is b:
        return a
    found = trace.graph.apply("where", (test, a, b), here())
    return promote.weakened(trace, found) if a.type.weak and b.type.weak else found


def _joined_state(states: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The version of an array after a choice, what else it may be, and why nobody knows what it holds."""
    versions, maybes, losts = ([s[k] for s in states] for k in (1, 2, 3))
    same_node = states[0][0] is states[1][0]
    newer = max(maybes, key=lambda m: sum(v for _, v in m)) if same_node else ()
    return max(versions), newer, losts[0] or losts[1]


def _joined(a: ArrayType, b: ArrayType) -> ArrayType:
    return ArrayType(a.dtype, a.shape, a.weak and b.weak)


def _keep(value: Any) -> Callable[[Any], Any]:
    return lambda new: value


def _spoken(name: str) -> str:
    return "the result" if name.startswith(RESULT) else name if name.startswith("`") else f"variable {name!r}"


def _nested(seen: Seen) -> str:
    structure: Structure | None = seen.structure
    assert structure is not None
    if structure.kind == "leaf":
        return shown(seen.leaves[0])
    return "None" if structure.kind == "none" else f"a {structure.kind} of {len(structure.children)}"
