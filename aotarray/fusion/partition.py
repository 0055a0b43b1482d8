"""Graph to groups: which nodes are stored, and which of those share one loop nest.

A *root* is a node whose value is stored (or folded): outputs, reductions, operands of library calls, and
element-wise values that would otherwise be recomputed at a price. Everything else is recomputed where it
is used, inlined into the loop that needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from ..graph import Graph, Node, has_effects, topological
from ..sizes import Dim
from .access import (
    Access,
    Index,
    accesses,
    concat_pieces,
    domain_of,
    folded,
    inlines_reduction,
    loop_index,
    operand_uses,
    reads_what_it_changes,
)  # fmt: skip
from .arguments import ArgumentWrite, may_share, memory_of
from .elements import stored_operands
from .tails import few_elements, find_mixed, places

#: recomputing a value costs its price; storing and reloading one costs about this many additions
STORE_PRICE = 6


#: values that are spelled more often than once: at most this many additions in all
LARGEST_REPEATED = 256
#: blocks inside blocks that a value may be computed in
DEEPEST_BRANCH = 12

#: kinds of op whose values are always stored, or made by a group of their own
_ROOTS = ("argreduce", "scan", "library", "control", "result", "effect", "count", "measure", "positions")

#: the conditional blocks around a use, outermost first: (node, operand)
Branch = tuple[tuple[int, int], ...]
#: where a value is read: by which root, in which blocks, at which index
Use = tuple[int, Branch, Index]


@dataclass
class Group:
    """Roots that share one loop nest over `domain`; `reduced` are the domain axes that are folded."""

    kind: str  # "loop", "scan", "argreduce", "library", "alias", "control", "effect", "count", "measure", "filter"
    domain: tuple[Dim, ...]
    reduced: tuple[int, ...] = ()
    roots: list[Node] = field(default_factory=list)
    members: list[Node] = field(default_factory=list)  # roots, and what was one until only roots here read it
    after: set[int] = field(default_factory=set)  # groups that must run before this one
    number: int = 0

    @property
    def outer(self) -> tuple[int, ...]:
        """The domain axes that are not folded."""
        return tuple(a for a in range(len(self.domain)) if a not in self.reduced)

    @property
    def outer_shape(self) -> tuple[Dim, ...]:
        return tuple(self.domain[a] for a in self.outer)


@dataclass
class Partition:
    """The plan: groups in the order they run, and the roots."""

    groups: list[Group]
    roots: set[int]


def is_buffer(node: Node) -> bool:
    """Arguments and captured arrays are in memory already."""
    return node.op.name in ("input", "constant")


def partition(graph: Graph, writes: Sequence[ArgumentWrite] = ()) -> Partition:
    """The plan for a simplified graph, of which some outputs are `writes` into arguments."""
    nodes = graph.nodes()
    roots = find_roots(graph, nodes, {o.number for write in writes for o in write.node.operands})
    last = {write.node.number for write in writes}
    groups: list[Group] = []
    group_of: dict[int, Group] = {}
    happened: set[int] = set()  # the group of the last effect
    for node in nodes:
        if node.op.kind == "result":
            group_of[node.number] = group_of[node.operands[0].number]
        elif node.number in roots and not is_buffer(node) and node.number not in last:
            waits = bool(happened) and (has_effects(node) or _may_raise(node, roots))
            _place(node, roots, groups, group_of, happened if waits else set())
            if has_effects(node):
                happened = {group_of[node.number].number}
    for k, write in enumerate(writes):
        earlier = {group_of[w.node.number].number for w in writes[:k] if w.argument is write.argument}
        _place_write(write, nodes, roots, groups, group_of, earlier)
    return Partition(_in_order(groups), roots)


def find_roots(graph: Graph, nodes: Sequence[Node], also: Set[int] = frozenset()) -> set[int]:
    """The nodes that are stored, and `also` those given, decided from users to operands."""
    roots = {o.number for o in graph.outputs} | also
    for node in nodes:
        if node.op.kind in _ROOTS or (node.op.kind == "reduce" and not inlines_reduction(node)):
            roots.add(node.number)
        if node.op.kind in ("library", "effect", "measure"):
            roots.update(o.number for o in node.operands)
        if node.op.kind == "control":
            roots.update(o.number for o in stored_operands(node))
        if node.op.kind == "reshape":
            roots.add(node.number)
            roots.add(node.operands[0].number)
    forms: dict[int, set[Use]] = {n.number: set() for n in nodes}
    price: dict[int, int] = {}
    for node in nodes:
        below = sum(price[o.number] for o in node.operands)
        if node.op.kind == "reduce":
            below = (below + 1) * folded(node)
        price[node.number] = 1 if node.number in roots or is_buffer(node) else _own_price(node) + below
    mixed = find_mixed(nodes)
    written_out: set[int] = set()
    for node in reversed(nodes):
        uses = _spelled_once(forms.pop(node.number))
        stored = node.number in roots or is_buffer(node)
        count = _evaluations(node, [o for o, _ in {(origin, index) for origin, _, index in uses}], written_out)
        spelled = _evaluations(node, [origin for origin, _, _ in uses], written_out)
        if _worth_storing(node, count, price[node.number]) or _too_long(node, uses, spelled, price[node.number]):
            roots.add(node.number)
            stored = True
        starts: list[Use] = [(node.number, (), index) for index in places(node, mixed)]
        if stored and len(starts) > 1:
            written_out.add(node.number)
        for origin, branch, index in starts if stored else uses:
            for k, (operand, operand_index) in enumerate(operand_uses(node, index)):
                inner = (*branch, (node.number, k)) if _in_branch(node, k, index) else branch
                forms[operand.number].add((origin, inner, operand_index))
    return roots


def _evaluations(node: Node, origins: Sequence[int], written_out: set[int]) -> int:
    """How many of these uses are of one element: where a nest writes out its tail, the others are of its neighbours."""
    few = few_elements(node)
    return sum(-(-n // few) if origin in written_out else n for origin, n in Counter(origins).items())


def _in_branch(node: Node, operand: int, index: Index) -> bool:
    """True for what is computed only where a condition holds, and so spelled in a block of its own."""
    if node.op.kind == "update":
        return operand == 1 or not reads_what_it_changes(node, index)
    if node.op.kind == "put":
        return operand < 2
    if node.op.kind == "concat":
        return len(concat_pieces(node, index)) > 1
    return node.op.kind == "gather" and "trusted" not in node.params and operand == 0


def _spelled_once(uses: set[Use]) -> list[Use]:
    """Uses without those in a block of whose enclosing blocks another has the value at hand."""
    kept: list[Use] = []
    known: dict[tuple[int, Index], list[Branch]] = {}
    for origin, branch, index in sorted(uses, key=lambda use: (len(use[1]), use[0], use[1], str(use[2]))):
        outer = known.setdefault((origin, index), [])
        if not any(branch[: len(o)] == o for o in outer):
            outer.append(branch)
            kept.append((origin, branch, index))
    return kept


def _too_long(node: Node, uses: Sequence[Use], spelled: int, price: int) -> bool:
    """Code that would be spelled many times, or in blocks too deep to read."""
    if node.op.kind in ("leaf", "view"):
        return False
    if node.op.kind == "reduce" and price > LARGEST_REPEATED:
        return True
    deep = max((len(branch) for _, branch, _ in uses), default=0) > DEEPEST_BRANCH
    return deep or (spelled > 1 and spelled * price > LARGEST_REPEATED)


def _own_price(node: Node) -> int:
    if node.op.kind in ("view", "leaf"):
        return 0
    if node.op.kind == "reduce":
        return 0
    return node.op.cost * (3 if node.dtype.kind == "c" else 1)


def _worth_storing(node: Node, uses: int, price: int) -> bool:
    """A value used at several places of the index space, dear enough that reloading is cheaper."""
    if node.op.kind in ("leaf", "view") or uses < 2 or not node.shape:
        return False
    return (uses - 1) * price > STORE_PRICE * 2 and price > 3


def _may_raise(root: Node, roots: set[int]) -> bool:
    """True where computing a root from stored values raises for some values, or may take for ever."""
    stack, seen = [root], {root.number}
    while stack:
        node = stack.pop()
        if node.op.kind in ("gather", "put", "library", "control", "measure") or node.op.name == "guard":
            return True
        inner = [o for o in node.operands if o.number not in roots and o.number not in seen]
        seen.update(o.number for o in inner)
        stack += inner
    return False


def _place(
    node: Node, roots: set[int], groups: list[Group], group_of: dict[int, Group], happened: set[int]
) -> None:
    """Add a root to the last group that can take it, or to a new one, which runs after the groups `happened`."""
    found = accesses(node, roots)
    before = [a.node for a in found] + measures_of(node, roots)
    needed = {group_of[n.number].number for n in before if n.number in group_of} | happened
    candidate = _new_group(node, len(groups))
    if candidate.kind == "loop":
        for group in reversed(groups):
            if group.kind in ("loop", "filter") and _can_join(
                node, candidate, group, found, needed, groups, group_of, roots
            ):
                group.roots.append(node)
                group.after |= needed - {group.number}
                if candidate.reduced:
                    group.reduced, group.domain = candidate.reduced, candidate.domain
                group_of[node.number] = group
                return
    if node.op.name == "call":
        for group in groups:
            if group.kind == "library" and _is_same_call(group.roots[0], node):
                group.roots.append(node)
                group_of[node.number] = group
                return
    if node.op.kind == "positions":
        for group in groups:
            if group.kind == "filter" and group.roots[0].operands == node.operands:
                group.roots.append(node)
                group_of[node.number] = group
                return
    candidate.roots.append(node)
    candidate.after = needed
    groups.append(candidate)
    group_of[node.number] = candidate


def _place_write(
    write: ArgumentWrite, nodes: Sequence[Node], roots: set[int], groups: list[Group], group_of: dict[int, Group],
    earlier: set[int],
) -> None:  # fmt: skip
    """Add a write to the group that makes its value, or to a new one, after all that reads the argument or raises.

    `earlier` are the groups with writes into other regions of the argument.
    """
    memory = memory_of(write.argument, nodes)
    readers = {
        g.number for g in groups if any(a.node.number in memory for r in g.roots for a in accesses(r, roots))
    }
    raising = {g.number for g in groups if any(has_effects(r) or _may_raise(r, roots) for r in g.roots)}
    group = group_of[write.node.operands[0].number]
    before = (readers | raising | earlier) - {group.number}
    fused = (
        group.kind == "loop"
        and group.number not in raising | earlier
        and _in_last_pass(write.node, group)
        and may_share(write, group.roots, roots, memory)
        and not any(_depends(groups[g], group.number, groups) for g in before)
    )
    if not fused:
        before |= {group.number}
        group = _new_group(write.node, len(groups))
        groups.append(group)
    group.roots.append(write.node)
    group.after |= before
    group_of[write.node.number] = group


def overwrite(plan: Partition, nodes: Sequence[Node], values: Sequence[ArgumentWrite]) -> set[int]:
    """The numbers of the values that can be stored over the input they are given for; orders the plan for that.

    The nest that makes such a value reads the input only at the element it overwrites, before it does, and runs
    after all others that read the input.
    """
    groups = sorted(plan.groups, key=lambda group: group.number)
    reads = {
        root.number: {a.node.number for a in accesses(root, plan.roots)} for g in groups for root in g.roots
    }
    found: set[int] = set()
    for write in values:
        group = next((g for g in groups if write.node in g.roots), None)
        if group is None or group.kind != "loop" or write.node.op.kind == "reduce":
            continue
        memory = memory_of(write.argument, nodes)
        before = {g.number for g in groups if g is not group and any(reads[r.number] & memory for r in g.roots)}
        later = group.roots[group.roots.index(write.node) + 1 :]
        if (
            write.node.type == write.argument.type
            and not any(r.op.kind != "reduce" and reads[r.number] & memory for r in later)
            and _in_last_pass(write.node, group)
            and may_share(write, group.roots, plan.roots, memory)
            and not any(_depends(groups[g], group.number, groups) for g in before)
        ):
            group.after |= before
            found.add(write.node.number)
    plan.groups = _in_order(groups)
    return found


def _in_last_pass(node: Node, group: Group) -> bool:
    """True when a node that joins the group has its elements stored in the last pass over them."""
    if domain_of(node)[0] != group.domain:
        return False
    folds = {r.number for r in group.roots if r.op.kind == "reduce"}
    return not folds or not group.outer or folds <= {n.number for n in topological([node])}


def measures_of(root: Node, roots: set[int]) -> list[Node]:
    """What measures the sizes that computing a root mentions: its own, and those of what is computed in it."""
    found: list[Node] = []
    seen = {root.number}
    stack = [root]
    while stack:
        node = stack.pop()
        found += node.measures
        for operand in node.operands:
            if operand.number not in seen and operand.number not in roots and not is_buffer(operand):
                seen.add(operand.number)
                stack.append(operand)
    return found


def _is_same_call(a: Node, b: Node) -> bool:
    """True for two results of one call."""
    same = a.op is b.op and a.params.get("routine") == b.params.get("routine")
    return same and [o.number for o in a.operands] == [o.number for o in b.operands]


def _new_group(node: Node, number: int) -> Group:
    domain, reduced = domain_of(node)
    kind = {
        "library": "library", "reshape": "alias", "scan": "scan", "argreduce": "argreduce", "control": "control",
        "effect": "effect",
        "count": "count", "measure": "measure", "positions": "filter",
    }.get(node.op.kind, "loop")  # fmt: skip
    return Group(kind, domain, reduced, number=number)


def _can_join(
    node: Node, candidate: Group, group: Group, found: list[Access], needed: set[int],
    groups: list[Group], group_of: dict[int, Group], roots: set[int],
) -> bool:  # fmt: skip
    if any(_depends(groups[other], group.number, groups) for other in needed if other != group.number):
        return False
    inside = [a for a in found if group_of.get(a.node.number) is group]
    if candidate.reduced and group.kind == "filter":
        return False
    if not inside and not _shares_input(node, group, found, roots):
        return False
    if candidate.reduced:
        if candidate.domain != group.domain or (group.reduced and group.reduced != candidate.reduced):
            return False
        if not group.reduced and any(_is_outer(r, candidate) for r in group.roots):
            return False
        level = "inner"
    elif candidate.domain == group.domain:
        level = "inner"
    elif group.reduced and candidate.domain == group.outer_shape:
        level = "outer"
    else:
        return False
    merged = Group("loop", group.domain, candidate.reduced or group.reduced)
    if (
        level == "inner"
        and merged.reduced
        and not merged.outer
        and any(_is_outer(a.node, merged) for a in inside)
    ):
        return False
    return all(_at_own_index(a, level, merged) for a in inside)


def _is_outer(node: Node, group: Group) -> bool:
    """True when the root has one value for each outer index of the group."""
    return node.op.kind == "reduce" or domain_of(node)[0] != group.domain


def _at_own_index(access: Access, level: str, group: Group) -> bool:
    """The root is read exactly where it is made, so that it need not be complete before it is read."""
    own = tuple(i for i, d in zip(access.index, access.node.shape, strict=True) if d != 1)
    axes = group.outer if _is_outer(access.node, group) else range(len(group.domain))
    if level == "outer":
        if not _is_outer(access.node, group):
            return False
        return own == identity_of(len(group.outer))
    return own == tuple(identity_of(len(group.domain))[a] for a in axes)


def identity_of(rank: int) -> Index:
    """The indices of a nest of `rank` loops, in order."""
    return tuple(loop_index(a) for a in range(rank))


def _shares_input(node: Node, group: Group, found: list[Access], roots: set[int]) -> bool:
    mine = {a.node.number for a in found}
    return any(a.node.number in mine for root in group.roots for a in accesses(root, roots))


def _depends(group: Group, on: int, groups: list[Group]) -> bool:
    """True when `group` runs after group `on`."""
    stack, seen = [group.number], set()
    while stack:
        number = stack.pop()
        if number == on:
            return True
        if number not in seen:
            seen.add(number)
            stack.extend(groups[number].after)
    return False


def _in_order(groups: list[Group]) -> list[Group]:
    """Groups after all that they need; a stable topological order."""
    done: set[int] = set()
    order: list[Group] = []
    waiting = list(groups)
    while waiting:
        ready = next(g for g in waiting if g.after <= done)
        waiting.remove(ready)
        done.add(ready.number)
        order.append(ready)
    return order
