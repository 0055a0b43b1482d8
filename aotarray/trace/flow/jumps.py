"""Functions without `break`, `continue` and nested `return`: flags and choices take their place.

before   for k in range(n):          after    for k in range(n):      (stops when _aot_break_1)
             if x[k] > 0:                         if x[k] > 0:
                 break                                _aot_break_1 = True
             s += x[k]                            else:
                                                      s += x[k]
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T", bound=ast.AST)
DONE, RESULT = "_aot_done", "_aot_result"
#: the call that stands for "none of these flags is set"
NEITHER = "_aot_neither"

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass
class _Loop:
    """The flags of the loop that statements stand in."""

    leave: str
    skip: str


@dataclass
class Jumps:
    """Rewrites the statements of one function."""

    tested: set[str] = field(default_factory=set)
    loops: int = 0

    def function(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The body of a function with one `return`, at its end."""
        returns = [n for s in body for n in inside(s) if isinstance(n, ast.Return)]
        last = [s for s in body[-1:] if isinstance(s, ast.Return)]
        if returns == last:
            return self._pruned([*self.block(body[: len(body) - len(last)], None), *last])
        where = body[-1]
        whole = [*body] if ends(body) else [*body, at(ast.Return(ast.Constant(None)), where)]
        made = self.block(whole, None)
        first = [assign(DONE, ast.Constant(False), body[0])] if DONE in self.tested else []
        return self._pruned([*first, *made, at(ast.Return(ast.Name(RESULT, ast.Load())), where)])

    def block(self, body: Sequence[ast.stmt], loop: _Loop | None) -> list[ast.stmt]:
        """Statements that run one after another, without jumps."""
        made: list[ast.stmt] = []
        for k, statement in enumerate(body):
            rest = list(body[k + 1 :])
            if isinstance(statement, ast.Return):
                made.append(assign(RESULT, statement.value or ast.Constant(None), statement))
                made.append(assign(DONE, ast.Constant(True), statement))
                return made
            if isinstance(statement, (ast.Break, ast.Continue)):
                assert loop is not None
                flag = loop.leave if isinstance(statement, ast.Break) else loop.skip
                return [*made, assign(flag, ast.Constant(True), statement)]
            flags = _flags(statement, loop)
            if isinstance(statement, ast.If):
                then, orelse = list(statement.body), list(statement.orelse)
                if flags and ends(then):
                    orelse, rest = [*orelse, *rest], []
                elif flags and orelse and ends(orelse):
                    then, rest = [*then, *rest], []
                made.append(
                    at(ast.If(statement.test, self.block(then, loop), self.block(orelse, loop)), statement)
                )
                if flags and not rest:
                    return made
            elif isinstance(statement, (ast.For, ast.While)):
                made += self._loop(statement, loop)
            else:
                made.append(self._other(statement, loop))
            if flags and rest:
                test = self._neither(flags, rest[0])
                return [*made, at(ast.If(test, self.block(rest, loop), []), rest[0])]
        return made

    def _loop(self, statement: ast.For | ast.While, outer: _Loop | None) -> list[ast.stmt]:
        self.loops += 1
        loop = _Loop(f"_aot_break_{self.loops}", f"_aot_continue_{self.loops}")
        own = [f for f in _flags_of(statement.body, loop) if f != loop.skip]
        content = list(statement.body)
        test: ast.expr | None = None
        if isinstance(statement, ast.While):
            test = statement.test
            if any(isinstance(n, ast.NamedExpr) for n in ast.walk(test)):  # a step of the loop assigns
                leave = at(ast.If(at(ast.UnaryOp(ast.Not(), test), test), [at(ast.Break(), test)], []), test)
                content, test = [leave, *content], at(ast.Constant(True), test)
                own = [f for f in _flags_of(content, loop) if f != loop.skip]
        body = self.block(content, loop)
        if loop.skip in self.tested:
            body = [assign(loop.skip, ast.Constant(False), statement), *body]
        made: list[ast.stmt] = []
        if loop.leave in own:
            made.append(assign(loop.leave, ast.Constant(False), statement))
        self.tested.update(own)
        new: ast.For | ast.While
        if isinstance(statement, ast.For):
            new = ast.For(statement.target, statement.iter, body, [])
        else:
            assert test is not None
            new = ast.While(test, body, [])
        new.stops = own  # type: ignore[union-attr]
        made.append(at(new, statement))
        if statement.orelse:
            after = self.block(statement.orelse, outer)
            made += (
                after
                if not own
                else [at(ast.If(self._neither(own, statement), after, []), statement.orelse[0])]
            )
        return made

    def _other(self, statement: ast.stmt, loop: _Loop | None) -> ast.stmt:
        """A statement that may hold blocks, but that no value steers."""
        if isinstance(statement, SCOPES):
            return statement
        if isinstance(statement, ast.Match):
            statement.cases = [
                ast.match_case(c.pattern, c.guard, self.block(c.body, loop)) for c in statement.cases
            ]
        elif isinstance(statement, (ast.With, ast.Try)):
            statement.body = self.block(statement.body, loop)
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                handler.body = self.block(handler.body, loop)
            statement.orelse = self.block(statement.orelse, loop)
            statement.finalbody = self.block(statement.finalbody, loop)
        return statement

    def _neither(self, flags: Sequence[str], where: ast.AST) -> ast.expr:
        self.tested.update(flags)
        names = [at(ast.Name(f, ast.Load()), where) for f in flags]
        return at(ast.Call(at(ast.Name(NEITHER, ast.Load()), where), list(names), []), where)

    def _pruned(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Without assignments to flags that nobody tests."""
        made: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                if name.startswith(("_aot_break", "_aot_continue", DONE)) and name not in self.tested:
                    continue
            for name in ("body", "orelse", "finalbody"):
                if not isinstance(statement, SCOPES) and getattr(statement, name, None):
                    setattr(statement, name, self._pruned(getattr(statement, name)))
            for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                part.body = self._pruned(part.body)
            made.append(statement)
        return made or [at(ast.Pass(), body[0])] if body else []


def inside(node: ast.AST) -> Iterable[ast.AST]:
    """The node and all nodes in it, those of nested functions and classes left out."""
    yield node
    if isinstance(node, SCOPES):
        return
    for child in ast.iter_child_nodes(node):
        yield from inside(child)


def ends(body: Sequence[ast.stmt]) -> bool:
    """True when what follows the statements never runs after them."""
    for statement in body:
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return True
        if isinstance(statement, ast.If) and ends(statement.body) and ends(statement.orelse):
            return True
        if isinstance(statement, ast.With) and ends(statement.body):
            return True
        if (
            isinstance(statement, ast.While)
            and isinstance(statement.test, ast.Constant)
            and statement.test.value
        ):
            return not _has(statement.body, ast.Break)
    return False


def _flags(statement: ast.stmt, loop: _Loop | None) -> list[str]:
    """The flags that a statement may set and that concern what follows it."""
    return _flags_of([statement], loop)


def _flags_of(body: Sequence[ast.stmt], loop: _Loop | None) -> list[str]:
    found = [DONE] if any(isinstance(n, ast.Return) for s in body for n in inside(s)) else []
    if loop is not None:
        found += [loop.leave] if _has(body, ast.Break) else []
        found += [loop.skip] if _has(body, ast.Continue) else []
    return found


def _has(body: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    """True when a jump of the loop around `body` is in it."""
    for statement in body:
        if isinstance(statement, kind):
            return True
        if isinstance(statement, (*SCOPES, ast.For, ast.While)):
            if isinstance(statement, (ast.For, ast.While)) and _has(statement.orelse, kind):
                return True
            continue
        for child in ast.iter_child_nodes(statement):
            parts = [child] if isinstance(child, ast.stmt) else getattr(child, "body", [])
            if isinstance(parts, list) and _has(parts, kind):
                return True
    return False


def at(node: T, where: ast.AST) -> T:
    """The node, placed where another one is in the user's source; of a loop or choice, at its first line."""
    node = ast.copy_location(node, where)
    if isinstance(where, (ast.If, ast.For, ast.While, ast.FunctionDef)) and not isinstance(node, type(where)):
        node.end_lineno, node.end_col_offset = where.lineno, where.col_offset  # type: ignore[attr-defined]
    return ast.fix_missing_locations(node)


def assign(name: str, value: ast.expr, where: ast.AST) -> ast.stmt:
    """`name = value`."""
    target = at(ast.Name(name, ast.Store()), where)
    return at(ast.Assign([target], value if hasattr(value, "lineno") else at(value, where)), where)
