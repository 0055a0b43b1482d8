"""`aotarray cache`: where compiled code is kept, how much there is, and clearing it."""

from __future__ import annotations

import click

from .options import debug_option, size_text


@click.group(invoke_without_command=True)
@debug_option
@click.pass_context
def cache(ctx: click.Context) -> None:
    """Show or clear the cache of compiled code.

    aotarray.jit keeps machine code on disk, so that a program compiles a function once and not at every
    start. AOTARRAY_CACHE_DIR chooses the folder ("off" for none), AOTARRAY_CACHE_SIZE the limit, such as 2G.

    \b
    Examples:
      aotarray cache          # folder, number of entries, size
      aotarray cache clear    # delete them; they are compiled again when needed
    """
    if ctx.invoked_subcommand is not None:
        return
    from aotarray import api

    info = api.cache().info()
    if info.folder is None:
        click.echo(f"The cache is off: {info.reason}")
        return
    click.echo(f"folder   {info.folder}")
    click.echo(f"entries  {info.count}")
    click.echo(f"size     {size_text(info.bytes)} of at most {size_text(info.limit)}")


@cache.command()
@debug_option
def clear() -> None:
    """Delete every entry of the cache."""
    from aotarray import api

    count = api.cache().clear()
    click.echo(f"deleted {count} {'entry' if count == 1 else 'entries'}")
