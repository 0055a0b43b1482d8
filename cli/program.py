"""The `aotarray` command: its subcommands, and how errors leave it.

Exit codes: 0 done, 1 an error in what the user gave or in this machine, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path
from traceback import extract_tb
from typing import Any

import click

import aotarray
from aotarray.errors import AotarrayError

from .build import build
from .cache import cache
from .demo import demo
from .doctor import doctor
from .options import DEBUG, debug_option
from .show import show

_OTHER_FOLDERS = {
    Path(folder).resolve()
    for folder in (Path(__file__).parent, Path(aotarray.__file__).parent, sysconfig.get_path("stdlib"))
}


class Program(click.Group):
    """A group whose commands fail with one message, or with the traceback after --debug."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # click ends quietly when a reader such as `head` has gone
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
            raise click.exceptions.Exit(130) from None
        except Exception as error:
            if ctx.meta.get(DEBUG):
                raise
            raise click.ClickException(explain(error)) from error


def explain(error: Exception) -> str:
    """What a user needs to know of `error`: its message, and their own line if their code raised it."""
    if isinstance(error, AotarrayError):
        return str(error)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, OSError):
        return text
    frames = extract_tb(error.__traceback__)
    users = [frame for frame in frames if not _is_ours(frame.filename)]
    if users:
        text += f"\n  {users[-1].filename}, line {users[-1].lineno}: {users[-1].line}"
    return f"{text}\n(aotarray --debug ... shows the whole traceback)"


def _is_ours(filename: str) -> bool:
    """True for files that are not the user's: generated code, this package, other packages, Python's own."""
    if filename.startswith("<"):
        return True
    path = Path(filename).resolve()
    return "site-packages" in path.parts or not _OTHER_FOLDERS.isdisjoint(path.parents)


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `aotarray demo`; `aotarray COMMAND --help` explains each command.",
)
@click.version_option(aotarray.__version__, prog_name="aotarray")
@debug_option
def main() -> None:
    """Compile plain NumPy functions to machine code.

    A compiled function lives in a module that runs with Python and NumPy alone: no compiler, no Numba and
    no aotarray on the machine that uses it.
    """


for command in (build, show, demo, doctor, cache):
    main.add_command(command)
