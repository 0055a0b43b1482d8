"""A simplified graph to kernels and the program that runs them: buffers, sizes, instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .. import sizes
from ..errors import SpecError
from ..graph import Graph, Node, SizeCheck, size_names, subgraphs, topological
from ..loops import Kernel
from ..ops.names import RESERVED
from ..program import (
    Arg,
    Buffer,
    Check,
    Collapse,
    Effect,
    Instruction,
    KernelCall,
    LibraryCall,
    Measure,
    Point,
    Program,
    RaiseIf,
    Routine,
    Size,
    SizeOp,
    Stride,
)  # fmt: skip
from ..sizes import Dim
from ..types import ArrayType
from .access import accesses, domain_of
from .arguments import ArgumentWrite, separate_arguments
from .blocks import BlockLowering
from .columns import ColumnLowering
from .control import ControlLowering
from .element_lowering import ElementLowering, WriteLowering
from .elements import Owned, Write, element_loop
from .filtering import CountLowering, FilterLowering
from .group_lowering import GroupLowering
from .joined import Joined
from .maps import MapLowering
from .measuring import Settling, measured_names
from .nest import Nest, Storage
from .order import follow_order
from .panels import PanelLowering
from .partition import Group, Partition, is_buffer, partition
from .rows import RowLowering
from .separate import separate_carried, separate_outputs
from .sequential import ExtremeLowering, ScanLowering

MATMUL = Routine(
    "matmul", (("operand", 0), ("operand", 1)), (("out", ("result", 0)),), returns="nothing"
)  # fmt: skip


@dataclass
class Plan:
    """What a graph was lowered to."""

    program: Program
    kernels: list[Kernel]
    graph: Graph
    #: slot of each size
    sizes: dict[Dim, int]
    #: the types of what is returned
    results: tuple[ArrayType, ...]


class Slots:
    """Numbers sizes: each distinct size expression is computed once, in three-address code."""

    def __init__(self, graph: Graph) -> None:
        self.ops: list[SizeOp] = []
        self.numbers: dict[Dim, int] = {}
        self.measured = measured_names(graph)
        self.checks: list[Check] = []
        first: dict[Dim, str] = {}
        extents: list[tuple[str, Dim, int]] = []
        for argument, node in enumerate(graph.inputs):
            for axis, dim in enumerate(node.shape):
                slot = self._add(SizeOp("dim", argument, axis))
                where = f"argument {graph.input_names[argument]!r}, axis {axis}"
                if isinstance(dim, sizes.Size) and dim == sizes.name(str(dim)) and dim not in self.numbers:
                    self.numbers[dim] = slot
                    first[dim] = where
                else:
                    extents.append((where, dim, slot))
        for where, dim, slot in extents:
            expected = self.slot(dim)
            if dim in first:
                origin = f" ({first[dim]})"
            else:
                named = [f"{n}: {first[sizes.name(n)]}" for n in sorted(sizes.names(dim)) if sizes.name(n) in first]
                origin = f" ({'; '.join(named)})" if named else ""
            message = f"size {dim} is {{a}}{origin} but {where} has size {{b}}"
            if isinstance(dim, int):
                message = f"{where} must have size {dim}, not {{b}}"
            self.checks.append(Check("eq", expected, slot, message))

    def check(self, given: SizeCheck) -> Check:
        """A check of sizes as one of slots."""
        relation, a, b, message, exception = given
        return Check(relation, self.slot(a), self.slot(b), message, exception)  # type: ignore[arg-type]

    def _add(self, op: SizeOp) -> int:
        self.ops.append(op)
        return len(self.ops) - 1

    def slot(self, dim: Dim) -> int:
        """The slot that holds `dim`."""
        known = self.numbers.get(dim)
        if known is None:
            known = self._compute(dim)
            self.numbers[dim] = known
        return known

    def _compute(self, dim: Dim) -> int:
        if isinstance(dim, int):
            return self._add(SizeOp("const", dim))
        total: int | None = None
        for monomial, coefficient in dim.terms:
            term: int | None = None if coefficient != 1 or not monomial else -1
            if term is None:
                term = self.slot(coefficient)
            for atom in monomial:
                factor = self._atom(atom)
                term = factor if term == -1 else self._add(SizeOp("mul", term, factor))
            total = term if total is None else self._add(SizeOp("add", total, term))
        assert total is not None
        return total

    def _atom(self, atom: sizes.Atom) -> int:
        if isinstance(atom, str):
            size = sizes.name(atom)
            if size not in self.numbers and atom in self.measured:
                self.numbers[size] = self._add(SizeOp("measured", 0))
            if size not in self.numbers:
                raise SpecError(
                    f"size {atom} is not the size of any argument: let it stand alone in one, as in f64[{atom}]"
                )
            return self.numbers[size]
        return self._add(SizeOp(atom.name, self.slot(atom.args[0]), self.slot(atom.args[1])))


class Scheduler:
    """Builds the program of one graph; for a graph inside a loop, its part of the program of the `whole`."""

    def __init__(
        self, graph: Graph, outer: Scheduler | None = None, writes: Sequence[ArgumentWrite] = (),
        plan: Partition | None = None,
    ) -> None:  # fmt: skip
        whole: Scheduler | None = None if outer is None else outer.whole
        self.graph: Graph = graph
        self.writes = writes
        self.partitioned: Partition = plan or partition(graph, writes)
        self.whole: Scheduler = whole or self
        self.storage: dict[int, Storage] = {}
        self.targets: dict[int, Storage] = {}  # inside a loop: where each output goes
        self.places: dict[int, list[Storage | None]] = {}  # of each loop or choice: where its results lie
        self.placed: dict[int, Storage] = {}  # where a value goes that a loop changes in place
        #: what is returned: nodes that are made, and inout arguments; and the buffer of each
        self.results = self._returned()
        self.outputs: dict[int, int] = {}
        self.has_loops = any(node.op.kind == "control" for node in graph.nodes())
        if whole is None:
            self.slots = Slots(graph)
            self.buffers: list[Buffer] = []
            self.kernels: list[Kernel] = []
            self.instructions: list[Instruction] = []
            self.constants = bytearray()
            self.array_names: set[str] = _size_names(graph) | self.slots.measured | RESERVED
            self.scope: tuple[int, ...] = (0,)
            self.buffer_scopes: list[tuple[int, ...]] = []
            self.measure_scopes: dict[int, tuple[int, ...]] = {}
            self.graphs = 1
            self.checks: list[tuple[Check, tuple[int, ...]]] = []
        else:
            assert outer is not None
            self.scope = (*outer.scope, whole.graphs)
            whole.graphs += 1
            self.buffer_scopes, self.measure_scopes = whole.buffer_scopes, whole.measure_scopes
            self.checks = whole.checks
            self.slots, self.buffers, self.kernels = whole.slots, whole.buffers, whole.kernels
            self.instructions, self.constants = whole.instructions, whole.constants
            self.array_names = whole.array_names

    def _returned(self) -> list[Node]:
        """The results in order: outputs that are no writes, with inout arguments between them."""
        graph = self.graph
        made = iter(graph.outputs)
        count = len(graph.outputs) - len(self.writes) + len(graph.written) - graph.hidden
        return [graph.inputs[graph.written[k]] if k in graph.written else next(made) for k in range(count)]

    def inside(
        self, graph: Graph, inputs: Sequence[Storage], outputs: Sequence[Storage], plan: Partition | None = None
    ) -> None:
        """Add what a graph inside this one does, with its inputs and outputs at the given places."""
        inner = Scheduler(graph, self, plan=plan)
        for node, place in zip(graph.inputs, inputs, strict=True):
            inner.storage[node.number] = place
        for node, place in zip(graph.outputs, outputs, strict=True):
            inner.targets[node.number] = place
        inner.fill()

    def fill(self) -> None:
        """Allocate what the graph stores, and add the instructions that compute it."""
        own = [c for c in self.graph.checks if self.whole is self or size_names(c) & self.graph.measured.keys()]
        known = [self.slots.check(c) for c in self.graph.checks if c not in own]
        if known:
            self.instructions.append(Measure(-1, -1, tuple(known)))
        self.checks += [(self.slots.check(c), self.scope) for c in own]
        partitioned = self.partitioned
        roots = partitioned.roots
        stored = self._stored(partitioned.groups, roots)
        for group in partitioned.groups:
            if group.kind == "control":
                self.placed.update(ControlLowering(self, group.roots[0]).reserve())
        for group in partitioned.groups:
            self._allocate(group, stored)
        waiting = list(partitioned.groups)
        while waiting:
            loops = self._element_loops(waiting)
            if loops is None:
                self._run(waiting.pop(0), roots)
            else:
                self._lower_elements(loops)
                del waiting[: len(loops)]

    def plan(self) -> Plan:
        graph = self.graph
        self._store_inputs()
        self.fill()
        for k, result in enumerate(self.results):
            if result in graph.inputs:
                self.outputs[k] = self.storage[result.number].buffer
        follow_order(self.buffers, self.instructions)
        instructions, checks = Settling(
            self.instructions, self.slots.ops, self.buffers, self.checks, self.buffer_scopes, self.measure_scopes
        ).settle()
        program = Program(
            graph.name, self._arguments(), tuple(self.slots.ops), (*self.slots.checks, *checks), tuple(self.buffers),
            tuple(instructions), tuple(self.outputs[k] for k in range(len(self.results))),
            tuple(k.name for k in self.kernels), bytes(self.constants),
        )  # fmt: skip
        return Plan(program, self.kernels, graph, self.slots.numbers, tuple(r.type for r in self.results))

    # -- buffers ------------------------------------------------------------------------------
    def _arguments(self) -> tuple[Arg, ...]:
        found = []
        for node, name in zip(self.graph.inputs, self.graph.input_names, strict=True):
            weak = (
                {"b": "bool", "i": "int", "f": "float", "c": "complex"}[node.dtype.kind]
                if node.type.weak
                else ""
            )
            inout = node.params["index"] in self.graph.inout
            found.append(Arg(name, node.type.code, len(node.shape), weak, inout))
        return tuple(found)

    def _name(self, text: str, rank: int = 0) -> str:
        """A new name for an array; with `_0`, `_1`, ... it names its strides, so these must be new too."""
        stem = "".join(c if c.isalnum() or c == "_" else "_" for c in text).strip("_") or "a"
        stem = f"a{stem}" if stem[0].isdigit() else stem
        name, k = stem, 0
        while not self.array_names.isdisjoint((name, *(f"{name}_{a}" for a in range(rank)))):
            name, k = f"{stem}_{k}", k + 1
        self.array_names.update((name, *(f"{name}_{a}" for a in range(rank))))
        return name

    def _buffer(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        self.buffer_scopes.append(self.scope)
        return len(self.buffers) - 1

    def _dims(self, shape: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(self.slots.slot(d) for d in shape)

    def _store_inputs(self) -> None:
        dense = _shown_flat(self.graph)
        for index, (node, name) in enumerate(zip(self.graph.inputs, self.graph.input_names, strict=True)):
            flat = node.number in dense
            number = self._buffer(Buffer("arg", node.type.code, self._dims(node.shape), index, dense=flat))
            self.storage[node.number] = Storage(
                number, self._name(name, len(node.shape)), node.type.code, node.shape, not flat
            )
        for node in self.graph.nodes():
            if node.op.name == "constant":
                self.constants.extend(b"\0" * (-len(self.constants) % 64))
                offset = len(self.constants)
                self.constants.extend(self.graph.constants[node.params["index"]].tobytes())
                number = self._buffer(Buffer("const", node.type.code, self._dims(node.shape), offset))
                self.storage[node.number] = Storage(
                    number, self._name("constant"), node.type.code, node.shape, False
                )

    def _stored(self, groups: Sequence[Group], roots: set[int]) -> set[int]:
        """Roots whose arrays exist: outputs, and what another group reads."""
        owner = {r.number: g.number for g in groups for r in g.roots}
        stored = {o.number for o in self.graph.outputs}
        for group in groups:
            for root in group.roots:
                if group.kind in ("library", "alias"):
                    stored.add(root.number)
                for access in accesses(root, roots):
                    if owner.get(access.node.number, group.number) != group.number:
                        stored.add(access.node.number)
        return stored

    def _allocate(self, group: Group, stored: set[int]) -> None:
        if group.kind == "control":
            ControlLowering(self, group.roots[0]).allocate()
            return
        if group.kind in ("effect", "measure"):
            return
        group.members = list(group.roots)
        group.roots = [r for r in group.roots if r.number in stored or r.op.kind == "reduce"]
        for root in group.roots:
            if root.number not in stored or is_buffer(root):
                continue
            place = self.placed.get(root.number) or self.output_place(root)
            if place is not None:
                self.storage[root.number] = place
            elif group.kind == "alias":
                source = self.storage[root.operands[0].number]
                number = self._buffer(Buffer("alias", root.type.code, self._dims(root.shape), source.buffer))
                self.storage[root.number] = Storage(
                    number, self._name(f"{source.name}_reshaped"), root.type.code, root.shape, False
                )
            else:
                stem = str(root.params.get("copy", "")).partition(":")[0] or f"{root.op.name}s"
                self.storage[root.number] = self.new_temporary(stem, root.type.code, root.shape)

    def output_place(self, node: Node, dense: bool = False) -> Storage | None:
        """Where an output goes; None for what is none. A `dense` one is in C order."""
        if node.number in self.targets:
            return self.targets[node.number]
        if self.whole is not self:
            return None
        for write in self.writes:
            if write.node is node:
                place = self.storage[write.argument.number]
                return place if write.region is None else replace(place, map=write.map)
        position = next((k for k, result in enumerate(self.results) if result is node), -1)
        if position < 0:
            return None
        stem = "out" if len(self.results) == 1 else f"out{position}"
        dims = self._dims(node.shape)
        number = self._buffer(Buffer("out", node.type.code, dims, position, dense=dense))
        self.outputs[position] = number
        return Storage(number, self._name(stem, len(node.shape)), node.type.code, node.shape, not dense)

    def new_alias(self, source: Storage, stem: str, shape: tuple[Dim, ...]) -> Storage:
        """A place that shows the memory of another, once `Point` says which part."""
        number = self._buffer(Buffer("alias", source.code, self._dims(shape), source.buffer))
        return Storage(number, self._name(stem), source.code, shape, False)

    def new_temporary(self, stem: str, code: str, shape: tuple[Dim, ...]) -> Storage:
        """Working memory of the whole program."""
        number = self._buffer(Buffer("temp", code, self._dims(shape)))
        return Storage(number, self._name(stem), code, shape, False)

    # -- instructions -------------------------------------------------------------------------
    def _run(self, group: Group, roots: set[int]) -> None:
        if not group.roots:
            return
        if group.kind == "alias":
            (root,) = group.roots
            if self.whole.has_loops:  # memory may have changed places
                source = self.storage[root.operands[0].number]
                self.instructions.append(Point(self.storage[root.number].buffer, source.buffer))
            return
        if group.kind == "control":
            ControlLowering(self, group.roots[0]).lower()
            return
        if group.kind == "library":
            self._library(group)
            return
        if group.kind == "measure":
            (root,) = group.roots
            slot = self.slots.slot(sizes.name(root.params["name"]))
            self.measure_scopes[len(self.instructions)] = self.scope
            self.instructions.append(Measure(slot, self.storage[root.operands[0].number].buffer))
            return
        if group.kind == "effect":
            self._effect(group.roots[0])
            return
        self._kernels(lambda status: self._lowering(group, self._nest(status), roots, status).lower())

    def _element_loops(self, groups: Sequence[Group]) -> list[Node] | None:
        """The loops of elements that come first, as many as can share a kernel; None where another group does."""
        found: list[Node] = []
        joined = Joined(self.graph, self.storage)
        owned: dict[int, Owned] = {}
        for group in groups:
            loop = element_loop(group.roots[0]) if group.kind == "control" else None
            if loop is None or (found and loop.domain != joined.loops[0].loop.domain):
                break
            made = joined.add(group.roots[0], loop, self.places[group.roots[0].number], f"step{len(found)}")
            if not joined.reads_own(made, owned):
                break
            owned |= made.owned()
            found.append(group.roots[0])
        return found or None

    def _lower_elements(self, nodes: Sequence[Node]) -> None:
        """Add the kernel of loops of elements."""

        def lower(status: object) -> list[Kernel]:
            nest = self._nest(status)
            joined = Joined(self.graph, self.storage)
            for node in nodes:
                loop = element_loop(node)
                assert loop is not None
                joined.add(node, loop, self.places[node.number], nest.fresh("step"))
            nest.graph, nest.storage = joined.graph, joined.storage
            (kernel,) = ElementLowering(joined, nest).lower()
            kernel.computed = {}  # numbers of another graph's nodes
            return [kernel]

        self._kernels(lower)

    def lower_write(self, write: Write, place: Storage, stored: dict[int, Storage]) -> None:
        """Add the kernel that writes a stored value into an array, at stored positions."""

        def lower(status: object) -> list[Kernel]:
            nest = self._nest(status)
            nest.storage = stored
            return WriteLowering(write, place, nest, stored).lower()

        self._kernels(lower)

    def _kernels(self, lower: Callable[[object], Sequence[Kernel]]) -> None:
        """Add kernels and their calls, and raise what they find."""
        statuses: dict[tuple[str, str], Storage] = {}

        def status(message: str, exception: str = "IndexError") -> Storage:
            if (message, exception) not in statuses:
                number = self._buffer(Buffer("temp", "i64", self._dims((3,)), zero=True))
                statuses[message, exception] = Storage(number, self._name("status"), "i64", (3,), False)
            return statuses[message, exception]

        for kernel in lower(status):
            self._call(kernel)
        for (message, exception), place in statuses.items():
            self.instructions.append(RaiseIf(place.buffer, exception, message))

    def _library(self, group: Group) -> None:
        first = group.roots[0]
        operands = tuple(self.storage[o.number].buffer for o in first.operands)
        routine = first.params.get("routine") or MATMUL
        made = {root.params.get("result", 0): self.storage[root.number].buffer for root in group.roots}
        results = tuple(made.get(k, -1) for k in range(max(made) + 1))
        self.instructions.append(LibraryCall(routine.with_sizes(self.slots.slot), operands, results))

    def _effect(self, node: Node) -> None:
        values = [(self.storage[o.number].buffer, o.type.weak) for o in node.operands]
        condition = -1
        if node.op.name == "check":
            condition, _ = values.pop(0)
        exception = node.params.get("exception", "")
        self.instructions.append(Effect(condition, exception, node.params["text"], tuple(values)))

    def _nest(self, status: object) -> Nest:
        number = len(self.kernels)
        nest = Nest(f"{self.whole.graph.name}_{number}", self.graph, self.storage, self.array_names)
        nest.status_needed = status  # type: ignore[assignment]
        return nest

    def _lowering(self, group: Group, nest: Nest, roots: set[int], status: object) -> GroupLowering:
        """The shape of nest that fits a group."""
        common = (self.graph, group, nest, self.storage, roots)
        if group.kind == "scan":
            return ScanLowering(*common)
        if group.kind == "argreduce":
            return ExtremeLowering(*common)
        if group.kind == "count":
            return CountLowering(*common, second=self._second(status))
        if group.kind == "filter":
            return FilterLowering(*common)
        if not group.reduced:
            return MapLowering(*common)
        if not group.outer:
            return BlockLowering(*common, self.new_temporary, self._second(status))
        if len(group.domain) - 1 in group.reduced:
            return RowLowering(*common)
        if len(group.reduced) == 1 and _folds_once(group):
            return PanelLowering(*common, self.new_temporary, self._second(status))
        return ColumnLowering(*common)

    def _second(self, status: object) -> Nest:
        """The nest after the one that is being lowered."""
        nest = self._nest(status)
        nest.name = f"{self.whole.graph.name}_{len(self.kernels) + 1}"
        return nest

    def _call(self, kernel: Kernel) -> None:
        number = len(self.kernels)
        self.kernels.append(kernel)
        if self.whole is not self:  # numbers of another graph's nodes
            kernel.computed = {}
        pointers = tuple(p.buffer for p in kernel.pointers if p.role != "scratch")
        ints = tuple(
            Stride(i.buffer, i.axis) if i.axis >= 0 else Size(self.slots.slot(i.size))
            for i in kernel.integers
        )
        position = {i.name: k for k, i in enumerate(kernel.integers)}
        collapse = None
        if kernel.collapse is not None:
            extents, operands, reorder = kernel.collapse
            collapse = Collapse(
                tuple(position[e] for e in extents),
                tuple(tuple(-1 if s == "-1" else position[s] for s in operand) for operand in operands),
                reorder,
            )
        scratch = -1 if kernel.scratch == 0 else self.slots.slot(kernel.scratch)
        scratch_ints = tuple(Size(self.slots.slot(p.offset)) for p in kernel.pointers if p.role == "scratch")
        self.instructions.append(
            KernelCall(
                number,
                pointers,
                ints + scratch_ints,
                self.slots.slot(kernel.count),
                self.slots.slot(kernel.work),
                kernel.cost,
                kernel.grain,
                scratch,
                collapse,
            )
        )


def _folds_once(group: Group) -> bool:
    """True when no fold depends on another, and nothing is stored for each element of the domain."""
    folds = {r.number for r in group.roots if r.op.kind == "reduce"}
    inner = [r for r in group.roots if r.op.kind == "reduce" or domain_of(r)[0] == group.domain]
    if len(inner) != len(folds):
        return False
    seen = {n.number for f in inner for n in topological(f.operands)}
    return not folds & seen


def _size_names(graph: Graph) -> set[str]:
    """The names of sizes in a graph and in those inside it."""
    found = {n for node in graph.nodes() for d in node.shape for n in sizes.names(d)}
    return found.union(*(_size_names(g) for node in graph.nodes() for g in subgraphs(node)))


def _shown_flat(graph: Graph) -> set[int]:
    """The nodes that must lie in C order: what is reshaped, and what a loop reads row by row."""
    found: set[int] = set()
    for node in graph.nodes():
        if node.op.kind == "reshape":
            found.add(node.operands[0].number)
        if node.op.name == "loop":
            first = 2 + node.params["carried"]
            found.update(o.number for o in node.operands[first : first + node.params["sliced"]])
        for inner in subgraphs(node):
            flat = _shown_flat(inner)
            # inputs of the inner graph are the last operands, except for the counter of a loop
            before = len(inner.inputs) - len(node.operands)
            for k, given in enumerate(inner.inputs):
                if given.number in flat and k >= before:
                    found.add(node.operands[k - before].number)
    return found


def schedule(graph: Graph) -> Plan:
    """Fuse, lower and order a simplified graph."""
    graph = separate_carried(graph)
    writes = separate_arguments(graph)
    separate_outputs(graph)
    return Scheduler(graph, writes=writes).plan()
