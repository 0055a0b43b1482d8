"""Statements and expressions that values may steer, as calls of the run-time half (`runtime.Flow`).

before   if x.sum() > 0:         after    def _aot_then_1(): nonlocal y; y = x + 1
             y = x + 1                    def _aot_else_1(): nonlocal y; y = x - 1
         else:                            def _aot_set_1(_aot_values): nonlocal y; y, = _aot_values
             y = x - 1                 _aot.choose(1, lambda: (y,), _aot_set_1, x.sum() > 0, _aot_then_1, _aot_else_1)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from .jumps import NEITHER, SCOPES, Jumps, at, inside
from .names import Assigned, Liveness, assigned_whole, bound, captured, declared, reads, written

FLOW = "_aot"
_COMPARISONS = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "is_", ast.IsNot: "is_not", ast.In: "in_", ast.NotIn: "not_in",
}  # fmt: skip
#: these look at the frame that calls them
_FRAMES = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
_ITERATORS = frozenset({"range", "zip", "enumerate", "reversed"})


@dataclass(frozen=True)
class Site:
    """What is known of one loop or choice from the source."""

    line: int
    #: the variables whose values it may change, those that its steps read from one another, and those that it
    #: assigns as wholes
    names: tuple[str, ...]
    again: frozenset[str]
    whole: frozenset[str]
    #: those that it assigns and that nobody reads after it
    dead: tuple[str, ...] = ()
    #: variables that it only reads, and those of arrays that it surely writes into
    others: tuple[str, ...] = ()
    written: frozenset[str] = frozenset()
    #: (line, what it is, what to do) of what cannot be part of a loop or choice that values steer
    refused: tuple[tuple[int, str, str], ...] = ()


class Rewriter(ast.NodeTransformer):
    """Rewrites one function, and those nested in it."""

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self.sites: list[Site] = []
        self.local: set[str] = set()
        self.outer: dict[str, str] = {}
        self.guarded = 0
        self.jumps = Jumps()

    # -- functions ------------------------------------------------------------------------------
    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The function with its body rewritten."""
        kept = self.local, self.outer, self.guarded, self.jumps
        self.jumps = Jumps(loops=self.jumps.loops)
        statements = list(node.body)
        self.outer = dict.fromkeys(declared(statements, ast.Global), "global")
        self.outer |= dict.fromkeys(declared(statements, ast.Nonlocal), "nonlocal")
        self.guarded = 0
        parameters = {a.arg for a in _arguments(node.args)}
        body = self.jumps.function([s for s in statements if not isinstance(s, (ast.Global, ast.Nonlocal))])
        self.local = (bound(body) | parameters) - set(self.outer)
        Liveness(body, captured(body))
        Assigned(body, parameters, self.local)
        first = [] if _docstring(statements) is None else [body.pop(0)]
        made = self.block(body)
        states = {n for s in self.sites for n in s.names + s.dead + s.others} & (self.local - parameters)
        states |= {n for s in made for n in _moved(s)} & (self.local - parameters)
        where = statements[0]
        head: list[ast.stmt] = [
            self._declare(kind, names, where) for kind, names in self._declared() if names
        ]
        if self.outer:
            refuse = self._call("refuse_outer", [_plain(tuple(sorted(self.outer)))], where)
            head.append(at(ast.Expr(refuse), where))
        head += [self._unset(name, where) for name in sorted(states)]
        node.body = [*first, *head, *made] or [at(ast.Pass(), where)]
        loops = self.jumps.loops
        self.local, self.outer, self.guarded, self.jumps = kept
        self.jumps.loops = loops
        return node

    def _declared(self) -> list[tuple[str, list[str]]]:
        return [(k, sorted(n for n, kind in self.outer.items() if kind == k)) for k in ("global", "nonlocal")]

    def _declare(self, kind: str, names: Sequence[str], where: ast.AST) -> ast.stmt:
        return at(ast.Global(list(names)) if kind == "global" else ast.Nonlocal(list(names)), where)

    def _unset(self, name: str, where: ast.AST) -> ast.stmt:
        target = ast.Name(name, ast.Store())
        return at(ast.Assign([target], self._call("unset", [ast.Constant(name)], where)), where)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [self.visit(d) if d else None for d in node.args.kw_defaults]
        return node if _makes_steps(node) else self.function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node.body)):
            return node
        kept = self.local
        self.local = self.local - {a.arg for a in _arguments(node.args)}
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.body = self.visit(node.body)
        self.local = kept
        return node

    # -- statements -----------------------------------------------------------------------------
    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            found = self.visit(statement)
            made += found if isinstance(found, list) else [found]
        return made

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        names = bound([*node.body, *node.orelse]) & node.after  # type: ignore[attr-defined]
        number = self._site(node, names, frozenset(), [*node.body, *node.orelse])
        message = _raised(node.body) if not node.orelse or not _raised(node.orelse) else None
        test = self.test(node.test)
        then = self._step(f"_aot_then_{number}", node, node.body)
        orelse = self._step(f"_aot_else_{number}", node, node.orelse)
        given: list[ast.expr] = [test, *(ast.Name(f.name, ast.Load()) for f in (then, orelse))]
        if message is not None:
            raised = self.visit(message)
            given.append(at(ast.Lambda(_no_arguments(), raised), node))
        return [then, orelse, *self._run("choose", number, node, given)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        again: set[str] = node.again  # type: ignore[attr-defined]
        names = bound(node.body) & again
        number = self._site(node, names, again, node.body)
        test = self.test(node.test)
        stops: list[str] = node.stops  # type: ignore[attr-defined]
        if stops:
            go_on = self._call("neither", [ast.Name(f, ast.Load()) for f in stops], node)
            test = self._call("both", [go_on, at(ast.Lambda(_no_arguments(), test), node)], node)
        step = self._step(f"_aot_step_{number}", node, node.body)
        given = [at(ast.Lambda(_no_arguments(), test), node), ast.Name(step.name, ast.Load())]
        return [step, *self._run("repeat", number, node, given)]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        again: set[str] = node.again  # type: ignore[attr-defined]
        names = bound([node.target, *node.body]) & again
        number = self._site(
            node,
            names,
            again - bound([node.target]),
            [at(ast.Assign([node.target], ast.Constant(0)), node), *node.body],
        )
        over = self._iterator(node.iter)
        item = "_aot_item"
        target = self.visit(node.target)
        first = at(ast.Assign([target], ast.Name(item, ast.Load())), node)
        step = self._step(f"_aot_step_{number}", node, node.body, first)
        step.args.args = [at(ast.arg(item), node)]
        stops: list[str] = node.stops  # type: ignore[attr-defined]
        go_on: ast.expr = ast.Constant(None)
        if stops:
            go_on = ast.Lambda(
                _no_arguments(), self._call("neither", [ast.Name(f, ast.Load()) for f in stops], node)
            )
        given = [over, go_on, ast.Name(step.name, ast.Load())]
        return [step, *self._run("each", number, node, given)]

    def visit_Try(self, node: ast.Try) -> ast.AST:
        self.guarded += bool(node.handlers)
        node.body = self.block(node.body)
        self.guarded -= bool(node.handlers)
        for handler in node.handlers:
            handler.body = self.block(handler.body)
        node.orelse, node.finalbody = self.block(node.orelse), self.block(node.finalbody)
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        node.items = [self.visit(item) for item in node.items]
        node.body = self.block(node.body)
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.guard = self.visit(case.guard) if case.guard else None
            case.body = self.block(case.body)
        return node

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for target in node.targets:
            name = isinstance(target, ast.Name) and target.id in self.local
            made.append(
                self._unset(target.id, node) if name else at(ast.Delete([self.visit(target)]), node)  # type: ignore[attr-defined]
            )
        return made

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = at(
            ast.Lambda(_no_arguments(), self.visit(node.msg) if node.msg else ast.Constant(None)), node
        )
        return at(ast.Expr(self._call("check", [self.test(node.test), message], node)), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        unsure = getattr(node, "unsure", False)
        self.generic_visit(node)
        if not unsure or not isinstance(node.target, ast.Name):
            return node
        used = self._call("used", [at(ast.Name(node.target.id, ast.Load()), node)], node)
        return [at(ast.Assign([ast.Name(node.target.id, ast.Store())], used), node), node]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return at(ast.Pass(), node)
        return at(ast.Assign([self.visit(node.target)], self.visit(node.value)), node)

    # -- expressions ----------------------------------------------------------------------------
    def test(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp) and not _walrus(node.values[1:]):
            name = "both" if isinstance(node.op, ast.And) else "either"
            found = self.test(node.values[-1])
            for value in reversed(node.values[:-1]):
                found = self._call(
                    name, [self.test(value), at(ast.Lambda(_no_arguments(), found), node)], node
                )
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._call("negated", [self.test(node.operand)], node)
        plain: ast.expr = self.visit(node)
        return plain

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self.test(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if _walrus(node.values[1:]):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        found = self.visit(node.values[-1])
        for value in reversed(node.values[:-1]):
            found = self._call(name, [self.visit(value), at(ast.Lambda(_no_arguments(), found), node)], node)
        return found  # type: ignore[no-any-return]

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if _walrus([node.body, node.orelse]):
            return self.generic_visit(node)
        ways = [at(ast.Lambda(_no_arguments(), self.visit(n)), node) for n in (node.body, node.orelse)]
        return self._call("chosen", [self.test(node.test), *ways], node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        known = {ast.In, ast.NotIn}
        if len(node.ops) == 1 and type(node.ops[0]) not in known:
            return self.generic_visit(node)
        if _walrus(node.comparators[1:]):
            return self.generic_visit(node)
        signs = _plain(tuple(_COMPARISONS[type(op)] for op in node.ops))
        rest = [at(ast.Lambda(_no_arguments(), self.visit(c)), node) for c in node.comparators]
        return self._call("compared", [signs, self.visit(node.left), *rest], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name):
            if node.func.id == NEITHER:
                return self._call("neither", node.args, node)
            if node.func.id in _FRAMES:
                return self.generic_visit(node)
        self.generic_visit(node)
        node.func = self._call("of", [node.func], node.func)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or not any(
            isinstance(n, ast.Name) for n in ast.walk(node.slice)
        ):
            return node
        if any(isinstance(n, ast.Slice) for n in ast.walk(node.slice)):
            return node
        return self._call("item", [node.value, node.slice], node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and getattr(node, "unsure", False):
            return self._call("used", [at(ast.Name(node.id, ast.Load()), node)], node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self.mangled(node.attr)
        return self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._comprehension(node)

    def _comprehension(self, node: ast.AST) -> ast.AST:
        kept = self.local
        self.local = self.local - {n for g in node.generators for n in bound([g.target])}  # type: ignore[attr-defined]
        found = self.generic_visit(node)
        self.local = kept
        return found

    def mangled(self, name: str) -> str:
        """A private name as Python spells it in a method of `owner`."""
        private = name.startswith("__") and not name.endswith("__") and self.owner.strip("_")
        return f"_{self.owner.lstrip('_')}{name}" if private else name

    # -- pieces ---------------------------------------------------------------------------------
    def _iterator(self, node: ast.expr) -> ast.expr:
        """What a `for` goes along, with `range`, `zip`, `enumerate` and `reversed` kept open."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ITERATORS:
            node.args = [self._iterator(a) for a in node.args]
            node.keywords = [self.visit(k) for k in node.keywords]
            node.func = self._call("along", [node.func], node.func)
            return node
        found: ast.expr = self.visit(node)
        return found

    def _site(
        self, node: ast.stmt, names: set[str], again: frozenset[str] | set[str], body: Sequence[ast.stmt]
    ) -> int:
        own = sorted(names & self.local)
        dead = sorted((bound(body) & self.local) - set(own))
        read = {n for s in body for n in reads(s)} & self.local - {*own, *dead}
        refused = [(node.lineno, "a loop or choice inside of `try`", "catch exceptions outside")] * bool(
            self.guarded
        )
        for statement in body:
            refused += _refused(statement, self.outer)
        self.sites.append(
            Site(
                node.lineno, tuple(own), frozenset(again), frozenset(assigned_whole(body)),
                tuple(dead),
                tuple(sorted(read)),
                frozenset(written(body)), tuple(refused),
            )
        )  # fmt: skip
        return len(self.sites) - 1

    def _step(self, name: str, node: ast.stmt, body: Sequence[ast.stmt], *first: ast.stmt) -> ast.FunctionDef:
        """A function of the statements, which assigns the variables of the function around."""
        names = bound([*first, *body])
        made = [*first, *self.block(body)]
        names |= {n for s in made for n in _moved(s)}
        head: list[ast.stmt] = []
        for kind in ("global", "nonlocal"):
            some = sorted(
                n for n in names if self.outer.get(n, "nonlocal" if n in self.local else "") == kind
            )
            head += [self._declare(kind, some, node)] if some else []
        content = [*head, *made] or [ast.Pass()]
        return at(ast.FunctionDef(name, _no_arguments(), content, [], None, None), node)

    def _run(self, what: str, number: int, node: ast.stmt, given: Sequence[ast.expr]) -> list[ast.stmt]:
        site = self.sites[number]
        made: list[ast.stmt] = []
        setter: ast.expr = ast.Constant(None)
        names = [*site.names, *site.dead]
        if names:
            value = "_aot_values"
            targets = ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())
            store = ast.Assign([targets], ast.Name(value, ast.Load()))
            arguments = _no_arguments()
            arguments.args = [ast.arg(value)]
            name = f"_aot_set_{number}"
            made = [
                at(
                    ast.FunctionDef(name, arguments, [ast.Nonlocal(names), store], [], None, None),
                    node,
                )
            ]
            setter = ast.Name(name, ast.Load())
        values = ast.Tuple([ast.Name(n, ast.Load()) for n in (*names, *site.others)], ast.Load())
        getter = ast.Lambda(_no_arguments(), values)
        call = self._call(what, [ast.Constant(number), getter, setter, *given], node)
        return [*made, at(ast.Expr(call), node)]

    def _call(self, name: str, args: Sequence[ast.expr], where: ast.AST) -> ast.expr:
        function = ast.Attribute(ast.Name(FLOW, ast.Load()), name, ast.Load())
        return at(ast.Call(function, list(args), []), where)


def _plain(value: tuple[str, ...]) -> ast.expr:
    """A tuple of strings."""
    return ast.Tuple([ast.Constant(v) for v in value], ast.Load())


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [a for a in (args.vararg, args.kwarg) if a is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def _docstring(body: Sequence[ast.stmt]) -> str | None:
    first = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _makes_steps(node: ast.FunctionDef) -> bool:
    """True for a generator."""
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for s in node.body for n in inside(s))


def _moved(node: ast.stmt) -> set[str]:
    """The names that a step, moved to a function of its own, assigns in the function around."""
    return {name for n in ast.walk(node) if isinstance(n, ast.Nonlocal) for name in n.names}


def _walrus(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(n, ast.NamedExpr) for node in nodes for n in ast.walk(node))


def _raised(body: Sequence[ast.stmt]) -> ast.expr | None:
    """What a block raises, if that is all it does."""
    if len(body) == 1 and isinstance(body[0], ast.Raise):
        return body[0].exc
    return None


def _refused(statement: ast.stmt, outer: dict[str, str]) -> list[tuple[int, str, str]]:
    """What no loop or choice of the program can do."""
    found: list[tuple[int, str, str]] = []
    for node in inside(statement):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.append((node.lineno, f"assigning {ast.unparse(node)}", "use a local variable"))
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id in outer:
            found.append(
                (node.lineno, f"assigning the {outer[node.id]} {node.id}", "return the value instead")
            )
        elif isinstance(node, ast.Try) and node.handlers:
            found.append((node.lineno, "`try`", "catch exceptions outside of the compiled function"))
    return found


__all__ = ["FLOW", "SCOPES", "Rewriter", "Site"]
