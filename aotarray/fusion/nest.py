"""Builds one loop nest: scopes, parameters, and the scalar value of any node at any index.

`Nest.value` is where fusion happens: it walks from a node down to stored values, emits one statement for
each op in the outermost loop that defines the indices it depends on, and remembers what it has emitted.
Complex values are pairs of reals; float16 values are carried as float32 and rounded after every op.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

import numpy as np

from .. import sizes
from ..graph import Graph, Node, literal_value
from ..loops import For, If, Integer, Kernel, Let, Pointer, Statement, Store
from ..sizes import Dim
from . import scalar
from .access import (
    Index,
    concat_pieces,
    gather_split,
    map_index,
    mapped,
    reads_what_it_changes,
    settled,
    update_index,
)
from .interior import Interior

Value = Union[str, tuple[str, str]]
#: how a stored buffer is typed in memory
MEMORY_CODE = {"b1": "u8", "f16": "u16", "c64": "f32", "c128": "f64"}


@dataclass(eq=False)
class Scope:
    """Statements at one depth; `variables` are defined here; a guard may not be left by hoisting."""

    statements: list[Statement]
    variables: set[str] = field(default_factory=set)
    memo: dict[tuple[int, Index], Value] = field(default_factory=dict)
    guard: bool = False
    #: positions that were checked: (node, axis, extent) to the name
    positions: dict[tuple[int, int, str], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Storage:
    """Where a node's array lives: a program buffer, and whether its strides are parameters.

    `map` is the index in the buffer of the node's element at (%0, %1, ...), where that is another one.
    """

    buffer: int
    name: str
    code: str
    shape: tuple[Dim, ...]
    strided: bool
    map: Index | None = None


class Nest:
    """One kernel under construction."""

    def __init__(self, name: str, graph: Graph, storage: Mapping[int, Storage], reserved: set[str]) -> None:
        self.name = name
        self.graph = graph
        self.storage = storage
        self.names = set(reserved)
        self.size_names = {n for node in graph.nodes() for d in node.shape for n in sizes.names(d)}
        self.divisions: dict[sizes.Call, str] = {}
        self.pointers: dict[str, Pointer] = {}
        self.integers: dict[str, Integer] = {}
        self.scopes: list[Scope] = [Scope([])]
        self.pure = True
        self.reorder = True  # no array has a place that the order of the loops decides
        self.cost = 0
        self.loops: list[str] = []
        self.extents: list[str] = []
        self.operand_strides: dict[str, list[str]] = {}
        self.status: Storage | None = None
        self.status_needed: Callable[..., Storage] | None = None
        self.inline_root: set[int] = set()
        #: sizes taken to be constants in the branch that is being built, and strides that follow from them
        self.assumed: dict[str, Dim] = {}
        self.assumed_strides: dict[str, int] = {}
        self.interior: Interior | None = None
        self.kept: dict[tuple[int, Index], tuple[Storage, Index]] = {}
        self.counter = 0
        self.ops: dict[str, int] = {}
        self.computed: dict[int, int] = {}
        #: for each status that guards set, the name that holds it while the kernel runs
        self.flags: dict[str, str] = {}
        #: nodes that depend on what changes while the loop of a scope runs
        self.pinned: dict[int, Scope] = {}

    # -- names and parameters -----------------------------------------------------------------
    def fresh(self, stem: str) -> str:
        """A name not yet used in this kernel."""
        name, k = stem, 0
        while name in self.names:
            name, k = f"{stem}{k}", k + 1
        self.names.add(name)
        return name

    def temporary(self) -> str:
        name = f"t{self.counter}"
        self.counter += 1
        return name if name not in self.names else self.temporary()

    def size(self, dim: Dim) -> str:
        """Source text of a size; its names, and its divisions of sizes, become integer parameters.

        A division may not run before its divisor is known not to be 0: it would stay inside a loop's branches.
        """
        dim = sizes.map_calls(dim, self._divided)
        for name in sorted(sizes.names(dim)):
            if not self._is_variable(name) and name not in self.integers:
                self.integers[name] = Integer(name, sizes.name(name))
        return str(dim)

    def _divided(self, call: sizes.Call) -> Dim | None:
        """The parameter of a division of sizes alone."""
        dim = sizes.of_call(call)
        if call.name not in ("floordiv", "mod") or not sizes.names(dim) <= self.size_names:
            return None
        if call not in self.divisions:
            words = call.text.replace("%", "mod").replace("//", " over ").replace("-", " minus ")
            stem = "_".join("".join(c if c.isalnum() else " " for c in words).split())
            self.divisions[call] = self.parameter(f"size_{stem}", dim)
        return sizes.name(self.divisions[call])

    def _is_variable(self, name: str) -> bool:
        return any(name in scope.variables for scope in self.scopes)

    def parameter(self, stem: str, dim: Dim) -> str:
        """A size worked out by the launcher: a parameter of its own, or a constant's text."""
        if isinstance(dim, int):
            return str(dim)
        name = self.fresh(stem)
        self.integers[name] = Integer(name, dim)
        return name

    def loop_extent(self, dim: Dim, variable: str) -> str:
        """The extent of a loop as a parameter of its own, so that the launcher may merge loops."""
        name = self.fresh(f"n_{variable}")
        self.integers[name] = Integer(name, dim)
        return name

    def pointer(self, place: Storage, role: str = "in") -> str:
        """The parameter that points to a stored array."""
        known = self.pointers.get(place.name)
        if known is None:
            code = MEMORY_CODE.get(place.code, place.code)
            self.pointers[place.name] = Pointer(place.name, code, role, place.buffer)
        elif role == "out" and known.role == "in":
            known.role = "out"
        return place.name

    def scratch(self, stem: str, code: str, length: Dim) -> Storage:
        """Working memory of the running thread, for `length` elements."""
        name = self.fresh(stem)
        place = Storage(-1, name, code, (length,), False)
        memory = MEMORY_CODE.get(code, code)
        factor = 2 if code in ("c64", "c128") else 1
        self.pointers[name] = Pointer(name, memory, "scratch", -1, 0, length * factor)
        return place

    def offset(self, place: Storage, index: Index) -> str:
        """The element offset of an index, as source text."""
        dense: Dim = 1
        strides: list[Dim] = [0] * len(index)
        for axis in reversed(range(len(index))):
            if place.strided:
                if index[axis] != 0:
                    name = f"{place.name}_{axis}"
                    if name not in self.integers:
                        self.names.add(name)
                        inner = sizes.product(place.shape[axis + 1 :])
                        usual = inner if isinstance(inner, int) else 0
                        self.integers[name] = Integer(name, 0, place.buffer, axis, usual)
                    strides[axis] = self._stride(name, place.shape[axis + 1 :])
            else:
                strides[axis] = dense
                dense = dense * self._dense_extent(place.shape[axis], index[axis])
        self._note_purity(place, index)
        terms = [self._term(i, s) for i, s in zip(index, strides, strict=True) if i != 0]
        return " + ".join(terms) or "0"

    def _stride(self, name: str, inner: tuple[Dim, ...]) -> Dim:
        """A stride parameter; a constant where sizes are assumed, which then belongs to what is assumed."""
        dense = sizes.substitute(sizes.product(inner), self.assumed) if self.assumed else name
        if not self.assumed or not isinstance(dense, int):
            return sizes.name(name)
        self.assumed_strides[name] = dense
        return dense

    def _term(self, index: Dim, stride: Dim) -> str:
        """`index*stride` as source text."""
        if stride == 1:
            return self.size(index)
        if index == 1:
            return self.size(stride)
        return "*".join(
            t if t.isalnum() or t.isidentifier() else f"({t})" for t in (self.size(index), self.size(stride))
        )

    def _dense_extent(self, dim: Dim, index: Dim) -> Dim:
        """In a nest whose loops may merge, the extents of stored arrays are the loops' own parameters."""
        text = str(index)
        if dim == 1 or text not in self.loops:
            return dim
        extent = self.extents[self.loops.index(text)]
        if self.integers[extent].size == dim:
            return sizes.name(extent)
        self.pure = False  # a part of the array, as in a piece of a concatenation
        return dim

    def _note_purity(self, place: Storage, index: Index) -> None:
        """Loops may merge only while every array is read at plain loop indices."""
        if place.buffer < 0:
            return
        strides = ["-1"] * len(self.loops)
        for axis, i in enumerate(index):
            if i == 0:
                continue
            text = str(i)
            if text not in self.loops or strides[self.loops.index(text)] != "-1":
                self.pure = False
                return
            strides[self.loops.index(text)] = f"{place.name}_{axis}"
        if place.strided:
            known = self.operand_strides.get(place.name)
            if known is not None and known != strides:
                self.pure = False
            self.operand_strides[place.name] = strides
        elif [str(i) for i, d in zip(index, place.shape, strict=True) if d != 1] != self.loops:
            self.pure = False
        else:
            self.reorder = False

    # -- scopes -------------------------------------------------------------------------------
    def emit(self, statement: Statement) -> None:
        self.scopes[-1].statements.append(statement)

    def open(self, loop: For, also: Sequence[str] = ()) -> Scope:
        """Enter a loop; `also` are variables that its body defines first."""
        self.emit(loop)
        scope = Scope(loop.body, {loop.var, *also})
        self.scopes.append(scope)
        return scope

    def close(self, count: int = 1) -> None:
        for _ in range(count):
            self.scopes.pop()

    def _home(self, index: Index, after: Sequence[tuple[int, Index]] = ()) -> Scope:
        """The outermost scope that defines all variables of `index` and the values `after`, not leaving a guard."""
        needed = {n for i in index for n in sizes.names(i)}
        first = max((k for k, s in enumerate(self.scopes) if s.guard), default=0)
        for key in after:
            first = max(first, min(k for k, s in enumerate(self.scopes) if key in s.memo))
        defined: set[str] = set()
        for k, scope in enumerate(self.scopes):
            defined |= scope.variables
            if k >= first and all(n in defined or not self._is_variable(n) for n in needed):
                return scope
        return self.scopes[-1]

    def _recall(self, key: tuple[int, Index]) -> Value | None:
        for scope in reversed(self.scopes):
            if key in scope.memo:
                return scope.memo[key]
        return None

    # -- values -------------------------------------------------------------------------------
    def value(self, node: Node, index: Index) -> Value:
        """The scalar of `node` at `index`; emits what is not there yet."""
        stack = [(node, index)]
        while stack:
            current, at = stack[-1]
            if self._recall((current.number, at)) is not None:
                stack.pop()
                continue
            uses = self._uses(current, at)
            missing = [u for u in uses if self._recall((u[0].number, u[1])) is None]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            home = self._home(at, [(u.number, i) for u, i in uses])
            pinned = self.pinned.get(current.number)
            if pinned is not None and self.scopes.index(home) < self.scopes.index(pinned):
                home = pinned
            home.memo[(current.number, at)] = self._compute(current, at, home)
        found = self._recall((node.number, index))
        assert found is not None
        return found

    def _uses(self, node: Node, index: Index) -> list[tuple[Node, Index]]:
        """Operands needed unconditionally before `node` can be computed."""
        if self._is_loaded(node) or (node.number, index) in self.kept:
            return []
        if node.op.kind == "elementwise":
            return [(o, index) for o in node.operands]
        if node.op.kind == "view":
            return [(node.operands[0], self._mapped(node, index))]
        if node.op.kind == "gather":
            at, _ = gather_split(node, index)
            return [(o, at) for o in node.operands[1:]]
        if node.op.kind == "update" and reads_what_it_changes(node, index):
            return [(node.operands[0], index)]
        if node.op.kind == "put":
            return [(o, ()) for o in node.operands[2:]]
        if node.op.kind == "concat":
            pieces = concat_pieces(node, index)
            return pieces if len(pieces) == 1 else []
        return []

    def _mapped(self, node: Node, index: Index) -> Index:
        """The operand index of a view; without clamps in the interior."""
        mapped = map_index(node, index)
        return mapped if self.interior is None else settled(node.operands[0], self.interior.resolve(mapped))

    def _is_loaded(self, node: Node) -> bool:
        return node.number in self.storage and node.number not in self.inline_root

    def _compute(self, node: Node, index: Index, home: Scope) -> Value:
        if (node.number, index) in self.kept:
            place, at = self.kept[(node.number, index)]
            return self.load(place, at, home)
        if self._is_loaded(node):
            return self.load(
                self.storage[node.number], index, home, str(node.where) if node.where.line else ""
            )
        kind = node.op.kind
        if kind == "leaf":
            return self._leaf(node, index, home)
        if kind == "view":
            found = self._recall((node.operands[0].number, self._mapped(node, index)))
            assert found is not None
            return found
        if kind == "elementwise":
            operands = [self._recall((o.number, index)) for o in node.operands]
            return self._elementwise(node, [o for o in operands if o is not None], home)
        rule = {
            "concat": self._concat, "update": self._update, "put": self._put, "gather": self._gather,
            "reduce": self._inline_reduce,
        }[kind]  # fmt: skip
        return self._built(home, lambda: rule(node, index))

    def _leaf(self, node: Node, index: Index, home: Scope) -> Value:
        name = node.op.name
        if name == "literal":
            return scalar.literal(literal_value(node), node.type.code)
        if name == "size":
            dim = node.params["value"]
            text = self.fresh("value_" + "".join(c if c.isalnum() else "_" for c in str(dim)).strip("_"))
            self.integers[text] = Integer(text, dim)
            return text
        if name == "iota":
            self.pure = False
            return f"int64({self.size(index[0])})"
        raise AssertionError(f"unstored {name}")

    def _let(self, home: Scope, expr: str, line: str) -> str:
        if expr.isidentifier():
            return expr
        name = self.temporary()
        self._emit_at(home, Let(name, expr, line))
        return name

    def _emit_at(self, home: Scope, statement: Statement) -> None:
        """Add to an enclosing scope, before the loop that is open there."""
        home.statements.insert(len(home.statements) - (home is not self.scopes[-1]), statement)

    def _elementwise(self, node: Node, operands: list[Value], home: Scope) -> Value:
        line = str(node.where) if node.where.line else ""
        self.ops[node.op.name] = self.ops.get(node.op.name, 0) + 1
        self.computed[node.number] = self.computed.get(node.number, 0) + 1
        codes = [o.type.code for o in node.operands]
        self.cost += node.op.cost
        if node.op.name == "guard":
            return self._guard(node, operands, home)
        spelled = scalar.spell(node.op, codes, node.type.code, operands, lambda e: self._let(home, e, line))
        if isinstance(spelled, tuple):
            return self._let(home, spelled[0], line), self._let(home, spelled[1], line)
        if scalar.is_atom(spelled):
            return spelled
        return self._let(home, spelled, line)

    def _guard(self, node: Node, operands: list[Value], home: Scope) -> Value:
        """The first operand; where the second holds, the program raises once the kernel is done."""
        value, wrong = operands
        assert self.status_needed is not None and isinstance(wrong, str)
        status = self.pointer(self.status_needed(node.params["message"], node.params["exception"]), "out")
        if status not in self.flags:
            self.flags[status] = self.fresh("wrong")
        flag = self.flags[status]
        self._emit_at(home, Let(flag, f"{flag} | {wrong}"))
        return value

    def load(self, place: Storage, index: Index, home: Scope, line: str = "") -> Value:
        """The stored element at `index`."""
        name = self.pointer(place)
        at = self.offset(place, index)
        self.cost += 1
        if place.code in ("c64", "c128"):
            base = self._let(home, f"2*({at})", "") if at != "0" else "0"
            return self._let(home, f"{name}[{base}]", line), self._let(home, f"{name}[{base} + 1]", line)
        if place.code == "b1":
            return self._let(home, f"{name}[{at}] != 0", line)
        if place.code == "f16":
            return self._let(home, f"half_to_float({name}[{at}])", line)
        return self._let(home, f"{name}[{at}]", line)

    def store(self, place: Storage, index: Index, value: Value, line: str = "") -> None:
        """Write the element at `index`, in the current scope."""
        name = self.pointer(place, "out")
        if place.map is not None:
            index = mapped(place.map, place.shape, index)
        at = self.offset(place, index)
        self.cost += 1
        if isinstance(value, tuple):
            at = f"2*({at})" if at != "0" else "0"
            self.emit(Store(name, at, value[0], line))
            self.emit(Store(name, f"{at} + 1", value[1], line))
            return
        if place.code == "b1":
            value = f"uint8({value})"
        elif place.code == "f16":
            value = f"float_to_half({value})"
        self.emit(Store(name, at, value, line))

    # -- ops that read conditionally or at computed places ----------------------------------------
    def _branch(self, statements: list[Statement], names: tuple[str, ...], node: Node, index: Index) -> None:
        """In a guarded block, assign the value of `node` at `index` to `names`."""
        self.scopes.append(Scope(statements, guard=True))
        value = self.value(node, index)
        parts = value if isinstance(value, tuple) else (value,)
        for name, part in zip(names, parts, strict=True):
            self.emit(Let(name, part))
        self.scopes.pop()

    def _result_names(self, node: Node) -> tuple[str, ...]:
        return tuple(self.temporary() for _ in range(2 if node.dtype.kind == "c" else 1))

    def _as_value(self, names: tuple[str, ...]) -> Value:
        return (names[0], names[1]) if len(names) == 2 else names[0]

    def _built(self, home: Scope, build: Callable[[], Value]) -> Value:
        """Build in an enclosing scope, as if its inner loops were not open."""
        depth = self.scopes.index(home)
        inner = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        open_loop = [home.statements.pop()] if inner else []
        try:
            return build()
        finally:
            home.statements.extend(open_loop)
            self.scopes.extend(inner)

    def _concat(self, node: Node, index: Index) -> Value:
        self.pure = False
        pieces = concat_pieces(node, index)
        if len(pieces) == 1:
            return self.value(*pieces[0])
        names = self._result_names(node)
        axis = node.params["axis"]
        statements = self.scopes[-1].statements
        end: Dim = 0
        usual = None if self.interior is None else self.interior.piece(node, index[axis])
        if usual is not None:
            return self.value(*pieces[usual])
        for operand, at in pieces[:-1]:
            end = end + operand.shape[axis]
            choice = If(f"{self.size(index[axis])} < {self.size(end)}")
            statements.append(choice)
            self._branch(choice.then, names, operand, at)
            statements = choice.orelse
        self._branch(statements, names, *pieces[-1])
        return self._as_value(names)

    def _update(self, node: Node, index: Index) -> Value:
        self.pure = False
        conditions, at = update_index(node, index)
        base, value = node.operands
        if any(kind == "eq" and isinstance(a - b, int) and a != b for kind, a, b in conditions):
            return self.value(base, index)
        conditions = [c for c in conditions if c[0] != "eq" or c[1] != c[2]]
        if not conditions or (self.interior is not None and self.interior.inside(node, conditions)):
            return self.value(value, at)
        texts = {
            "eq": "{0} == {1}", "ge": "{0} >= {1}", "lt": "{0} < {1}", "multiple": "({0}) % ({1}) == 0",
        }  # fmt: skip
        test = " and ".join(texts[k].format(self.size(a), self.size(b)) for k, a, b in conditions)
        names = self._result_names(node)
        choice = If(test)
        self.emit(choice)
        self._branch(choice.then, names, value, at)
        self._branch(choice.orelse, names, base, index)
        return self._as_value(names)

    def _put(self, node: Node, index: Index) -> Value:
        self.pure = False
        base, value, *positions = node.operands
        axes = node.params["axes"]
        tests = [
            f"{self.size(index[a])} == {self.position(p, a, node.shape[a])}"
            for a, p in zip(axes, positions, strict=True)
        ]
        at = tuple(i for a, i in enumerate(index) if a not in axes)
        names = self._result_names(node)
        if self._home(at) is not self.scopes[-1]:  # one value for all elements of the innermost loop
            test = self._let(self.scopes[-1], " & ".join(f"({t})" for t in tests), "")
            new, old = self.value(value, at), self.value(base, index)
            for name, a, b in zip(names, self._parts(new), self._parts(old), strict=True):
                self.emit(Let(name, f"where({test}, {a}, {b})"))
            return self._as_value(names)
        choice = If(" and ".join(tests))
        self.emit(choice)
        self._branch(choice.then, names, value, at)
        self._branch(choice.orelse, names, base, index)
        return self._as_value(names)

    def _parts(self, value: Value) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else (value,)

    def position(self, operand: Node, axis: int, extent: Dim) -> str:
        """The name of a position counted from the start; -1, and the program raises, where it is out of bounds."""
        given = self.value(operand, ())
        assert isinstance(given, str)
        home = next(s for s in reversed(self.scopes) if (operand.number, ()) in s.memo)
        key = operand.number, axis, str(extent)
        if key not in home.positions:
            assert self.status_needed is not None
            message = f"index {{value}} is out of bounds for axis {axis} with size {{size}}"
            status = self.pointer(self.status_needed(message), "out")
            name, size = self.fresh("at"), self.size(extent)
            wrapped = self._let(home, f"where({given} < 0, {given} + {size}, {given})", "")
            inside = f"({wrapped} >= 0) & ({wrapped} < {size})"
            self._emit_at(home, Let(name, f"where({inside}, {wrapped}, -1)"))
            first = If(f"{name} < 0 and {status}[0] == 0")
            first.then += [Store(status, "1", given), Store(status, "2", size), Store(status, "0", "1")]
            self._emit_at(home, first)
            home.variables.add(name)
            home.positions[key] = name
        return home.positions[key]

    def _gather(self, node: Node, index: Index) -> Value:
        self.pure = False
        at, rest = gather_split(node, index)
        x, *indices = node.operands
        names = self._result_names(node)
        read = dict(zip((a for a in range(len(x.shape)) if a not in node.params["axes"]), rest, strict=True))
        tests = []
        for axis, operand in zip(node.params["axes"], indices, strict=True):
            position = self.value(operand, at)
            assert isinstance(position, str)
            extent = self.size(x.shape[axis])
            wrapped = self.fresh("at")
            if "trusted" in node.params:
                self.emit(Let(wrapped, position))
                self.scopes[-1].variables.add(wrapped)
                read[axis] = sizes.name(wrapped)
                continue
            self.emit(Let(wrapped, f"where({position} < 0, {position} + {extent}, {position})"))
            self.scopes[-1].variables.add(wrapped)
            read[axis] = sizes.name(wrapped)
            tests.append((axis, position, extent, f"{wrapped} >= 0 and {wrapped} < {extent}"))
        if not tests:
            return self.value(x, settled(x, tuple(read[a] for a in range(len(x.shape)))))
        choice = If(" and ".join(test for *_, test in tests))
        self.emit(choice)
        self._branch(choice.then, names, x, settled(x, tuple(read[a] for a in range(len(x.shape)))))
        self.scopes.append(Scope(choice.orelse, guard=True))
        assert self.status_needed is not None
        for axis, position, extent, test in tests:
            message = f"index {{value}} is out of bounds for axis {axis} with size {{size}}"
            status = self.pointer(self.status_needed(message), "out")
            # of several bad indices NumPy names the first
            first = If(f"{status}[0] == 0" + (f" and not ({test})" if len(tests) > 1 else ""))
            first.then += [Store(status, "1", position), Store(status, "2", extent), Store(status, "0", "1")]
            self.emit(first)
        zero = scalar.literal(np.zeros((), node.dtype)[()], node.type.code)
        for name, part in zip(names, zero if isinstance(zero, tuple) else (zero,), strict=True):
            self.emit(Let(name, part))
        self.scopes.pop()
        return self._as_value(names)

    def _inline_reduce(self, node: Node, index: Index) -> Value:
        """A fold of a few elements, written out; it starts from the first, in NumPy's order."""
        self.pure = False
        operand = node.operands[0]
        axes = sorted(node.params["axes"])
        code = node.type.code
        parts = scalar.fold_start("sum", code) if node.op.name == "sum" else ()
        extents = [sizes.substitute(operand.shape[a], self.assumed) for a in axes]
        if sizes.product(extents) == 0:  # the other extents may be sizes
            extents = [0]
        for position in itertools.product(*(range(d) for d in extents if isinstance(d, int))):
            full: list[Dim] = list(index)
            for axis, at in zip(axes, position, strict=True):
                full.insert(axis, at)
            value = self.value(operand, tuple(full))
            values = value if isinstance(value, tuple) else (value,)
            if parts:
                updated = scalar.fold(node.op.name, code, parts, values, True)
                parts = tuple(self._let(self.scopes[-1], text, str(node.where)) for text in updated)
            else:
                parts = values
        parts = parts or scalar.fold_start(node.op.name, code)
        if code == "f16" and node.op.name == "sum":
            parts = (self._let(self.scopes[-1], f"half_to_float(float_to_half({parts[0]}))", ""),)
        return self._as_value(parts)

    def fold(self, node: Node, names: tuple[str, ...], value: Value, exact_order: bool = False) -> None:
        """`acc = acc op value`."""
        parts = value if isinstance(value, tuple) else (value,)
        updated = scalar.fold(node.op.name, node.type.code, names, parts, exact_order)
        fresh = (
            [self._let(self.scopes[-1], text, "") for text in updated] if len(updated) > 1 else list(updated)
        )
        for name, text in zip(names, fresh, strict=True):
            self.emit(Let(name, text))

    def spent(self) -> tuple[int, dict[str, int], dict[int, int]]:
        """What the statements so far cost and compute."""
        return self.cost, dict(self.ops), dict(self.computed)

    def forget(self, spent: tuple[int, dict[str, int], dict[int, int]]) -> None:
        """Leave out of the account what came since: another form of what is counted already."""
        self.cost, self.ops, self.computed = spent

    # -- the finished kernel ------------------------------------------------------------------------
    def finish(self, count: Dim, work: Dim, grain: int = 1, summary: str = "") -> Kernel:
        """The kernel, with scratch laid out."""
        place: Dim = 0
        for pointer in self.pointers.values():
            if pointer.role == "scratch":
                pointer.offset = place
                width = np.dtype({"u8": "u1", "u16": "u2"}.get(pointer.code, _NUMPY[pointer.code])).itemsize
                place = place + sizes.floordiv(pointer.length * width + 63, 64) * 64
        body = self.scopes[0].statements
        for status, flag in self.flags.items():
            body.insert(0, Let(flag, "False"))
            body.append(If(flag, [Store(status, "0", "1")]))
        collapse = None
        if self.pure and len(self.loops) > 1:
            operands = tuple(tuple(s) for s in self.operand_strides.values())
            collapse = tuple(self.extents), operands, self.reorder
        return Kernel(
            self.name, list(self.pointers.values()), list(self.integers.values()), body,
            count, work, max(1, self.cost) * 25, grain, place, collapse, summary, self.ops, self.computed,
        )  # fmt: skip


_NUMPY = {
    "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8",
    "f32": "f4", "f64": "f8", "b1": "u1",
}  # fmt: skip
