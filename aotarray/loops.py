"""The loop-nest IR: loops, lets, stores and conditionals over scalar expressions already spelled in Python.

A `Kernel` is one loop nest with its parameters. Statements are mutable lists while a nest is built and
are only read afterwards. Emitters turn them into source for a target.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from .sizes import Dim


@dataclass(slots=True)
class Let:
    """`name = expr`, once in its scope; `line` is the user's line."""

    name: str
    expr: str
    line: str = ""


@dataclass(slots=True)
class Store:
    """`array[index] = expr`."""

    array: str
    index: str
    expr: str
    line: str = ""


@dataclass(slots=True)
class For:
    """`for var in range(start, stop, step)`."""

    var: str
    start: str
    stop: str
    body: list[Statement] = field(default_factory=list)
    step: str = ""
    comment: str = ""


@dataclass(slots=True)
class If:
    """`if test: then  else: orelse`."""

    test: str
    then: list[Statement] = field(default_factory=list)
    orelse: list[Statement] = field(default_factory=list)


@dataclass(slots=True)
class Break:
    """Leave the innermost loop."""


Statement = Union[Let, Store, For, If, Break]


@dataclass(slots=True)
class Pointer:
    """A pointer parameter: `role` is "in", "out" or "scratch"; `buffer` keys the program's buffer.

    A scratch pointer starts `offset` bytes into the thread's scratch memory and holds `length` elements.
    """

    name: str
    code: str
    role: str
    buffer: int = -1
    offset: Dim = 0
    length: Dim = 0


@dataclass(slots=True)
class Integer:
    """An integer parameter: a size, or the stride of `buffer` along `axis` in elements.

    `usual` is the value that a stride has in every C-ordered array of this type (1 on the last axis), or 0
    when that depends on sizes: the compiled kernel has a fast path for when all are as usual.
    """

    name: str
    size: Dim = 0
    buffer: int = -1
    axis: int = -1
    usual: int = 0


@dataclass(slots=True)
class Kernel:
    """One loop nest. `count` is the extent of its parallel range, `work` its element evaluations."""

    name: str
    pointers: list[Pointer]
    integers: list[Integer]
    body: list[Statement]
    count: Dim
    work: Dim
    cost: int
    grain: int = 1
    scratch: Dim = 0
    collapse: tuple[tuple[str, ...], tuple[tuple[str, ...], ...], bool] | None = None
    summary: str = ""
    #: how often each op is computed for one element, and each node of the graph
    ops: dict[str, int] = field(default_factory=dict)
    computed: dict[int, int] = field(default_factory=dict)
