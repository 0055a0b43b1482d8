"""Options and small pieces of output that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

#: key of `Context.meta`: whether errors show their traceback
DEBUG = "aotarray.debug"

_F = TypeVar("_F", bound=Callable[..., Any])


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DEBUG] = True


def debug_option(function: _F) -> _F:
    """Add --debug, which every command takes."""
    option = click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_remember,
        help="Show the full traceback of an error.",
    )
    return option(function)


def control_flow_option(function: _F) -> _F:
    """Add --control-flow, of what traces a function."""
    option = click.option(
        "--control-flow",
        type=click.Choice(["python"]),
        help="'python' compiles the for, while and if of the function's source. Not needed for a function with"
        ' @aotarray.jit(control_flow="python").',
    )
    return option(function)


def size_text(count: int) -> str:
    """A number of bytes for people: `61 KB`."""
    if count < 1024:
        return f"{count} bytes"
    number = float(count)
    for unit in ("KB", "MB", "GB"):
        number /= 1024
        if number < 1000 or unit == "GB":
            break
    return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Gives a function that shows what is being done on one line of a terminal, and nothing elsewhere."""
    terminal = sys.stderr.isatty()

    def show(text: str) -> None:
        if terminal:
            click.echo(f"\r\x1b[2K{text} ...", err=True, nl=False)

    try:
        yield show
    finally:
        if terminal:
            click.echo("\r\x1b[2K", err=True, nl=False)
