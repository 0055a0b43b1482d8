"""A loop that traced values steer: its step is traced until it carries all that it changes, in types that stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import TraceError
from ...graph import Node
from ...types import ArrayType
from .. import bodies, control, promote
from ..bodies import Body
from ..context import here
from ..control import COUNT
from ..tracer import Storage, Tracer
from ..trees import LEAF, NONE, Structure
from .aliases import Aliases, Carried, Made, storage_of, tie
from .jumps import RESULT
from .slots import Slot, adapt, nested, spoken
from .state import Pass, State, fill
from .values import Maybe, Seen, Unset, fresh, is_array, same, shown, zeros

#: how often a step is traced before the types of what it carries must stay
PASSES = 30
_FLAGS = "_aot_"


@dataclass(frozen=True)
class Counter:
    """A counted loop: from `lower` to `upper - 1`, or back; a step gets what `item` makes of the counter."""

    lower: Node
    upper: Node
    backwards: bool
    item: Callable[[Tracer], Any]


class Loop:
    """One loop of the program in the making."""

    def __init__(
        self, state: State, body: Callable[..., Any], test: Callable[[], Node] | None, counter: Counter | None,
        ran: Callable[[], Any],
    ) -> None:  # fmt: skip
        self.state, self.trace, self.body, self.test, self.counter = state, state.trace, body, test, counter
        self.where = here()
        self.ran = ran
        self.slots: list[Slot] = []
        self.variables: dict[int, Slot] = {}
        self.aliases = Aliases(self.trace, self.where)

    def run(self) -> None:
        """Trace, emit, and give the variables their values after the loop."""
        self.state.refuse()
        for k, value in enumerate(self.state.entry):
            if not self._starts_as_it_is(k, value):
                self._carry_variable(k)
        for name in sorted(self.state.site.written):
            value = self._value_of(name)
            if type(value) is Tracer and not value._storage.scalar and not value._storage.argument:
                k = self.state.names.index(name) if name in self.state.names else -1
                if k not in self.variables and self.trace.note_write(value._storage):
                    self._carry_array(value._storage, value._storage.node)
        for _ in range(PASSES):
            checks = len(self.trace.graph.checks)
            step = self._step()
            if not self._settle(step):
                break
            del self.trace.graph.checks[checks:]
        else:
            raise TraceError(
                f"{self.where}: the types of what this loop carries do not come to rest; give the variables their "
                f"final types before it"
            )
        self._emit(step)

    # -- what is carried ------------------------------------------------------------------------
    def _value_of(self, name: str) -> Any:
        names = self.state.names
        return self.state.entry[names.index(name)] if name in names else self.state.others.get(name)

    def _starts_as_it_is(self, k: int, value: Any) -> bool:
        """True for variables that are carried only once a step is seen to change them."""
        site, name = self.state.site, self.state.names[k]
        if name.startswith(_FLAGS):
            return self.counter is not None or name == RESULT
        if type(value) in (Unset, Maybe):
            return True
        if is_array(value) and name not in site.whole:
            return True
        return not any(n is not None for n in Seen.of(self.trace, value).nodes)

    def _carry_variable(self, k: int, out: Seen | None = None) -> None:
        name, value = self.state.names[k], self.state.entry[k]
        seen = Seen.of(self.trace, value)
        late = seen.structure is None or type(value) is Maybe
        hidden = name not in self.state.site.again
        if seen.structure is None:
            assert out is not None and out.structure is not None
            leaves = list(out.leaves)
            nodes = [None if n is None else zeros(self.trace, n) for n in out.nodes]
            seen = Seen(out.structure, leaves, nodes, False)
            if any(n is None for n in nodes):
                bad = next(v for v, n in zip(leaves, nodes, strict=True) if n is None)
                raise TraceError(
                    f"{self.where}: variable {name!r} becomes {shown(bad)} in a loop that values steer, and is used "
                    f"after a step; assign it before the loop"
                )
        assert seen.structure is not None
        slot = Slot(name, seen.structure, list(seen.leaves), list(seen.nodes), k, hidden, late)
        if late and not hidden and name != RESULT:  # where it has a value is carried too
            slot.structure = Structure("tuple", (slot.structure, LEAF))
            slot.leaves.append(seen.flag)
            slot.nodes.append(promote.node_of(self.trace, seen.flag))
        self.variables[k] = slot
        self.slots.append(slot)

    def _carry_array(self, storage: Storage, node: Node) -> None:
        leaf = Tracer(self.trace, storage)
        self.slots.append(Slot("an array", LEAF, [leaf], [node], storage))

    def _carry_container(self, container: Any, seen: Seen, name: str) -> None:
        assert seen.structure is not None
        self.slots.append(Slot(name, seen.structure, list(seen.leaves), list(seen.nodes), container))

    # -- one step -------------------------------------------------------------------------------
    def _step(self) -> Pass:
        """Trace the condition and the body with what is carried as parameters."""
        state, test = self.state, self.test
        self.cond: Body | None = None
        counted = self.counter is not None
        if test is not None:
            with state.body() as run:
                lead = [self._parameter(run.number, 0, COUNT)] if counted else []
                parameters = self._enter(run.number, len(lead))
                going = test()
                if self.counter is not None:
                    inside = self.trace.graph.apply("less", (lead[0], self._bound()), here())
                    going = self.trace.graph.apply("logical_and", (inside, going), here())
            if any(run.nodes[key][0] is not self.entered.get(key, s.node) for key, s in run.storages.items()):
                raise TraceError(f"{self.where}: the condition of a loop may not write into arrays")
            self.cond = Body(run.number, self.where, [*lead, *parameters], [going], NONE, run.effects)
        with state.body() as run:
            lead = [self._parameter(run.number, 0, COUNT)] if counted else []
            self.parameters = [*lead, *self._enter(run.number, len(lead))]
            self.body(
                *([self.counter.item(Tracer.of(self.trace, lead[0]))] if self.counter is not None else [])
            )
        self.lead = lead
        return run

    def _bound(self) -> Node:
        assert self.counter is not None
        return self.counter.upper

    def _parameter(self, number: int, index: int, kind: ArrayType) -> Node:
        return self.trace.graph.apply("parameter", (), self.where, kind, body=number, index=index)

    def _enter(self, number: int, first: int) -> list[Node]:
        """Parameters for all that is carried, in the places where the body looks for it."""
        values = list(self.state.entry)
        parameters: list[Node] = []
        self.entered = self.aliases.begin()
        for slot in self.slots:
            leaves = list(slot.leaves)
            for k in slot.carried:
                node = slot.nodes[k]
                assert node is not None
                parameter = self._parameter(number, first + len(parameters), node.type)
                parameters.append(parameter)
                leaves[k] = self._inner(parameter, slot, k)
            if isinstance(slot.place, int):
                values[slot.place] = self._within(slot, leaves)
            elif isinstance(slot.place, Storage):
                self.trace.note_write(slot.place)
                slot.place.node = self.entered[id(slot.place)] = parameters[-1]
                slot.place.version += 1
            else:
                fill(slot.place, slot.structure.rebuild(iter(leaves)))
        self.state.put(values)
        return parameters

    def _inner(self, parameter: Node, slot: Slot, k: int) -> Tracer:
        made = fresh(self.trace, parameter, slot.leaves[k])
        if is_array(slot.leaves[k]) and type(slot.leaves[k]) is Tracer:
            made._storage.argument = slot.leaves[k]._storage.argument
            if isinstance(slot.place, int) or not isinstance(slot.place, Storage):
                self.aliases.inner[id(slot), k] = made._storage
        return made

    def _within(self, slot: Slot, leaves: list[Any]) -> Any:
        """What a variable is when a step begins."""
        if slot.hidden:
            return Unset(slot.name, "a step of the loop assigns it")
        found = slot.structure.rebuild(iter(leaves))
        if not slot.late:
            return found
        if slot.name == RESULT:
            return Maybe(RESULT, found, True, "")
        return Maybe(slot.name, found[0], found[1], self._why())

    def _why(self) -> str:
        return f"the loop in line {self.where.line} gives it one as it runs"

    # -- what a step leaves ---------------------------------------------------------------------
    def _settle(self, step: Pass) -> bool:
        """True when the step must be traced again, with more carried or in other types."""
        changed = False
        places = {id(s.place) for s in self.slots if not isinstance(s.place, int)}
        for key, storage in step.storages.items():
            if key not in places and step.nodes[key][0] is not storage.node:
                self._carry_array(storage, storage.node)
                changed = True
        for key, container in step.containers.items():
            if key not in places:
                before, name = self.state.containers[key][1:]
                self._carry_container(container, Seen.of(self.trace, before), name)
                changed = True
        for k in range(len(self.state.names)):
            if k not in self.variables and not same(step.values[k], self.state.entry[k]):
                entry = self.state.entry[k]
                if step.seen[k].structure is None:  # it had a value before, and lost it
                    raise TraceError(
                        f"{self.where}: variable {self.state.names[k]!r} loses its value in a step of the loop"
                    )
                self._require_nesting(self.state.names[k], Seen.of(self.trace, entry), step.seen[k])
                self._carry_variable(k, step.seen[k])
                changed = changed or not self.variables[k].hidden
                if self.variables[k].hidden:
                    self._add_parameters(self.variables[k], step)
        if changed:
            return True
        self.carried: dict[tuple[int, int], Carried] = {}
        for slot in self.slots:
            seen = self._left(slot, step)
            changed = self._adapt(slot, seen) or changed
            if (
                not isinstance(slot.place, Storage) and slot.name != RESULT
            ):  # nothing is written after `return`
                self._note_arrays(slot, seen)
        written = [
            s for key, s in step.storages.items() if step.nodes[key][0] is not self.entered.get(key, s.node)
        ]
        return self.aliases.settle(self.carried, step.number, written) or changed

    def _pairs(self) -> list[tuple[Slot, int]]:
        return [(s, k) for s in self.slots for k in s.carried]

    def _note_arrays(self, slot: Slot, seen: Seen) -> None:
        for k, leaf in enumerate(seen.leaves):
            entry = None if self._starts_unset(slot) else storage_of(slot.leaves[k])
            inner, left = self.aliases.inner.get((id(slot), k)), storage_of(leaf)
            if entry is not None or left is not None:
                self.carried[id(slot), k] = Carried(slot.name, entry, inner, left, slot.hidden)

    def _add_parameters(self, slot: Slot, step: Pass) -> None:
        """Parameters that no step reads, for what a step leaves."""
        places = [(self.parameters, step.number)]
        if self.cond is not None:
            places.append((self.cond.parameters, self.cond.number))
        for parameters, number in places:
            for k in slot.carried:
                node = slot.nodes[k]
                assert node is not None
                parameters.append(self._parameter(number, len(parameters), node.type))

    def _require_nesting(self, name: str, before: Seen, after: Seen) -> None:
        if before.structure is None or before.structure == after.structure:
            return
        raise TraceError(
            f"{self.where}: {spoken(name)} is {nested(before)} before a step of the loop and {nested(after)} after "
            f"it; what a loop carries keeps its form: give it its final form before the loop"
        )

    def _left(self, slot: Slot, step: Pass) -> Seen:
        """What a slot holds at the end of the step."""
        if isinstance(slot.place, int):
            seen = step.seen[slot.place]
            if seen.structure is None:
                return Seen(slot.structure, slot.leaves, list(slot.nodes))
            bare = slot.structure.children[0] if self._has_flag(slot) else slot.structure
            self._require_nesting(slot.name, Seen(bare, slot.leaves), seen)
            if self._has_flag(slot):
                flag = promote.node_of(self.trace, seen.flag)
                return Seen(slot.structure, [*seen.leaves, seen.flag], [*seen.nodes, flag])
            return seen
        if isinstance(slot.place, Storage):
            state = step.nodes.get(id(slot.place))
            node = slot.place.node if state is None else state[0]
            return Seen(slot.structure, slot.leaves, [node])
        found: Seen | None = step.contents.get(id(slot.place))
        if found is None:
            return Seen(slot.structure, slot.leaves, list(slot.nodes))
        self._require_nesting(slot.name, Seen(slot.structure, slot.leaves), found)
        return found

    def _has_flag(self, slot: Slot) -> bool:
        return slot.late and not slot.hidden and slot.name != RESULT

    def _adapt(self, slot: Slot, seen: Seen) -> bool:
        def restarts() -> bool:
            return self._starts_unset(slot) or (slot.hidden and self.ran() is True)

        return adapt(self.trace, self.where, slot, seen, restarts)

    def _starts_unset(self, slot: Slot) -> bool:
        return isinstance(slot.place, int) and type(self.state.entry[slot.place]) is Unset

    # -- the program ----------------------------------------------------------------------------
    def _emit(self, step: Pass) -> None:
        trace, count = self.trace, len(self.lead)
        pairs = self._pairs()
        mine = self.parameters[count:]
        kept = [j for j, (s, k) in enumerate(pairs) if s.outputs[k] is not mine[j]]
        outputs = [pairs[j][0].outputs[pairs[j][1]] for j in kept]
        entry = [pairs[j][0].nodes[pairs[j][1]] for j in kept]
        unchanged = [j for j in range(len(pairs)) if j not in kept]
        body = Body(
            step.number,
            self.where,
            self.parameters,
            [n for n in outputs if n is not None],
            NONE,
            step.effects,
        )
        body.same = self._same(mine, pairs, unchanged)
        carried = [n for n in entry if n is not None]
        if self.test is None:
            assert self.counter is not None
            (graph,), captured = bodies.extract(trace, [body])
            operands = [self.counter.lower, self.counter.upper, *carried, *captured]
            made = bodies.record(
                trace,
                "loop",
                operands,
                self.where, carried=len(carried), body=graph, sliced=0, length=0,
                reverse=self.counter.backwards,
            )  # fmt: skip
            new = iter(control.results(trace, made, [n.type for n in carried]))
        else:
            assert self.cond is not None
            cond = self.cond
            cond.same = self._same(cond.parameters[count:], pairs, unchanged)
            if self.counter is not None:  # the counter is carried like a variable
                one = trace.graph.literal(1, promote.INT64, self.where)
                body.outputs = [trace.graph.apply("add", (self.lead[0], one), self.where), *body.outputs]
                carried = [self.counter.lower, *carried]
            graphs, captured = bodies.extract(trace, [cond, body])
            made = bodies.record(
                trace,
                "while",
                [*carried, *captured],
                self.where,
                carried=len(carried),
                cond=graphs[0],
                body=graphs[1],
            )
            new = iter(list(control.results(trace, made, [n.type for n in carried]))[count:])
        found = {(id(pairs[j][0]), pairs[j][1]): next(new).node for j in kept}
        self._leave(step, found)

    def _same(
        self, mine: Sequence[Node], pairs: Sequence[tuple[Slot, int]], unchanged: Sequence[int]
    ) -> dict[int, Node]:
        same_as: dict[int, Node] = {}
        for j in unchanged:
            if j < len(mine):
                node = pairs[j][0].nodes[pairs[j][1]]
                assert node is not None
                same_as[mine[j].number] = node
        return same_as

    def _leave(self, step: Pass, found: dict[tuple[int, int], Node]) -> None:
        """Give variables, arrays and containers what they hold after the loop."""
        values = list(self.state.entry)
        made: list[Made] = []
        for slot in self.slots:
            leaves = list(slot.leaves)
            for k in slot.carried:
                node = found.get((id(slot), k))
                if node is not None:
                    leaves[k] = fresh(self.trace, node, slot.leaves[k])
                    one = self.carried.get((id(slot), k))
                    if one is not None and is_array(leaves[k]):
                        sources = self.aliases.sources(one, self.carried, step.number)
                        made.append(Made(leaves[k]._storage, [one.entry, one.left], sources))
            if isinstance(slot.place, Storage):
                if (id(slot), 0) in found and self.trace.note_write(slot.place):
                    state = step.nodes[id(slot.place)]
                    slot.place.state = (
                        found[id(slot), 0],
                        max(state[1], slot.place.version) + 1,
                        (),
                        state[3],
                    )
            elif not isinstance(slot.place, int):
                fill(slot.place, slot.structure.rebuild(iter(leaves)))
            else:
                values[slot.place] = self._made(slot, step, slot.structure.rebuild(iter(leaves)))
        places = {id(s.place) for s in self.slots if isinstance(s.place, Storage)}
        for key, storage in step.storages.items():
            if key not in places and self.trace.note_write(storage):  # not written, but not known any more
                storage.state = step.nodes[key]
        tie(made, [step.number])
        self.state.put(values)

    def _made(self, slot: Slot, step: Pass, value: Any) -> Any:
        if slot.name == RESULT or not slot.late:
            return value
        if not slot.hidden:
            value, flag = value
        else:
            flag = self.ran()
        if flag is False:
            return Unset(slot.name, self._why())
        return value if flag is True else Maybe(slot.name, value, flag, self._why())
