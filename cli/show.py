"""`aotarray show`: one stage of a function's compilation as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .loading import LoadError, load
from .options import control_flow_option, debug_option

#: stage -> how to get its text from the lowered function
STAGES: dict[str, Callable[[Any], Any]] = {
    "graph": lambda lowered: lowered.graph,
    "fused": lambda lowered: lowered.fused,
    "source": lambda lowered: lowered.source,
    "llvm": lambda lowered: lowered.llvm_ir,
    "asm": lambda lowered: lowered.asm,
}


@click.command()
@click.argument("target", metavar="MODULE:FUNCTION")
@click.option("-s", "--spec", metavar="SPEC", help="The types of the arguments, such as 'f64[n, m], f64[m]'.")
@click.option(
    "--stage",
    type=click.Choice(list(STAGES)),
    default="source",
    show_default=True,
    help="graph: the traced operations; fused: which share a loop, and what each loop reads and writes;"
    " source: the generated Python; llvm: LLVM IR; asm: machine code as assembly.",
)
@control_flow_option
@debug_option
def show(target: str, spec: str | None, stage: str, control_flow: str | None) -> None:
    """Print what a function becomes on its way to machine code.

    \b
    Examples:
      aotarray show examples/softmax.py:softmax -s "f64[n, m]" --stage fused
      aotarray show physics.heat:step -s "f64[n, m], float" --stage asm
    """
    loaded = load(target)
    if not loaded.attribute:
        raise LoadError(f"which function of {target}? Write {target}:NAME")
    from aotarray import api

    specs = [spec] if spec is not None else list(api.exports(loaded.value))
    if not specs:
        raise LoadError(f'no signature for {loaded.attribute}: add -s "f64[n]"')
    function = loaded.value if control_flow is None else api.jit(loaded.value, control_flow=control_flow)
    for one in specs:
        click.echo(str(STAGES[stage](api.lower(function, one))).rstrip("\n"))
