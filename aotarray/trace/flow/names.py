"""Which local variables statements assign, read, and leave for later: what a loop or choice must carry."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from .jumps import SCOPES, inside

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound(body: Iterable[ast.AST]) -> set[str]:
    """The names that statements assign in the scope they stand in."""
    found: set[str] = set()
    for statement in body:
        for node in inside(statement):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                found.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.ExceptHandler):
                found |= {node.name} if node.name else set()
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found.update((a.asname or a.name).partition(".")[0] for a in node.names)
            elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
                found.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                found.add(node.rest)
    return found - _of_comprehensions(body)


def _of_comprehensions(body: Iterable[ast.AST]) -> set[str]:
    """Names that are the variables of comprehensions alone."""
    own: set[str] = set()
    other: set[str] = set()
    for statement in body:
        within = {
            id(n)
            for c in inside(statement) if isinstance(c, COMPREHENSIONS)
            for g in c.generators for n in ast.walk(g.target)
        }  # fmt: skip
        for node in inside(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                (own if id(node) in within else other).add(node.id)
    return own - other


def declared(body: Iterable[ast.AST], kind: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    """The names in `global` or `nonlocal` statements of a function."""
    return {name for s in body for n in inside(s) if isinstance(n, kind) for name in n.names}


def assigned_whole(body: Iterable[ast.AST]) -> set[str]:
    """The names that are assigned otherwise than by `x += ...`."""
    augmented = {
        id(n.target)
        for s in body
        for n in inside(s)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    stores = (n for s in body for n in inside(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    found = {n.id for n in stores if id(n) not in augmented}
    return found | (bound(body) - {n.id for s in body for n in inside(s) if isinstance(n, ast.Name)})


def written(body: Iterable[ast.AST]) -> set[str]:
    """The names of arrays that are written into by `x[...] = v` or `x += v`."""
    found: set[str] = set()
    for statement in body:
        for node in inside(statement):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
            ):
                found.add(node.value.id)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def reads(node: ast.AST) -> set[str]:
    """The names that an expression or a nested function may read."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return found | {
        n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }


def captured(body: Iterable[ast.AST]) -> set[str]:
    """The names that nested functions and classes read, when they are called: at any time."""
    return {name for s in body for n in inside(s) if isinstance(n, SCOPES) for name in reads(n)}


class Liveness:
    """Marks each loop and choice with `.after`, the names read after it, and loops with `.again`: at a step's start."""

    def __init__(self, body: Sequence[ast.stmt], always: set[str]) -> None:
        self.always = always
        self.block(body, set(always))

    def block(self, body: Sequence[ast.stmt], after: set[str]) -> set[str]:
        """The names that are live before the statements, when `after` are behind them."""
        for statement in reversed(body):
            after = self._statement(statement, after)
        return after

    def _statement(self, node: ast.stmt, after: set[str]) -> set[str]:
        if isinstance(node, ast.If):
            node.after = set(after)  # type: ignore[attr-defined]
            return reads(node.test) | self.block(node.body, after) | self.block(node.orelse, after)
        if isinstance(node, (ast.For, ast.While)):
            node.after = set(after)  # type: ignore[union-attr]
            stops = set(getattr(node, "stops", ()))
            head = after | stops
            target = bound([node.target]) if isinstance(node, ast.For) else set()
            for _ in range(2):
                test = reads(node.test) if isinstance(node, ast.While) else set()
                head = head | test | (self.block(node.body, head) - target)
            node.again = head  # type: ignore[union-attr]
            outside = reads(node.iter) | reads(node.target) if isinstance(node, ast.For) else set()
            return head | outside
        if isinstance(node, ast.Try):
            handlers = [self.block(h.body, after) for h in node.handlers]
            last = self.block(node.finalbody, after).union(after, *handlers)
            return self.block(node.body, self.block(node.orelse, last)) | last
        if isinstance(node, (ast.With, ast.AsyncWith)):
            inner = self.block(node.body, after)
            return inner | {name for item in node.items for name in reads(item)}
        if isinstance(node, ast.Match):
            inner = set(after).union(*(self.block(c.body, after) for c in node.cases))
            return (
                inner
                | reads(node.subject)
                | {n for c in node.cases for n in reads(c.pattern) | (reads(c.guard) if c.guard else set())}
            )
        if isinstance(node, SCOPES):
            return (after - {node.name}) | reads(node)
        return (after - bound([node])) | reads(node) | self.always


class Assigned:
    """Marks the reads of names that may have no value there: `.unsure` of each `Name`."""

    def __init__(self, body: Sequence[ast.stmt], parameters: set[str], local: set[str]) -> None:
        self.local = local
        self.block(body, set(parameters))

    def block(self, body: Sequence[ast.stmt], known: set[str]) -> set[str]:
        """The names that surely have a value after the statements; `known` have one before."""
        for statement in body:
            known = self._statement(statement, known)
        return known

    def _reads(self, node: ast.AST | None, known: set[str]) -> None:
        for n in _own_reads(node) if node is not None else ():
            if n.id in self.local and n.id not in known:
                n.unsure = True  # type: ignore[attr-defined]

    def _statement(self, node: ast.stmt, known: set[str]) -> set[str]:
        if isinstance(node, ast.If):
            self._reads(node.test, known)
            known = known | bound([node.test])
            then, orelse = self.block(node.body, known), self.block(node.orelse, known)
            if _raises(node.body):
                return orelse
            return then if node.orelse and _raises(node.orelse) else then & orelse
        if isinstance(node, (ast.For, ast.While)):
            self._reads(node.iter if isinstance(node, ast.For) else node.test, known)
            target = bound([node.target]) if isinstance(node, ast.For) else set()
            self.block(node.body, known | target)
            return known
        if isinstance(node, ast.Try):
            self.block(node.orelse, self.block(node.body, known))
            for handler in node.handlers:
                self.block(handler.body, known | ({handler.name} if handler.name else set()))
            return self.block(node.finalbody, known)
        if isinstance(node, ast.With):
            for item in node.items:
                self._reads(item, known)
            return self.block(node.body, known | bound(node.items))
        if isinstance(node, ast.Match):
            self._reads(node.subject, known)
            for case in node.cases:
                self._reads(case.guard, known | bound([case.pattern]))
                self.block(case.body, known | bound([case.pattern]))
            return known
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id not in known
        ):
            node.unsure = True  # type: ignore[attr-defined]
        if not isinstance(node, SCOPES):
            self._reads(node, known)
        if isinstance(node, ast.Delete):
            return known - bound([node])
        return known | bound([node])


def _raises(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _own_reads(node: ast.AST) -> Iterator[ast.Name]:
    """The reads of an expression that happen where it stands: not those in functions it makes."""
    for n in inside(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            yield n
