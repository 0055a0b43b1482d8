"""The generated C file of a built module: its programs, constants and kernels as `module.h` declares them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotarray.program import Program
from aotarray.runtime.encode import encode_words

Tree = tuple[Any, ...]  # as program.py describes

_KINDS = ("leaf", "none", "tuple", "list", "dict")
_ENTRY = "struct _object *call{}(struct _object *m, struct _object *const *a, ssize_t n, struct _object *k)"
_PLAIN = re.compile(r"[\w \[\]().,:;*+='<>/!$|&{}-]", re.ASCII)
_OWN = ("get_num_threads", "set_num_threads")  # what the launcher puts into every module


@dataclass(frozen=True, slots=True)
class Overload:
    """One version of a function: its program, the trees of its parameters and of its result.

    `spec` is for people, in signatures and errors: "(x: f64[n], y: f64[n])".
    """

    program: Program
    parameters: tuple[Tree, ...]
    result: Tree
    spec: str


@dataclass(frozen=True, slots=True)
class Function:
    """A public function: overloads are tried in order and the first that fits is run."""

    name: str
    parameters: tuple[str, ...]
    doc: str
    overloads: tuple[Overload, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """Machine code for one kind of CPU: kernel `k` is the symbol `k_<suffix>`.

    `name` is the module's `__variant__` and what AOTARRAY_CPU asks for; `level` the x86-64 level that a
    CPU must have (0: any).
    """

    suffix: str
    name: str
    level: int


X86_VARIANTS = tuple(Variant(f"v{n}", f"x86-64-v{n}", n) for n in (2, 3, 4))


def module_data(
    name: str, functions: Sequence[Function], variants: Sequence[Variant] = X86_VARIANTS, doc: str = ""
) -> str:
    """C text that makes the module `name` (its last dotted part names PyInit) of `functions`.

    It is compiled with the folder of `module.h` as include path and linked with `launcher.c`, compiled
    with -DAOTARRAY_MODULE, and with every kernel of every variant. Raises ValueError for names that
    clash or are no identifiers, and for programs that refer to what they lack.
    """
    _verify(name, functions, variants)
    return "\n".join(_Writer(name, functions, sorted(variants, key=lambda v: v.level), doc).lines()) + "\n"


def _verify(name: str, functions: Sequence[Function], variants: Sequence[Variant]) -> None:
    if not all(part.isidentifier() and part.isascii() for part in name.split(".")):
        raise ValueError(f"module name {name!r} is not a name")
    if not functions or not variants:
        raise ValueError(f"module {name!r} has no functions or no variants")
    seen: set[str] = set(_OWN)
    for function in functions:
        if function.name in seen or not function.name.isidentifier():
            raise ValueError(f"module {name!r} cannot have a function (or another) named {function.name!r}")
        seen.add(function.name)
        if "out" in function.parameters:
            raise ValueError(f"{function.name}(): a parameter cannot be named 'out', where results are put")
        if not function.overloads:
            raise ValueError(f"{function.name}() has no versions")
        for overload in function.overloads:
            if len(overload.parameters) != len(function.parameters):
                raise ValueError(f"{function.name}(): a version has {len(overload.parameters)} parameters")
            found = sorted(leaf for tree in overload.parameters for leaf in _leaves(tree))
            if found != list(range(len(overload.program.args))):
                raise ValueError(f"{function.name}(): the leaves of the parameters are {found}")
            if any(leaf >= len(overload.program.outputs) for leaf in _leaves(overload.result)):
                raise ValueError(f"{function.name}(): the result has more leaves than the program outputs")


def _leaves(tree: Tree) -> Iterator[int]:
    if tree[0] == "leaf":
        yield tree[1]
    elif tree[0] != "none":
        for child in tree[-1]:
            yield from _leaves(child)


class _Writer:
    def __init__(
        self, name: str, functions: Sequence[Function], variants: Sequence[Variant], doc: str
    ) -> None:
        self.name = name
        self.functions = functions
        self.variants = variants
        self.doc = doc
        self.keys: list[str] = []
        self.overloads = [overload for function in functions for overload in function.overloads]
        self.kernels = [kernel for overload in self.overloads for kernel in overload.program.kernels]

    def lines(self) -> Iterator[str]:
        yield f"/* Module {self.name}: data for the launcher. Written by aotarray. */"
        yield '#include "module.h"'
        yield ""
        for number, overload in enumerate(self.overloads):
            yield from self.program(number, overload)
        yield from self.kernel_tables()
        yield from self.function_tables()
        keys = ", ".join(map(_text, self.keys)) or "0"
        yield f"static const char *const strings[] = {{{keys}}};"
        yield (
            f"static const aot_module module = {{{_text(self.name)}, {_text(self.doc)}, functions, "
            f"{len(self.functions)}, variants, {len(self.variants)}, {len(self.overloads)}, strings}};"
        )
        init = "PyInit_" + self.name.rpartition(".")[2]
        yield f"AOT_EXPORT struct _object *{init}(void);"
        yield f"struct _object *{init}(void) {{ return aot_module_init(&module); }}"

    def program(self, number: int, overload: Overload) -> Iterator[str]:
        yield f"/* {overload.program.name}{overload.spec.replace('*/', '* /')} */"
        yield from _array(f"words{number}", "int64_t", encode_words(overload.program))
        constants = overload.program.constants
        if constants:
            padded = constants + bytes(-len(constants) % 8)
            words = [int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8)]
            yield from _array(f"constants{number}", "uint64_t", words, "_Alignas(64) ")
        parameters = [word for tree in overload.parameters for word in self.tree(tree)]
        yield from _array(f"parameters{number}", "int64_t", parameters or [0])
        yield from _array(f"result{number}", "int64_t", self.tree(overload.result))
        yield ""

    def tree(self, tree: Tree) -> list[int]:
        kind = _KINDS.index(tree[0])
        if tree[0] == "leaf":
            return [kind, tree[1]]
        if tree[0] == "none":
            return [kind]
        keys = []
        for key in tree[1] if tree[0] == "dict" else ():
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} of a dict is not a str")
            if key not in self.keys:
                self.keys.append(key)
            keys.append(self.keys.index(key))
        return [kind, len(tree[-1]), *keys, *(word for child in tree[-1] for word in self.tree(child))]

    def kernel_tables(self) -> Iterator[str]:
        for variant in self.variants:
            symbols = [f"{kernel}_{variant.suffix}" for kernel in self.kernels]
            for symbol in sorted(set(symbols)):
                yield f"AOT_HIDDEN void {symbol}(void *const *, const int64_t *, void *, int64_t, int64_t);"
            yield f"static const aot_kernel kernels_{variant.suffix}[] = {{{', '.join(symbols) or '0'}}};"
        rows = ", ".join(f"{{{_text(v.name)}, {v.level}, kernels_{v.suffix}}}" for v in self.variants)
        yield f"static const aot_variant variants[] = {{{rows}}};"
        yield ""

    def function_tables(self) -> Iterator[str]:
        number = kernel = 0
        for i, function in enumerate(self.functions):
            names = ", ".join(map(_text, function.parameters)) or "0"
            yield f"static const char *const names{i}[] = {{{names}}};"
            yield f"static const aot_overload overloads{i}[] = {{"
            for overload in function.overloads:
                constants = f"constants{number}" if overload.program.constants else "0"
                flat, spec = int(_is_flat(overload)), _text(overload.spec)
                yield (
                    f"    {{{number}, words{number}, sizeof words{number} / 8, {constants}, "
                    f"{kernel}, {flat}, parameters{number}, result{number}, {spec}}},"
                )
                number += 1
                kernel += len(overload.program.kernels)
            yield "};"
            yield f"static {_ENTRY.format(i)};"
        yield "static const aot_function functions[] = {"
        for i, function in enumerate(self.functions):
            signature = f"{function.name}({', '.join([*function.parameters, '*', 'out=None'])})\n--\n\n"
            yield (
                f"    {{{_text(function.name)}, {_text(signature + function.doc)}, call{i}, names{i}, "
                f"{len(function.parameters)}, overloads{i}, {len(function.overloads)}}},"
            )
        yield "};"
        for i in range(len(self.functions)):
            yield f"static {_ENTRY.format(i)} {{ (void)m; return aot_call(&functions[{i}], a, n, k); }}"


def _is_flat(overload: Overload) -> bool:
    return overload.result == ("leaf", 0) and all(t == ("leaf", i) for i, t in enumerate(overload.parameters))


def _array(name: str, ctype: str, words: Sequence[int], before: str = "") -> Iterator[str]:
    yield f"{before}static const {ctype} {name}[] = {{"
    for i in range(0, len(words), 12):
        yield "    " + ", ".join(map(_word, words[i : i + 12])) + ","
    yield "};"


def _word(word: int) -> str:
    return str(word) if -(2**31) < word < 2**31 else f"(int64_t)0x{word & (2**64 - 1):x}"


def _text(text: str) -> str:
    """A C string literal. Octal escapes have three digits, so no later character joins them."""
    return '"' + "".join(_characters(text.encode())) + '"'


def _characters(data: bytes) -> Iterable[str]:
    for byte in data:
        character = chr(byte)
        yield character if _PLAIN.match(character) else f"\\{byte:03o}"
