"""Kernels as one Python module: plain loops over flat arrays, readable, deterministic, runnable as Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..loops import Break, For, If, Kernel, Let, Statement, Store

_COMMENT_COLUMN = 60
_CALL = re.compile(r"\b([a-z_][a-z_0-9]*)\(")
_BUILTIN = frozenset({"range", "min", "max", "bool", "if", "elif", "and", "or", "not", "in"})


def parameters(kernel: Kernel) -> list[str]:
    """The parameter names of the kernel's function, in order."""
    return [*(p.name for p in kernel.pointers), *(i.name for i in kernel.integers), "begin", "end"]


def emit_kernel(kernel: Kernel) -> str:
    """The source of one kernel."""
    lines = [f"def {kernel.name}({', '.join(parameters(kernel))}):"]
    _emit(kernel.body, 1, lines)
    return "\n".join(lines) + "\n"


def _emit(body: Sequence[Statement], depth: int, lines: list[str]) -> None:
    pad = "    " * depth
    for statement in body:
        if isinstance(statement, Let):
            lines.append(_commented(f"{pad}{statement.name} = {statement.expr}", statement.line))
        elif isinstance(statement, Store):
            lines.append(
                _commented(f"{pad}{statement.array}[{statement.index}] = {statement.expr}", statement.line)
            )
        elif isinstance(statement, For):
            step = f", {statement.step}" if statement.step else ""
            start = "" if statement.start == "0" and not step else f"{statement.start}, "
            lines.append(f"{pad}for {statement.var} in range({start}{statement.stop}{step}):")
            _emit(statement.body, depth + 1, lines)
        elif isinstance(statement, Break):
            lines.append(f"{pad}break")
        elif isinstance(statement, If):
            choice, word = statement, "if"
            while True:
                lines.append(f"{pad}{word} {choice.test}:")
                _emit(choice.then, depth + 1, lines)
                if len(choice.orelse) != 1 or not isinstance(choice.orelse[0], If):
                    break
                choice, word = choice.orelse[0], "elif"
            if choice.orelse:
                lines.append(f"{pad}else:")
                _emit(choice.orelse, depth + 1, lines)
    if not body:
        lines.append(f"{pad}pass")


def _commented(text: str, comment: str) -> str:
    return f"{text:<{_COMMENT_COLUMN}}# {comment}" if comment else text


def called_names(source: str) -> list[str]:
    """The scalar functions and constructors that a kernel's source uses, sorted."""
    body = "\n".join(line.split("#")[0] for line in source.splitlines() if not line.startswith("def "))
    found = set(_CALL.findall(body)) - _BUILTIN
    found |= {name for name in ("nan", "inf") if re.search(rf"\b{name}\b", body)}
    return sorted(found)


def emit_module(title: str, kernels: Iterable[Kernel]) -> str:
    """The source of a program's kernels, with what it imports."""
    parts = [emit_kernel(k) for k in kernels]
    names = sorted({n for part in parts for n in called_names(part)})
    head = [f"# {title}"]
    if names:
        head.append(f"from aotarray.vecmath.plain import {', '.join(names)}")
    return "\n".join(head) + "\n\n\n" + "\n\n".join(parts)
