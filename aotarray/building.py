"""Ahead of time: functions and specs to an extension module."""

from __future__ import annotations

import inspect
import itertools
import keyword
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import compiler, spec
from .aot import extension
from .aot.extension import BuildResult
from .aot.module_data import X86_VARIANTS, Function, Overload
from .errors import SpecError, UnsupportedError
from .fusion.schedule import Plan
from .signature import Bound, Signature, function_name
from .trace.entry import trace_function
from .trace.flow.source import with_control_flow
from .trace.trees import Structure


def export(*specs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a function with the specs that `aotarray build` compiles it for.

    >>> @export("f64[n], f64[n]", "f32[n], f32[n]")
    ... def norm(x, y):
    ...     return np.hypot(x, y)
    """
    for text in specs:
        spec.parse(text)

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__aotarray_specs__ = (*getattr(function, "__aotarray_specs__", ()), *specs)  # type: ignore[attr-defined]
        return function

    return mark


def exports(function: Any) -> tuple[str, ...]:
    """The specs that `export` marked a function with."""
    found: tuple[str, ...] = getattr(getattr(function, "_function", function), "__aotarray_specs__", ())
    return found


def build(
    functions: Callable[..., Any] | Sequence[Any], *specs: str,
    name: str | None = None, out: str | Path = "build", target: str = "cpu", cpu: str = "portable",
    progress: Callable[[str], None] | None = None, control_flow: str | None = None,
) -> BuildResult:  # fmt: skip
    """Compile functions ahead of time into an extension module that needs only Python and NumPy.

    `functions` is one function, with its `specs`, or a list of (function, specs) and of functions marked
    with `export`. The module `name` is
    written into the folder `out` with a stub (`.pyi`), the generated source and a manifest. `cpu` is
    "portable" (code for x86-64-v2, v3 and v4, chosen when the module loads), "native", or one such level.
    `control_flow` is that of `jit`, for functions that `jit` has not compiled.

    Raises SpecError for a spec that does not fit, TraceError for what cannot be compiled, LinkError
    when there is no linker or the folder cannot be written.
    """
    if target != "cpu":
        raise UnsupportedError(f"target {target!r} is not available; targets: cpu")
    given: Any = [(functions, specs or exports(functions))] if callable(functions) else functions
    work = [item if isinstance(item, tuple) else (item, exports(item)) for item in given]
    work = [(f if hasattr(f, "_function") else with_control_flow(f, control_flow), texts) for f, texts in work]
    called = [function_name(function) for function, _ in work]
    if len(set(called)) != len(called):
        twice = next(n for n in called if called.count(n) > 1)
        raise SpecError(f"two functions are called {twice!r}: name them apart (a lambda is called 'function')")
    name = name or f"{function_name(work[0][0])}_aot"
    if not is_module_name(name):
        raise SpecError(f"{name!r} cannot be imported: a module's name is a Python name such as fast_math")
    levels = _levels(cpu)
    say = progress or (lambda line: None)
    made, objects, sources = [], [], []
    for function, texts in work:
        if not texts:
            raise SpecError(
                f'{function_name(function)}: give a spec, such as "f64[n]", or mark the function with aotarray.export'
            )
        overloads = []
        for k, text in enumerate(texts):
            say(f"{function_name(function)}({text})")
            plan, overload = _overload(function, text, k)
            overloads.append(overload)
            objects += compiler.kernel_objects(plan, levels)
            sources.append(compiler.source_of(plan))
        names = overloads[0][1]
        for (_, other), text in zip(overloads, texts, strict=True):
            if other != names:
                raise SpecError(
                    f"{function_name(function)}: spec {text!r} names {', '.join(other)}, not {', '.join(names)}"
                )
        doc = _documented(function, [o for o, _ in overloads])
        made.append(Function(function_name(function), tuple(names), doc, tuple(o for o, _ in overloads)))
    say(f"linking {name}")
    variants = [v for v in X86_VARIANTS if v.suffix in levels]
    sidecars = {
        f"{name}.pyi": extension.stub(made),
        f"{name}.py.txt": "\n\n".join(sources),
        f"{name}.json": extension.manifest(name, made, variants, compiler.versions()),
    }
    return extension.write_extension(name, Path(out), made, variants, objects, sidecars, compiler.cache())


def is_module_name(name: str) -> bool:
    """Whether `import name` can mean a built module: NumPy's own name would hide NumPy from it."""
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name != "numpy"


def _levels(cpu: str) -> tuple[str, ...]:
    known = {v.name: v.suffix for v in X86_VARIANTS}
    if cpu == "portable":
        return tuple(known.values())
    if cpu == "native":
        return (compiler.host_level(),)
    if cpu in known:
        return (known[cpu],)
    raise SpecError(f"unknown cpu {cpu!r}; choose portable, native, {', '.join(known)}")


def _overload(
    function: Callable[..., Any], text: str, number: int
) -> tuple[Plan, tuple[Overload, list[str]]]:
    """One signature of a function, lowered, and how its arguments and results nest."""
    signature = getattr(function, "_signature", None)
    function = getattr(function, "_function", function)
    bound, types = (signature or Signature.of(function)).bind_spec(text)
    label = bound.function_name if number == 0 else f"{bound.function_name}__{number + 1}"
    traced = trace_function(function, label, types, bound.names, bound.rebuild, None, bound.inout)
    plan = compiler.plan_of(traced.graph)
    counter = itertools.count()
    parameters = tuple(s.tree(counter) for _, s in bound.parameters)
    shown = ", ".join(
        f"{n}: {'inout ' if _before(bound, n) in bound.inout and s.count() else ''}"
        f"{_shown(s, iter(types[_before(bound, n) :]))}"
        for n, s in bound.parameters
    )
    overload = Overload(plan.program, parameters, traced.result.tree(itertools.count()), f"({shown})")
    return plan, (overload, [n for n, _ in bound.parameters])


def _documented(function: Callable[..., Any], overloads: Sequence[Overload]) -> str:
    """The function's own docstring, and the types that it is compiled for."""
    own = inspect.getdoc(getattr(function, "_function", function))
    versions = [f"    {function_name(function)}{o.spec}" for o in overloads]
    return "\n".join([*([own, ""] if own else []), "Compiled for:", *versions])


def _before(bound: Bound, name: str) -> int:
    """How many leaves come before those of parameter `name`."""
    return sum(s.count() for n, s in itertools.takewhile(lambda item: item[0] != name, bound.parameters))


def _shown(structure: Structure, types: Any) -> str:
    """A parameter's type as the spec grammar writes it."""
    if structure.kind == "leaf":
        return str(next(types))
    if structure.kind == "none":
        return "None"
    children = [_shown(c, types) for c in structure.children]
    if structure.kind == "dict":
        return "{" + ", ".join(f'"{k}": {c}' for k, c in zip(structure.key, children, strict=True)) + "}"
    left, right = ("[", "]") if structure.kind == "list" else ("(", ",)" if len(children) == 1 else ")")
    return left + ", ".join(children) + right
