"""`aotarray demo`: builds an example, imports it in a fresh process, runs it beside NumPy."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from .options import debug_option, progress, size_text

SPEC = "f64[n], f64[n], f64[n]"
NAME = "aotarray_demo"
#: Prices reach about 100 and differ from NumPy's by a few roundings.
TOLERANCE = 1e-11


@click.command()
@click.option(
    "--out",
    default="build",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write the module into.",
)
@click.option("--options", "count", default=1_000_000, show_default=True, help="How many options to price.")
@debug_option
def demo(out: Path, count: int) -> None:
    """Build an example, import it, and run it beside NumPy.

    The example prices options by Black and Scholes: two dozen NumPy operations that become one loop. The
    module is imported by a new Python process, which has NumPy and nothing of aotarray.
    """
    if count < 1:
        raise click.UsageError("--options takes a number of at least 1")
    from aotarray import api

    from .demo_functions import price

    click.echo(f'Building price(s, k, t) for "{SPEC}"')
    start = time.perf_counter()
    with progress() as show:
        result = api.build([(price, [SPEC])], name=NAME, out=out, target="cpu", cpu="portable", progress=show)
    path = Path(result.path).resolve()
    click.echo(f"  {time.perf_counter() - start:.1f} s, {size_text(path.stat().st_size)}: {path}")
    click.echo(f"Running it beside NumPy on {count:,} options, in a new process")
    report = run_beside_numpy(path.parent, count)
    difference = report["difference"]
    numpy, compiled = report["numpy_ms"], report["compiled_ms"]
    click.echo(f"  NumPy     {numpy:8.2f} ms")
    click.echo(f"  compiled  {compiled:8.2f} ms   ({numpy / compiled:.1f} times as fast)")
    click.echo(f"  largest difference {difference:.1e}, in prices up to {report['largest']:.0f}")
    if not difference <= TOLERANCE:
        raise click.ClickException(f"the results differ by {difference:.1e}: please report this as a bug")
    if report["loaded"]:
        raise click.ClickException(
            f"the module loaded {', '.join(report['loaded'])}: please report this as a bug"
        )
    click.echo("  in that process: numba not loaded, llvmlite not loaded, aotarray not loaded")
    click.echo(f"\nUse it from {path.parent}:  import {NAME}; call, put = {NAME}.price(s, k, t)")
    click.echo('Compile your own:  aotarray build FILE.py:FUNCTION -s "f64[n]"')


def run_beside_numpy(folder: Path, count: int) -> dict[str, Any]:
    """What `demo_process.py` found, run by a Python that does not see this package's folder first."""
    script = Path(__file__).with_name("demo_process.py")
    process = subprocess.run(
        [sys.executable, "-P", str(script), str(folder), NAME, str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise click.ClickException(f"the new process failed:\n{process.stderr.strip()}")
    report: dict[str, Any] = json.loads(process.stdout)
    return report
