"""Kernel source to unoptimised LLVM IR through Numba, once a kernel, without wrappers or reference counts."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Sequence
from typing import Any

from ..emit.cpu import called_names, emit_kernel, parameters
from ..errors import CompileError
from ..loops import Kernel
from ..vecmath import FUNCTIONS, symbol

CODES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64")


@functools.cache
def _types() -> dict[str, Any]:
    from numba import types

    names = {"i": "int", "u": "uint", "f": "float"}
    table = {code: getattr(types, names[code[0]] + code[1:]) for code in CODES}
    return table | {"b1": types.boolean}


@functools.cache
def _code_of() -> dict[Any, str]:
    return {t: c for c, t in _types().items()}


def _plain(kind: Any) -> Any:
    """The type without a literal's value."""
    from numba import types

    return types.unliteral(kind)


@functools.cache
def _scalar_function(name: str) -> Any:
    """A Numba intrinsic that calls `aot_<name>_<dtype>`; the definition is linked in later."""
    from llvmlite import ir
    from numba.core import cgutils
    from numba.extending import intrinsic

    function = FUNCTIONS[name]

    def typed(operands: Sequence[Any]) -> tuple[Any, Any]:
        code = _code_of()[_plain(operands[0])]
        result = _types()[function.result_dtype(code)]
        called = symbol(name, code)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = [context.get_value_type(a) for a in signature.args]
            kind = ir.FunctionType(context.get_value_type(signature.return_type), kinds)
            target = cgutils.get_or_insert_function(builder.module, kind, called)
            return builder.call(target, arguments)

        return result(*(_types()[code] for _ in operands)), generate

    if function.arity == 1:

        @intrinsic
        def call1(typingctx: Any, a: Any) -> Any:
            return typed((a,))

        return call1
    if function.arity == 2:

        @intrinsic
        def call2(typingctx: Any, a: Any, b: Any) -> Any:
            return typed((a, b))

        return call2

    if function.arity == 4:

        @intrinsic
        def call4(typingctx: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
            return typed((a, b, c, d))

        return call4

    @intrinsic
    def call3(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
        return typed((a, b, c))

    return call3


@functools.cache
def _core_functions() -> dict[str, Any]:
    """Dtype constructors and the intrinsics that generated source uses beside scalar functions."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def where(typingctx: Any, test: Any, a: Any, b: Any) -> Any:
        result = typingctx.unify_types(_plain(a), _plain(b))

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.select(*arguments)

        return result(types.boolean, result, result), generate

    def extreme(predicate: str) -> Any:
        @intrinsic
        def pick(typingctx: Any, a: Any, b: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return builder.select(builder.icmp_signed(predicate, *arguments), *arguments)

            return types.int64(types.int64, types.int64), generate

        return pick

    def reordered(operation: str) -> Any:
        @intrinsic
        def fast(typingctx: Any, a: Any, b: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return getattr(builder, operation)(*arguments, flags=("reassoc",))

            return _plain(a)(_plain(a), _plain(a)), generate

        return fast

    def extreme_fold(name: str) -> Any:
        @intrinsic
        def fold(typingctx: Any, a: Any, b: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                kind = arguments[0].type
                target = builder.module.declare_intrinsic(
                    f"llvm.{name}", [kind], ir.FunctionType(kind, [kind, kind])
                )
                return builder.call(target, arguments)

            return _plain(a)(_plain(a), _plain(a)), generate

        return fold

    table: dict[str, Any] = {t.name: t for c, t in _types().items() if c != "b1"}
    table |= {"fold_max": extreme_fold("maximum"), "fold_min": extreme_fold("minimum")}
    table |= {
        "min": extreme("<"),
        "max": extreme(">"),
        "where": where,
        "fast_add": reordered("fadd"),
        "fast_multiply": reordered("fmul"),
        "bool": types.boolean,
    }
    return table


def namespace(names: Sequence[str]) -> dict[str, Any]:
    """What the free names of a kernel's source stand for under Numba."""
    core = _core_functions()
    found: dict[str, Any] = {"nan": float("nan"), "inf": float("inf"), "min": core["min"], "max": core["max"]}
    for name in names:
        if name in core:
            found[name] = core[name]
        elif name in FUNCTIONS:
            found[name] = _scalar_function(name)
        elif name not in found:
            raise CompileError(f"generated source calls {name}, which has no definition")
    return found


def kernel_ir(kernel: Kernel) -> tuple[str, str]:
    """Numba's IR of one kernel, before any optimisation, and the name of its function there."""
    from numba import types
    from numba.core.compiler import Flags, compile_extra
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    source = emit_kernel(kernel)
    function = _executed(kernel.name, source)
    table = _types()
    pointers = [types.CPointer(table[p.code]) for p in kernel.pointers]
    integers = [types.int64] * (len(parameters(kernel)) - len(pointers))
    flags = Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.error_model = "numpy"
    modules: list[Any] = []
    with global_compiler_lock:
        context = _context()
        library = context.codegen().create_library(kernel.name)
        library.add_ir_module = modules.append
        try:
            result = compile_extra(
                cpu_target.typing_context, context, function, (*pointers, *integers), types.none, flags,
                locals={}, library=library, pipeline_class=_pipeline(),
            )  # fmt: skip
        except Exception as error:
            raise CompileError(
                f"Numba refused the generated source of {kernel.name}:\n{source}\n{error}"
            ) from error
    (module,) = modules
    # Numba promises LLVM that signed integers do not overflow; NumPy's wrap.
    return str(module).replace(" nsw ", " "), result.fndesc.llvm_func_name


@functools.cache
def _pipeline() -> Any:
    """Numba's passes without those that rewrite its IR: generated source needs none of them."""
    from numba.core import typed_passes, untyped_passes
    from numba.core.compiler import CompilerBase
    from numba.core.compiler_machinery import PassManager

    class Kernels(CompilerBase):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            manager = PassManager("aotarray")
            manager.add_pass(untyped_passes.TranslateByteCode, "bytecode to IR")
            manager.add_pass(untyped_passes.FixupArgs, "arguments")
            manager.add_pass(untyped_passes.IRProcessing, "liveness")
            manager.add_pass(typed_passes.NopythonTypeInference, "types")
            manager.add_pass(typed_passes.NativeLowering, "LLVM IR")
            manager.add_pass(typed_passes.NoPythonBackend, "result")
            manager.finalize()
            return [manager]

    return Kernels


@functools.cache
def _context() -> Any:
    from numba.core.registry import cpu_target

    return cpu_target.target_context.with_aot_codegen("aotarray")


def _executed(name: str, source: str) -> Any:
    """The function object of the source, with the source known to tracebacks."""
    filename = f"<aotarray {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = namespace(called_names(source))
    exec(compile(source, filename, "exec"), scope)
    return scope[name]
