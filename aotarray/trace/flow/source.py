"""From a function to one with its control flow rewritten: finds the source, compiles it, keeps lines and cells."""

from __future__ import annotations

import ast
import copy
import functools
import linecache
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import TraceError, UnsupportedError
from ...graph import SourceLine
from ..context import OWN
from .jumps import at, inside
from .rewrite import FLOW, Rewriter

#: packages whose functions are called as they are
_KEPT = frozenset({"aotarray", "llvmlite", "matplotlib", "numba", "numpy", "pandas", "scipy", "sklearn"})
#: code made here, which needs no conversion
_made: set[types.CodeType] = set()
#: by the code of a function: its converted code, and how to make the run-time half
_known: dict[types.CodeType, tuple[types.CodeType, Any]] = {}
_trees: dict[str, tuple[tuple[str, ...], ast.Module]] = {}


def converted(function: Any, required: bool = False) -> Any:
    """`function` with its loops and choices open to traced values; what has no such is returned as it is.

    Raises TraceError when `required` and it has no source, or is a generator or coroutine.
    """
    if isinstance(function, functools.partial):
        inner = converted(function.func, required)
        return (
            function
            if inner is function.func
            else functools.partial(inner, *function.args, **function.keywords)
        )
    if isinstance(function, types.MethodType):
        inner = converted(function.__func__, required)
        return function if inner is function.__func__ else types.MethodType(inner, function.__self__)
    if not isinstance(function, types.FunctionType):
        method = vars(type(function)).get("__call__")
        if isinstance(method, types.FunctionType) and not _is_kept(method):
            return types.MethodType(converted(method, required), function)
        if required and not callable(function):
            raise TypeError(f"a value of type {type(function).__name__} is no function")
        return function
    code = function.__code__
    if code in _made or _is_kept(function):
        return function
    if code not in _known:
        try:
            _known[code] = _compiled(function)
        except TraceError:
            if required:
                raise
            return function
    new, flow = _known[code]
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[FLOW] = types.CellType(flow)
    made = types.FunctionType(
        new, function.__globals__, function.__name__, function.__defaults__,
        tuple(cells[name] for name in new.co_freevars),
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__, made.__doc__ = (
        function.__qualname__,
        function.__module__,
        function.__doc__,
    )
    made.__dict__.update(function.__dict__)
    return made


def with_control_flow(function: Callable[..., Any], control_flow: str | None) -> Callable[..., Any]:
    """`function` as it is traced: with "python", it is converted when it is called."""
    if control_flow is None:
        return function
    if control_flow != "python":
        raise ValueError(f'control_flow is "python" or None, not {control_flow!r}')

    def traced(*args: Any, **kwargs: Any) -> Any:
        return converted(function, required=True)(*args, **kwargs)

    return functools.update_wrapper(traced, function)


def _is_kept(function: types.FunctionType) -> bool:
    if function.__code__.co_filename.startswith(OWN):
        return True
    root = (function.__module__ or "").partition(".")[0]
    return root in _KEPT or (root in sys.stdlib_module_names and root != "__main__")


def _compiled(function: types.FunctionType) -> tuple[types.CodeType, Any]:
    from .runtime import Flow

    code = function.__code__
    where = SourceLine(code.co_filename, code.co_firstlineno, code.co_name)
    node, owner = _node(function, where)
    if isinstance(node, ast.AsyncFunctionDef) or any(
        isinstance(n, (ast.Yield, ast.YieldFrom)) for n in _within(node)
    ):
        raise UnsupportedError(
            f"{where}: {code.co_name}() is a generator or coroutine, whose control flow cannot be compiled; "
            f'return an array instead, or leave control_flow="python" out'
        )
    rewriter = Rewriter(owner)
    parts: ast.stmt
    if isinstance(node, ast.Lambda):
        args = _bare(node.args)
        parts = at(ast.Return(at(ast.Lambda(args, rewriter.visit(node.body)), node)), node)
    else:
        args = _bare(node.args)
        inner = at(ast.FunctionDef("_aot_function", args, list(node.body), [], None, None), node)
        parts = rewriter.function(inner)
    free = [at(ast.arg(name), node) for name in (*code.co_freevars, FLOW)]
    outer = ast.arguments([], free, None, [], [], None, [])
    factory = at(ast.FunctionDef("_aot_factory", outer, [parts], [], None, None), node)
    module = ast.Module([factory], [])
    made = compile(ast.fix_missing_locations(module), code.co_filename, "exec", dont_inherit=True)
    (whole,) = (c for c in made.co_consts if isinstance(c, types.CodeType))
    name = "<lambda>" if isinstance(node, ast.Lambda) else "_aot_function"
    found = next(c for c in whole.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
    found = _named(found, code.co_name, code.co_qualname)
    return found, Flow(tuple(rewriter.sites), where)


def _named(code: types.CodeType, name: str, qualname: str) -> types.CodeType:
    """The code with the functions made of its statements named after it, for tracebacks and reports."""
    constants = tuple(
        _named(c, *((name, qualname) if c.co_name.startswith("_aot_") else (c.co_name, c.co_qualname)))
        if isinstance(c, types.CodeType)
        else c
        for c in code.co_consts
    )
    made = code.replace(co_consts=constants, co_name=name, co_qualname=qualname)
    _made.add(made)
    return made


def _bare(args: ast.arguments) -> ast.arguments:
    """Parameters without defaults and annotations, which the function has already."""
    lists = ([ast.arg(a.arg) for a in some] for some in (args.posonlyargs, args.args, args.kwonlyargs))
    positional, plain, keyword = lists
    some, more = (ast.arg(a.arg) if a else None for a in (args.vararg, args.kwarg))
    return ast.arguments(positional, plain, some, keyword, [None] * len(keyword), more, [])


# -- finding the source -----------------------------------------------------------------------------
def _node(
    function: types.FunctionType, where: SourceLine
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, str]:
    """A fresh syntax tree of the function, and the class it is a method of."""
    code = function.__code__
    tree = _tree(code.co_filename, function, where)
    found = [(n, owner) for n, owner in _functions(tree, "") if _fits(n, code)]
    if not found:
        raise TraceError(
            f"{where}: the source of {code.co_name}() is not in {code.co_filename} any more (it changed after the "
            f"function was made); load the module again"
        )
    if len(found) > 1:
        column = min((p[2] for p in code.co_positions() if p[2] is not None), default=0)
        found.sort(
            key=lambda item: abs(item[0].body.col_offset - column) if isinstance(item[0], ast.Lambda) else 0
        )
    node, owner = found[0]
    return copy.deepcopy(node), owner  # the tree is shared, and rewriting changes it


def _tree(name: str, function: types.FunctionType, where: SourceLine) -> ast.Module:
    linecache.checkcache(name)
    lines = tuple(linecache.getlines(name, function.__globals__))
    known = _trees.get(name)
    if known is not None and known[0] == lines:
        return known[1]
    if not lines:
        raise TraceError(
            f'{where}: control_flow="python" needs the source of {function.__name__}(), which is not to be had '
            f"(made by exec, or typed at a prompt); put the function into a file, or use aotarray.cond, fori_loop and "
            f"while_loop"
        )
    try:
        tree = ast.parse("".join(lines), name)
    except SyntaxError as error:
        raise TraceError(f"{where}: the source of {function.__name__}() cannot be read: {error}") from None
    _trees[name] = lines, tree
    return tree


def _functions(node: ast.AST, owner: str) -> Iterator[tuple[Any, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child, owner
        yield from _functions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _fits(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, code: types.CodeType) -> bool:
    """True for the syntax tree that code was made from."""
    args = node.args
    names = tuple(a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs))
    if names != code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return False
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return node.name == code.co_name and first == code.co_firstlineno


def _within(node: ast.AST) -> Iterator[ast.AST]:
    body = node.body if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
    for statement in body:
        yield from inside(statement)
