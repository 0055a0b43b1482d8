"""`aotarray build`: functions to an extension module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from .loading import LoadError, Target, functions, load, short_name
from .options import control_flow_option, debug_option, progress, size_text

_SPECS_BEFORE = "aotarray.specs_before"


class _Build(click.Command):
    """Notes how many functions stood before each -s: a signature belongs to those written before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_SPECS_BEFORE] = _functions_before_specs(self, args)
        return super().parse_args(ctx, args)


def _functions_before_specs(command: click.Command, args: Sequence[str]) -> list[int]:
    takes_value = {
        name
        for option in command.params
        if isinstance(option, click.Option) and not option.is_flag
        for name in option.opts
    }
    counts: list[int] = []
    seen = 0
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            break
        if arg in takes_value:
            next(rest, None)
        name = arg.partition("=")[0]
        if name == "--spec" or (arg.startswith("-s") and not arg.startswith("--")):
            counts.append(seen)
        elif not arg.startswith("-"):
            seen += 1
    return counts


@click.command(cls=_Build)
@click.argument("targets", nargs=-1, required=True, metavar="MODULE:FUNCTION...")
@click.option(
    "-s",
    "--spec",
    "specs",
    multiple=True,
    metavar="SPEC",
    help="The types of the arguments, such as 'f64[n, m], f64[m]'. Repeat it to build several variants under"
    " one name.",
)
@click.option(
    "--name", metavar="NAME", help="Name of the module to write. [default: the source's name + _aot]"
)
@click.option(
    "--out",
    default="build",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write into.",
)
@click.option("--target", default="cpu", show_default=True, metavar="TARGET", help="What to make code for.")
@click.option(
    "--cpu",
    default="portable",
    show_default=True,
    metavar="LEVEL",
    help="'portable' runs on x86-64-v2 and later and picks the best code at load, 'native' is for this"
    " machine alone, or one level such as x86-64-v3.",
)
@control_flow_option
@debug_option
@click.pass_context
def build(
    ctx: click.Context,
    targets: tuple[str, ...],
    specs: tuple[str, ...],
    name: str | None,
    out: Path,
    target: str,
    cpu: str,
    control_flow: str | None,
) -> None:
    """Compile functions into a module that needs only Python and NumPy.

    MODULE:FUNCTION is a dotted module or a path to a file, and the function's name in it. Several functions
    go into one module. A function marked with @aotarray.export("...") needs no -s, and a module alone means
    all such functions in it.

    A spec says each argument's dtype and shape. Sizes with one name must be equal; 'f64[n, 3]' fixes the
    second size; 'float' and 'int' are Python numbers; 'A: inout f64[n]' is an array that the function writes into.

    \b
    Examples:
      aotarray build examples/black_scholes.py:price -s "f64[n], f64[n], f64[n]" --name fast
      aotarray build physics.heat:step -s "f64[n, m], float" -s "f32[n, m], float"
      aotarray build a.py:f -s "f64[n]" b.py:g -s "f64[n, m]" --name both
      aotarray build model.py                        # everything marked with @aotarray.export

    With several functions, a -s belongs to the functions written before it, back to the previous -s.
    """
    loaded = [load(reference) for reference in targets]
    from aotarray import api

    work = assign(loaded, specs, ctx.meta[_SPECS_BEFORE], api.exports)
    name = name or f"{short_name(loaded[0].module)}_aot"
    if not api.is_module_name(name):
        raise click.UsageError(f"'{name}' cannot be imported: --name takes a Python name such as fast_math")
    with progress() as show:
        options = {} if control_flow is None else {"control_flow": control_flow}
        result = api.build(work, name=name, out=out, target=target, cpu=cpu, progress=show, **options)
    for file in result.files:
        click.echo(f"{file}  {size_text(Path(file).stat().st_size)}")
    called = ", ".join(f"{name}.{api.function_name(function)}" for function, _ in work)
    click.echo(f"\nPut {Path(result.path).name} on Python's path, import {name}, and call {called}.")


Work = list[tuple[Callable[..., Any], list[str]]]


def assign(
    targets: list[Target],
    specs: Sequence[str],
    functions_before: Sequence[int],
    exports: Callable[[Any], Sequence[str]],
) -> Work:
    """Each function with its signatures: those given for it, else those it was exported with."""
    given: list[list[str]] = [[] for _ in targets]
    if all(count == 0 for count in functions_before):
        functions_before = [len(targets)] * len(specs)
    start = end = 0
    for spec, count in zip(specs, functions_before, strict=True):
        if count > end:
            start, end = end, count
        named = [index for index in range(start, end) if targets[index].attribute]
        for index in named or range(start, end):
            given[index].append(spec)
    work: Work = []
    for target, own in zip(targets, given, strict=True):
        if not target.attribute:
            work += _exported(target, own, exports)
            continue
        signatures = own or list(exports(target.value))
        if not signatures:
            raise LoadError(
                f'no signature for {target.attribute}: add -s "f64[n]" after it, or mark the function with'
                f' @aotarray.export("f64[n]")'
            )
        work.append((target.value, signatures))
    return work


def _exported(target: Target, specs: list[str], exports: Callable[[Any], Sequence[str]]) -> Work:
    own = functions(target.module)
    if specs:
        raise LoadError(
            f'which function is "{specs[0]}" for? Write {short_name(target.module)}:NAME{_one_of(own)}'
        )
    work: Work = [(function, list(exports(function))) for function in own.values() if exports(function)]
    if not work:
        raise LoadError(
            f"{short_name(target.module)} marks no function with @aotarray.export; name one, as in"
            f" {short_name(target.module)}:NAME, with -s{_one_of(own)}"
        )
    return work


def _one_of(names: dict[str, Any]) -> str:
    return f"\n  It has: {', '.join(sorted(names))}" if names else ""
