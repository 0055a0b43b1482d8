"""What is legal in a kernel: names defined before reads, pointers used by role, loops with own variables."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache

from ..errors import VerifyError
from ..loops import For, If, Kernel, Let, Statement, Store

_VALUES = frozenset({"True", "False", "nan", "inf"})


def verify_kernel(kernel: Kernel) -> Kernel:
    """The kernel itself, after checking every rule; VerifyError names the statement and the rule."""
    pointers = [p.name for p in kernel.pointers]
    integers = [i.name for i in kernel.integers]
    parameters = [*pointers, *integers, "begin", "end"]
    repeated = sorted({p for p in parameters if parameters.count(p) > 1})
    if repeated:
        raise VerifyError(f"{kernel.name}: parameters {', '.join(repeated)} are defined twice")
    for integer in kernel.integers:
        if integer.axis >= 0 and integer.buffer not in {p.buffer for p in kernel.pointers}:
            raise VerifyError(f"{kernel.name}: {integer.name} is a stride of a buffer that is no parameter")
    roles = {p.name: p.role for p in kernel.pointers}
    walk = _Walk(kernel.name, roles, frozenset(parameters))
    walk.block(kernel.body, set(integers) | {"begin", "end"}, ())
    for name, role in roles.items():
        if role == "out" and name not in walk.stored:
            raise VerifyError(f"{kernel.name}: {name} is an output but nothing is stored in it")
        if name not in walk.stored | walk.loaded:
            raise VerifyError(f"{kernel.name}: {name} is neither read nor written")
    if not {"begin", "end"} <= walk.read:
        raise VerifyError(f"{kernel.name}: the range [begin, end) is not used")
    return kernel


class _Walk:
    def __init__(self, kernel: str, roles: dict[str, str], parameters: frozenset[str]) -> None:
        self.kernel, self.roles, self.parameters = kernel, roles, parameters
        self.stored: set[str] = set()
        self.loaded: set[str] = set()
        self.read: set[str] = set()

    def fail(self, statement: str, message: str) -> VerifyError:
        return VerifyError(f"{self.kernel}: {statement}: {message}")

    def block(self, body: Sequence[Statement], defined: set[str], loops: tuple[str, ...]) -> set[str]:
        """Check statements in order; returns the names defined after them."""
        for statement in body:
            if isinstance(statement, Let):
                text = f"{statement.name} = {statement.expr}"
                self.reads(text, statement.expr, defined)
                if statement.name in self.parameters or statement.name in loops:
                    raise self.fail(text, f"{statement.name} is a parameter or a loop's variable")
                defined.add(statement.name)
            elif isinstance(statement, Store):
                text = f"{statement.array}[{statement.index}] = {statement.expr}"
                self.reads(text, statement.index, defined)
                self.reads(text, statement.expr, defined)
                if self.roles.get(statement.array) not in ("out", "scratch"):
                    raise self.fail(text, f"{statement.array} is not an output or scratch memory")
                self.stored.add(statement.array)
            elif isinstance(statement, For):
                self.loop(statement, defined, loops)
            elif isinstance(statement, If):
                self.choice(statement, defined, loops)
            elif not loops:
                raise self.fail("break", "there is no loop to leave")
        return defined

    def loop(self, loop: For, defined: set[str], loops: tuple[str, ...]) -> None:
        text = f"for {loop.var} in range({loop.start}, {loop.stop})"
        for bound in (loop.start, loop.stop, loop.step or "1"):
            self.reads(text, bound, defined)
        if loop.var in loops or loop.var in self.parameters:
            raise self.fail(text, f"{loop.var} is defined already")
        self.block(loop.body, defined | {loop.var}, (*loops, loop.var))

    def choice(self, choice: If, defined: set[str], loops: tuple[str, ...]) -> None:
        self.reads(f"if {choice.test}", choice.test, defined)
        then = self.block(choice.then, set(defined), loops)
        orelse = self.block(choice.orelse, set(defined), loops)
        defined |= then & orelse

    def reads(self, statement: str, expression: str, defined: set[str]) -> None:
        names, subscripted = _names_of(expression)
        for name in names - defined - _VALUES:
            raise self.fail(statement, f"{name} is not defined here")
        for name in subscripted:
            if name not in self.roles:
                raise self.fail(statement, f"{name} is not a pointer")
        self.loaded |= subscripted
        self.read |= names


@lru_cache(maxsize=65536)
def _names_of(expression: str) -> tuple[frozenset[str], frozenset[str]]:
    """The values that an expression reads, and the arrays; names of called functions are neither."""
    tree = ast.parse(expression, mode="eval")
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    arrays = {
        id(n.value): n.value.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
    }
    names = {
        n.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and id(n) not in called and id(n) not in arrays
    }
    return frozenset(names), frozenset(arrays.values())
