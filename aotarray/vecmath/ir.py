"""LLVM IR text that defines scalar functions, ready to be linked into a kernel's module and inlined there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from aotarray.vecmath.complex_functions import IMPORTED, pair_definition
from aotarray.vecmath.registry import BODIES, FUNCTIONS, LANES, RARE, Body
from aotarray.vecmath.trace import LLVM, PURE, Builder

Parts = tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], tuple[str, ...]]


def symbol(name: str, dtype: str) -> str:
    """The name of the definition of function `name` for arguments of `dtype`: `aot_sin_f64`."""
    return f"aot_{name}_{dtype}"


def split_symbol(text: str) -> tuple[str, str]:
    """The inverse of `symbol`; `KeyError` for what is not defined here."""
    name, _, dtype = text.removeprefix("aot_").rpartition("_")
    if not text.startswith("aot_") or (name, dtype) not in BODIES:
        raise KeyError(f"no scalar function {text}")
    return name, dtype


def signature(text: str) -> tuple[str, tuple[str, ...]]:
    """The result's dtype and the arguments' dtypes of a symbol; `b1` is `i1` in the IR."""
    name, dtype = split_symbol(text)
    function = FUNCTIONS[name]
    return function.result_dtype(dtype), (dtype,) * function.arity


def definitions(symbols: Iterable[str]) -> str:
    """One module that defines `symbols` and all they call, as internal functions to be inlined.

    The same symbols, in any order, give the same text. What it declares but does not define are LLVM
    intrinsics and the launcher's `aot_c_*`. Functions named in `llvm.compiler.used` are the vector forms of
    rare calls: link and inline the others before vectorising, inline those (they are `alwaysinline`) after.
    """
    texts: dict[str, str] = {}
    declares: dict[str, str] = {}
    tables: dict[str, str] = {}
    used: list[str] = []
    pending = sorted(set(symbols), reverse=True)
    while pending:
        name = pending.pop()
        if name in texts:
            continue
        texts[name], called, found, vectors = _define(name)
        tables.update(found)
        used += vectors
        for callee, declare in called:
            if callee.startswith(("llvm.", "aot_c_")):
                declares[callee] = declare
            else:
                pending.append(callee)
    lines = sorted(tables.values()) + sorted(declares.values()) + [texts[name] for name in sorted(texts)]
    if used:
        listed = ", ".join(f"ptr @{name}" for name in sorted(used))
        lines.append(
            f'@llvm.compiler.used = appending global [{len(used)} x ptr] [{listed}], section "llvm.metadata"'
        )
    return "\n".join(lines) + "\n"


@cache
def _define(name: str) -> Parts:
    if name.startswith("aot_exact_fma_"):
        return _exact_fma(name.removeprefix("aot_exact_fma_"))
    if name.removeprefix("aot_complex_").rpartition("_")[0] in IMPORTED.values():
        text, declared = pair_definition(name)
        return text, (declared,), (), ()
    if name.removeprefix("aot_") in RARE:
        return _rare(name, *RARE[name.removeprefix("aot_")])
    function, dtype = split_symbol(name)
    result, arguments = signature(name)
    builder = Builder()
    value = BODIES[function, dtype](*(builder.argument(i, t) for i, t in enumerate(arguments)))
    builder.lines.append(f"  ret {builder.type(result)} {value.text}")
    header = f"define internal {LLVM[result]} @{name}({_parameters(builder, arguments)}) alwaysinline {PURE}"
    return _function(header, builder), _called(builder), tuple(builder.tables.items()), ()


def _parameters(builder: Builder, dtypes: tuple[str, ...]) -> str:
    return ", ".join(f"{builder.type(t)} %a{i}" for i, t in enumerate(dtypes))


def _called(builder: Builder) -> tuple[tuple[str, str], ...]:
    return tuple(builder.called.items())


def _function(header: str, builder: Builder) -> str:
    return header + " {\n" + "\n".join(builder.lines) + "\n}"


def _rare(name: str, dtype: str, condition: Body, body: Body) -> Parts:
    """The scalar call, never inlined, that decides and computes; and its vector forms, that ask any lane."""
    arity = body.__code__.co_argcount
    element = LLVM[dtype]
    scalar = Builder()
    operands = [scalar.argument(i, dtype) for i in range(arity)]
    needed = condition(*operands)
    scalar.lines += [
        f"  br i1 {needed.text}, label %long, label %short",
        "short:",
        f"  ret {element} zeroinitializer",
        "long:",
    ]
    value = body(*operands)
    scalar.lines.append(f"  ret {element} {value.text}")
    dtypes = (dtype,) * arity
    texts = [
        _function(
            f"define internal {element} @{name}({_parameters(scalar, dtypes)}) cold noinline {PURE}", scalar
        )
    ]
    called = dict(scalar.called)
    for lanes in LANES:
        text, callees = _vector_form(name, dtype, arity, lanes, condition)
        texts.append(text)
        called.update(callees)
    vectors = tuple(f"{name}_x{lanes}" for lanes in LANES)
    return "\n".join(texts), tuple(called.items()), tuple(scalar.tables.items()), vectors


def _vector_form(
    name: str, dtype: str, arity: int, lanes: int, condition: Body
) -> tuple[str, dict[str, str]]:
    """A rare call of all lanes: zero where no lane needs it, else the scalar call of each, through memory."""
    builder = Builder(lanes)
    operands = [builder.argument(i, dtype) for i in range(arity)]
    needed = condition(*operands)
    lines, kind, element = builder.lines, builder.type(dtype), LLVM[dtype]
    buffers = [*(f"%s{i}" for i in range(arity)), "%out"]
    parameters = _parameters(builder, (dtype,) * arity)
    header = f"define internal {kind} @{name}_x{lanes}({parameters}) alwaysinline minsize optsize {PURE}"
    lines[:0] = [f"  {buffer} = alloca {kind}" for buffer in buffers]
    lines += [
        f"  %mask = bitcast <{lanes} x i1> {needed.text} to i{lanes}",
        f"  %none = icmp eq i{lanes} %mask, 0",
        "  br i1 %none, label %end, label %long",
        "long:",
        *(f"  store {kind} %a{i}, ptr %s{i}" for i in range(arity)),
        "  br label %lane",
        "lane:",
        "  %i = phi i64 [ 0, %long ], [ %next, %lane ]",
    ]
    for i in range(arity):
        lines.append(f"  %at{i} = getelementptr {element}, ptr %s{i}, i64 %i")
        lines.append(f"  %e{i} = load {element}, ptr %at{i}")
    listed = ", ".join(f"{element} %e{i}" for i in range(arity))
    lines += [
        f"  %r = call {element} @{name}({listed})",
        f"  %to = getelementptr {element}, ptr %out, i64 %i",
        f"  store {element} %r, ptr %to",
        "  %next = add i64 %i, 1",
        f"  %more = icmp ult i64 %next, {lanes}",
        "  br i1 %more, label %lane, label %done",
        "done:",
        f"  %all = load {kind}, ptr %out",
        "  br label %end",
        "end:",
        f"  %result = phi {kind} [ zeroinitializer, %0 ], [ %all, %done ]",
        f"  ret {kind} %result",
    ]
    return _function(header, builder), builder.called


def _exact_fma(dtype: str) -> Parts:
    kind, intrinsic = LLVM[dtype], f"llvm.fma.{dtype}"
    declare = f"declare {kind} @{intrinsic}({kind}, {kind}, {kind}) {PURE}"
    operands = f"{kind} %a, {kind} %b, {kind} %c"
    text = (
        f"define internal {kind} @aot_exact_fma_{dtype}({operands}) alwaysinline {PURE} {{\n"
        f"  %r = call {kind} @{intrinsic}({operands})\n"
        f"  ret {kind} %r\n}}"
    )
    return text, ((intrinsic, declare),), (), ()


# Dekker's product (Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., section 4.4) and, for
# float32, the product in float64, which is exact.
_WITHOUT_FMA = {
    "double": """  %sa = fmul double %a, 0x41A0000002000000
  %da = fsub double %sa, %a
  %ha = fsub double %sa, %da
  %la = fsub double %a, %ha
  %sb = fmul double %b, 0x41A0000002000000
  %db = fsub double %sb, %b
  %hb = fsub double %sb, %db
  %lb = fsub double %b, %hb
  %p = fmul double %a, %b
  %hh = fmul double %ha, %hb
  %e0 = fsub double %hh, %p
  %hl = fmul double %ha, %lb
  %e1 = fadd double %e0, %hl
  %lh = fmul double %la, %hb
  %e2 = fadd double %e1, %lh
  %ll = fmul double %la, %lb
  %e = fadd double %e2, %ll
  %s = fadd double %p, %c
  %r = fadd double %s, %e""",
    "float": """  %da = fpext float %a to double
  %db = fpext float %b to double
  %dc = fpext float %c to double
  %p = fmul double %da, %db
  %s = fadd double %p, %dc
  %r = fptrunc double %s to float""",
}
_FMA = re.compile(r"^  (%\S+) = call (.+?) @llvm\.fma\.\w+\(\2 (.+), \2 (.+), \2 (.+)\)$", re.MULTILINE)


def without_fma(ir: str) -> str:
    """The text of `definitions` for machines without fused multiply-add: two roundings where that does.

    Values may differ in the last bits from those of machines that have it; they keep the accuracy contract.
    """
    for kind, body in _WITHOUT_FMA.items():
        dtype = "f64" if kind == "double" else "f32"
        fused = f"  %r = call {kind} @llvm.fma.{dtype}({kind} %a, {kind} %b, {kind} %c)"
        ir = ir.replace(fused, body)
    return _FMA.sub(r"  \1.p = fmul \2 \3, \4\n  \1 = fadd \2 \1.p, \5", ir)
